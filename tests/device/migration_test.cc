// A VM moves from one adapter to another by the protocol's migration messages. Two vfio-user clients act as
// the VMMs at both ends. The guest's driver and its peer notice nothing.
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <vector>

#include "moving_vm_fixture.h"
#include "support/vmm_bus.h"
#include "vfio_user/client.h"

namespace pvrdma::test {
namespace {

using vfio_user::Client;
using enum vfio_user::MigrationState;
using Bytes = std::vector<std::byte>;

// A VMM's end of an adapter's socket.
struct End {
  explicit End(const std::string& path) {
    auto connected = must(Client::connect(path));
    client = connected.get();
    bus = must(driver::VfioUserBus::create(std::move(connected)));
  }
  std::unique_ptr<driver::VfioUserBus> bus;
  Client* client;  // owned by the bus
};

int errno_of(const Result<>& result) {
  return result ? 0 : result.error().code;
}

class MigratingBus final : public VmmBus {
 public:
  explicit MigratingBus(End end) : VmmBus(std::move(end.bus)), client_(end.client) {}
  Client& client() { return *client_; }
  void go_on_at(End end) {
    bus_ = std::move(end.bus);
    client_ = end.client;
  }
  void leave() { bus_->disconnect(); }
  // The guest's memory as it is now.
  std::vector<Bytes> memory() const {
    std::vector<Bytes> all;
    for (const Map& map : maps()) {
      void* const at =
          ::mmap(nullptr, map.bytes, PROT_READ, MAP_SHARED, map.fd.get(), static_cast<off_t>(map.fd_offset));
      if (at == MAP_FAILED) throw std::runtime_error("the guest's memory cannot be seen");
      const auto* const first = static_cast<const std::byte*>(at);
      all.emplace_back(first, first + map.bytes);
      ::munmap(at, map.bytes);
    }
    return all;
  }

 private:
  Client* client_;
};

Bytes read_all(Client& client, std::size_t piece = 1000) {
  Bytes all;
  Bytes some(piece);
  while (true) {
    const std::size_t size = must(client.migration_read(some));
    all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(size));
    if (size < piece) return all;
  }
}

void write_all(Client& client, std::span<const std::byte> state) {
  for (; !state.empty(); state = state.subspan(std::min<std::size_t>(state.size(), 777)))
    must(client.migration_write(state.first(std::min<std::size_t>(state.size(), 777))));
}

class Migration : public MovingVmTest {
 protected:
  explicit Migration(const TestbenchOptions& options = options_of(GetParam())) : MovingVmTest(options) {}

  void SetUp() override {
    if (needs_another_host()) GTEST_SKIP() << "mapped doorbells need an x86 host";
    bus_ = open_on(0, std::make_unique<MigratingBus>(End(host_.socket_path(0))));
    connect_both();
    twin_ = host_.add_twin(0);
  }
  void TearDown() override {
    RcTest::TearDown();
    for (const std::uint32_t index : {from_, twin_})
      EXPECT_TRUE(eventually([&] { return !host_.info(index).connected; })) << index;
  }

  Client& here() { return bus_->client(); }
  // Stops the VM and returns its state.
  Bytes stop_and_read() {
    must(here().set_migration_state(kStop));
    must(here().set_migration_state(kStopCopy));
    return read_all(here());
  }
  // When the VMM is gone, its GIDs are free.
  void leave() {
    bus_->leave();
    EXPECT_TRUE(eventually([&] { return !host_.info(from_).connected; }));
  }
  void go_on_at(End there) {
    must(there.client->set_migration_state(kRunning));
    bus_->go_on_at(std::move(there));
    std::swap(from_, twin_);
  }
  End there() {
    End end(host_.socket_path(twin_));
    bus_->prepare(*end.bus);
    return end;
  }
  void move() {
    const Bytes state = stop_and_read();
    End next = there();
    leave();
    write_and_go_on(std::move(next), state);
  }
  void write_and_go_on(End next, std::span<const std::byte> state) {
    must(next.client->set_migration_state(kResuming));
    write_all(*next.client, state);
    must(next.client->set_migration_state(kStop));
    go_on_at(std::move(next));
  }

  MigratingBus* bus_ = nullptr;
  std::uint32_t from_ = 0;
  std::uint32_t twin_ = 0;
};

TEST_P(Migration, connections_go_on) {
  EXPECT_EQ(must(here().migration_flags()), vfio_user::kMigrationStopCopy);
  exchange(1);
  for (std::uint8_t round = 2; round < 5; ++round) {
    move();
    EXPECT_EQ(must(here().migration_state()), kRunning);
    exchange(round);
  }
}

// Requests that a posted before it stopped wait for receives. Requests that b posts meanwhile get no answer
// until a continues.
TEST_P(Migration, work_under_way_is_done_once) {
  a_->fill(0, 4000, 9);
  const Sge out = a_->sge(0, 4000);
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(a_->qp->post_send(wr::send(i, one(out))).ok());
  const std::uint64_t zero = 0;
  std::memcpy(a_->bytes(24'576), &zero, sizeof zero);
  const Bytes state = stop_and_read();
  for (std::uint64_t i = 0; i < 8; ++i) {
    const Sge result = b_->sge(40'960 + 8 * i, 8);
    ASSERT_TRUE(b_->qp->post_send(wr::fetch_add(i, one(result), a_->remote(24'576), 1)).ok());
  }
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(b_->recv(i, 4096 * i, 4000).ok());
  EXPECT_TRUE(eventually([&] { return host_.info(1).verbs_counters.timeouts != 0; })) << "b repeats";
  EXPECT_TRUE(is_empty(*b_->send_cq));
  EXPECT_TRUE(is_empty(*b_->recv_cq)) << "a sends nothing";
  End next = there();
  leave();
  write_and_go_on(std::move(next), state);
  for (const WorkCompletion& done : await(*a_->send_cq, 8)) EXPECT_TRUE(done.ok());
  for (const WorkCompletion& done : await(*b_->recv_cq, 8)) EXPECT_TRUE(done.ok());
  for (const WorkCompletion& done : await(*b_->send_cq, 8)) EXPECT_TRUE(done.ok());
  std::uint64_t sum = 0;
  std::memcpy(&sum, a_->bytes(24'576), sizeof sum);
  EXPECT_EQ(sum, 8u);
  EXPECT_TRUE(b_->holds(4096 * 7, 4000, 9));
  exchange(2);
}

// A peer that never repeats by itself is told to repeat.
TEST_P(Migration, peers_repeat_when_it_goes_on) {
  RcEndpoint patient(device(1), gid_of(1));
  RcEndpoint moving(device(0), gid_of(0));
  must(connect(moving, patient, {.timeout = 0}));
  must(here().set_migration_state(kStop));
  patient.fill(0, 1000, 5);
  const Sge out = patient.sge(0, 1000);
  ASSERT_TRUE(patient.qp->post_send(wr::write(1, one(out), moving.remote())).ok());
  EXPECT_TRUE(is_empty(*patient.send_cq));
  must(here().set_migration_state(kRunning));
  EXPECT_TRUE(await_one(*patient.send_cq).ok());
  EXPECT_TRUE(moving.holds(0, 1000, 5));
}

TEST_P(Migration, the_log_has_every_page_that_changed) {
  ASSERT_EQ(must(here().start_log(1u << 21)), 4096u);
  exchange(1);  // the rings' pages are known afterwards
  const auto report = [this](const VmmBus::Map& map) {
    return must(here().log_report({map.iova, map.bytes}, 4096));
  };
  for (int round = 0; round < 3; ++round) {
    // The guest is paused, and its peer writes.
    for (const VmmBus::Map& map : bus_->maps()) report(map);
    const std::vector<Bytes> before = bus_->memory();
    b_->fill(0, 20'000, static_cast<std::uint8_t>(100 + round));
    const Sge out = b_->sge(0, 20'000);
    ASSERT_TRUE(b_->qp->post_send(wr::write(1, one(out), a_->remote(4096))).ok());
    EXPECT_TRUE(await_one(*b_->send_cq).ok());
    const std::vector<Bytes> after = bus_->memory();
    std::size_t changed = 0;
    for (std::size_t i = 0; i < bus_->maps().size(); ++i) {
      const std::vector<std::byte> bits = report(bus_->maps()[i]);
      for (std::size_t page = 0; page < after[i].size() / 4096; ++page) {
        if (std::memcmp(&before[i][page * 4096], &after[i][page * 4096], 4096) == 0) continue;
        ++changed;
        EXPECT_NE(bits[page / 8] >> page % 8 & std::byte{1}, std::byte{0}) << "page " << page;
      }
    }
    EXPECT_GE(changed, 5u);
  }
  must(here().stop_log());
  EXPECT_EQ(here().log_report({0, 4096}, 4096).error().code, EINVAL);
}

TEST_P(Migration, a_refused_arc_leaves_everything_as_it_was) {
  EXPECT_EQ(errno_of(here().set_migration_state(kPreCopy)), EINVAL);
  EXPECT_EQ(errno_of(here().set_migration_state(kError)), EINVAL);
  EXPECT_EQ(errno_of(here().migration_write(Bytes(10))), EINVAL);
  exchange(1);
  EXPECT_EQ(errno_of(here().set_migration_state(kResuming)), EBUSY) << "its driver is here";
  EXPECT_EQ(must(here().migration_state()), kStop);
  must(here().set_migration_state(kRunning));
  exchange(2);
  const Bytes state = stop_and_read();
  must(here().set_migration_state(kRunning));  // cancels the migration
  exchange(3);
}

TEST_P(Migration, a_state_that_is_cut_or_damaged_or_cannot_be_is_refused) {
  const Bytes state = stop_and_read();
  End next = there();
  Client& client = *next.client;
  must(client.set_migration_state(kResuming));
  EXPECT_EQ(errno_of(client.set_migration_state(kRunning)), EINVAL) << "nothing was written";
  const auto refused = [&](std::span<const std::byte> bytes) {
    write_all(client, bytes);
    EXPECT_EQ(errno_of(client.set_migration_state(kStop)), EINVAL);
    EXPECT_EQ(must(client.migration_state()), kResuming);
  };
  for (const std::size_t size : {std::size_t{1}, state.size() / 2, state.size() - 1})
    refused(std::span(state).first(size));
  Bytes damaged = state;
  damaged[state.size() / 3] ^= std::byte{1};
  refused(damaged);
  refused(state);  // its GID is still bound at the source
  leave();
  write_all(client, state);
  must(client.set_migration_state(kStop));
  go_on_at(std::move(next));
  exchange(1);
}

TEST_P(Migration, a_client_may_leave_in_each_state) {
  for (const auto state : {kStop, kStopCopy, kResuming}) {
    {
      const End end(host_.socket_path(twin_));
      static_cast<void>(must(end.client->start_log(4096)));
      must(end.client->set_migration_state(state));
      if (state == kResuming) must(end.client->migration_write(Bytes(100'000)));
    }
    EXPECT_TRUE(eventually([&] { return !host_.info(twin_).connected; }));
  }
  move();
  exchange(1);
  must(here().set_migration_state(kStopCopy));
  leave();  // the VM is off, so its peer's retries run out
  for (std::uint64_t i = 0; i < 2; ++i) {
    const Sge out = b_->sge(0, 8);
    ASSERT_TRUE(b_->qp->post_send(wr::write(i, one(out), a_->remote())).ok());
  }
  for (const WorkCompletion& done : await(*b_->send_cq, 2)) EXPECT_FALSE(done.ok());
  bus_->go_on_at(End(host_.socket_path(from_)));
  EXPECT_EQ(must(here().migration_state()), kRunning);
  expect_tidy_ = false;
}

// A VM with all the QPs that it may have, each with work under way.
class FullMigration : public Migration {
 protected:
  static constexpr std::uint32_t kQps = 14;
  FullMigration() : Migration(few_objects()) {}
  static TestbenchOptions few_objects() {
    TestbenchOptions options = options_of(GetParam());
    options.limits = verbs::Limits{.max_context = 2,
                                   .max_pd = 16,
                                   .max_mr = 16,
                                   .max_cq = 32,
                                   .max_cqe = 1024,
                                   .max_qp = 2 + kQps,  // QP 0 is reserved, QP 1 is for GSI
                                   .max_qp_wr = 512,
                                   .max_user_qp_wr = 64,
                                   .max_sge = 4,
                                   .max_srq = 0,
                                   .gid_table_length = 2};
    return options;
  }
};

TEST_P(FullMigration, has_room) {
  constexpr std::uint64_t kWorks = 64;
  std::vector<std::unique_ptr<RcEndpoint>> ends;
  const auto post_all = [](RcEndpoint& from) {
    const std::array<Sge, 4> sges{from.sge(0, 8), from.sge(4096, 8), from.sge(8192, 8), from.sge(12'288, 8)};
    for (std::uint64_t i = 0; i < kWorks - 1; ++i) ASSERT_TRUE(from.qp->post_send(wr::send(i, sges)).ok());
  };
  for (std::uint32_t more = 1; more < kQps; ++more) {
    ends.push_back(std::make_unique<RcEndpoint>(device(0), gid_of(0)));
    ends.push_back(std::make_unique<RcEndpoint>(device(1), gid_of(1)));
    must(connect(*ends[ends.size() - 2], *ends.back()));
  }
  const auto set_link_of_peer = [this](bool up) {
    host_.on_shard(1, [up](adapters::ServedAdapter& served) { served.set_link(up); });
  };
  set_link_of_peer(false);  // so no request is answered
  post_all(*a_);
  for (std::size_t i = 0; i < ends.size(); i += 2) post_all(*ends[i]);
  EXPECT_EQ(host_.info(0).objects.qps, kQps);
  const Bytes state = stop_and_read();
  EXPECT_GT(state.size(), kQps * 2000);
  End next = there();
  leave();
  write_and_go_on(std::move(next), state);
  set_link_of_peer(true);
  for (std::uint64_t i = 0; i < kWorks - 1; ++i) ASSERT_TRUE(b_->recv(i, 0, 64).ok());
  for (const WorkCompletion& done : await(*b_->recv_cq, kWorks - 1)) EXPECT_TRUE(done.ok());
  expect_tidy_ = false;
}

INSTANTIATE_TEST_SUITE_P(Trapped, FullMigration, ::testing::Values(DoorbellMode::kTrapped));
INSTANTIATE_TEST_SUITE_P(Doorbells, Migration,
                         ::testing::Values(DoorbellMode::kTrapped, DoorbellMode::kMapped),
                         [](const auto& one) { return std::string(to_text(one.param)); });

}  // namespace
}  // namespace pvrdma::test
