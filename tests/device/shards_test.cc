// Two adapters on two shards of one host: everything that an RC connection does goes through the rings
// between their threads, and what one of them ends is over for the other one.
#include <algorithm>
#include <cstring>
#include <future>
#include <random>

#include "adapters/peer_shards.h"
#include "device_test.h"
#include "vfio_user/client.h"

namespace pvrdma::test {
namespace {

constexpr std::uint32_t kShards = 2;

class OnTwoShards : public RcTest {
 protected:
  explicit OnTwoShards(const ConnectOptions& connection = {}, bool ward = false)
      : RcTest({.buffer_bytes = 4 << 20}, connection, {.shards = kShards, .ward = ward}) {}

  std::uint64_t load(const RcEndpoint& end, std::size_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, end.bytes(offset), sizeof(value));
    return value;
  }
  verbs::Counters counters(std::uint32_t index) {
    return host_.on_shard(index, [](adapters::ServedAdapter& served) { return served.engine().counters(); });
  }
};

// In the slot, beside it, lent in one piece, and in several.
constexpr std::array kSizes{0U, 1U, 64U, 65U, 512U, 513U, 4096U, 65'536U, 262'145U, 1U << 20};

TEST_F(OnTwoShards, write) {
  std::uint8_t seed = 1;
  for (const std::uint32_t size : kSizes) {
    SCOPED_TRACE(size);
    a_->fill(11, size, seed);
    const Sge sge = a_->sge(11, size);
    EXPECT_EQ(execute(wr::write(seed, one(sge), b_->remote(777))).status, Status::kSuccess);
    EXPECT_TRUE(b_->holds(777, size, seed++));
  }
}

TEST_F(OnTwoShards, read) {
  std::uint8_t seed = 1;
  for (const std::uint32_t size : kSizes) {
    SCOPED_TRACE(size);
    b_->fill(777, size, seed);
    const Sge sge = a_->sge(11, size);
    EXPECT_EQ(execute(wr::read(seed, one(sge), b_->remote(777))).status, Status::kSuccess);
    EXPECT_TRUE(a_->holds(11, size, seed++));
  }
}

TEST_F(OnTwoShards, send) {
  std::uint8_t seed = 1;
  for (const std::uint32_t size : kSizes) {
    SCOPED_TRACE(size);
    ASSERT_TRUE(b_->recv(seed, 777, 2 << 20).ok());
    a_->fill(11, size, seed);
    const Sge sge = a_->sge(11, size);
    EXPECT_EQ(execute(wr::send_imm(seed, one(sge), seed)).status, Status::kSuccess);
    const WorkCompletion got = await_one(*b_->recv_cq);
    EXPECT_EQ(got.status, Status::kSuccess);
    EXPECT_EQ(got.byte_len, size);
    EXPECT_EQ(got.immediate, seed);
    EXPECT_TRUE(b_->holds(777, size, seed++));
  }
}

TEST_F(OnTwoShards, add_atomically_from_both_sides) {
  constexpr std::uint32_t kAdds = 300;
  const std::uint32_t at_once = 16;
  const auto adds = [=](RcEndpoint& from, RcEndpoint& to) {
    const Sge sge = from.sge(64, 8);
    for (std::uint32_t i = 0; i < at_once; ++i)
      EXPECT_TRUE(from.qp->post_send(wr::fetch_add(i, one(sge), to.remote(), 3)).ok());
  };
  for (std::uint32_t done = 0; done < kAdds; done += at_once) {
    adds(*a_, *b_);
    adds(*b_, *a_);
    for (const auto& each : await(*a_->send_cq, at_once)) EXPECT_EQ(each.status, Status::kSuccess);
    for (const auto& each : await(*b_->send_cq, at_once)) EXPECT_EQ(each.status, Status::kSuccess);
  }
  const std::uint64_t sum = (kAdds + at_once - 1) / at_once * at_once * 3;
  EXPECT_EQ(load(*a_, 0), sum);
  EXPECT_EQ(load(*b_, 0), sum);
}

// More than the ring takes, in both directions at once: full rings must not wait for each other.
TEST_F(OnTwoShards, fill_both_rings) {
  const std::uint32_t at_once = 64;
  constexpr std::uint32_t kRounds = 40;
  const auto writes = [=](RcEndpoint& from, RcEndpoint& to, std::uint32_t round) {
    std::vector<Sge> sges(at_once);
    std::vector<driver::SendRequest> requests;
    for (std::uint32_t i = 0; i < at_once; ++i) {
      sges[i] = from.sge(i * 16'384, (i + round) % 3 == 0 ? 8 : 16'000);
      requests.push_back(i % 4 == 3 ? wr::read(i, one(sges[i]), to.remote(3 << 20))
                                    : wr::write(i, one(sges[i]), to.remote(2 << 20)));
    }
    ASSERT_EQ(from.qp->post_send(requests).count, at_once);
  };
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    writes(*a_, *b_, round);
    writes(*b_, *a_, round);
    for (const auto& each : await(*a_->send_cq, at_once)) ASSERT_EQ(each.status, Status::kSuccess);
    for (const auto& each : await(*b_->send_cq, at_once)) ASSERT_EQ(each.status, Status::kSuccess);
  }
  EXPECT_EQ(counters(0).timeouts + counters(1).timeouts, 0U) << "nothing was lost";
}

// The receiver has no receive posted: the sender is told so, waits, and comes again.
TEST_F(OnTwoShards, wait_for_a_receive) {
  a_->fill(0, 5000, 9);
  const Sge sge = a_->sge(0, 5000);
  ASSERT_TRUE(a_->qp->post_send(wr::send(1, one(sge))).ok());
  EXPECT_TRUE(eventually([&] { return counters(1).rnr_naks_sent != 0; }));
  EXPECT_TRUE(is_empty(*a_->send_cq));
  ASSERT_TRUE(b_->recv(2, 0, 5000).ok());
  EXPECT_EQ(await_one(*a_->send_cq).status, Status::kSuccess);
  EXPECT_EQ(await_one(*b_->recv_cq).status, Status::kSuccess);
  EXPECT_TRUE(b_->holds(0, 5000, 9));
}

TEST_F(OnTwoShards, refuse_a_wrong_key) {
  const Sge sge = a_->sge(0, 100);
  EXPECT_EQ(execute(wr::write(1, one(sge), {b_->remote().addr, b_->remote().rkey + 1})).status,
            Status::kRemoteAccess);
  EXPECT_EQ(static_cast<abi::QpState>(must(a_->qp->query()).qp_state), abi::QpState::kErr);
  EXPECT_TRUE(eventually(
      [&] { return static_cast<abi::QpState>(must(b_->qp->query()).qp_state) == abi::QpState::kErr; }));
}

TEST_F(OnTwoShards, know_what_they_exchange_with_which_shard) {
  const Sge sge = a_->sge(0, 5000);
  ASSERT_EQ(execute(wr::write(1, one(sge), b_->remote())).status, Status::kSuccess);
  ASSERT_EQ(execute(wr::read(2, one(sge), b_->remote())).status, Status::kSuccess);
  const auto exchange = [this](std::uint32_t index) {
    return host_.on_shard(index, [](adapters::ServedAdapter& served) {
      return adapters::exchange_of(served, 0, kShards).bytes;
    });
  };
  EXPECT_EQ(exchange(0), (std::vector<std::uint64_t>{0, 10'000}));
  EXPECT_EQ(exchange(1), (std::vector<std::uint64_t>{5000, 0})) << "what is read counts for the reader only";
}

class OnTwoShardsWithoutPatience : public OnTwoShards {
 protected:
  OnTwoShardsWithoutPatience() : OnTwoShards({.timeout = 8, .retry_cnt = 2}) {}
};

TEST_F(OnTwoShardsWithoutPatience, end_when_the_peers_qp_is_gone) {
  b_.reset();
  const Sge sge = a_->sge(0, 100'000);
  EXPECT_EQ(execute(wr::send(1, one(sge))).status, Status::kRetryExceeded);
}

TEST_F(OnTwoShardsWithoutPatience, end_when_the_peers_adapter_has_left) {
  const auto remote = b_->remote();
  b_.reset();
  devices_[1].reset();
  ASSERT_TRUE(eventually([&] { return !host_.info(1).connected; }));
  const Sge sge = a_->sge(0, 100'000);
  EXPECT_EQ(execute(wr::write(1, one(sge), remote)).status, Status::kRetryExceeded);
}

// As when its VM is about to move. The peer on the other shard never repeats by itself; it is told to.
TEST_F(OnTwoShards, repeat_when_the_peer_goes_on) {
  a_.reset();
  b_.reset();
  devices_[1].reset();
  auto client = must(vfio_user::Client::connect(host_.socket_path(1)));
  vfio_user::Client& vmm = *client;
  devices_[1] =
      must(driver::Device::open(must(driver::VfioUserBus::create(std::move(client))), options_.driver));
  must(device(1).bind_gid(0, gid_of(1)));
  connection_.timeout = 0;
  RcTest::SetUp();
  for (std::uint8_t round = 1; round < 20; ++round) {
    a_->fill(0, 300'000, round);
    const Sge sge = a_->sge(0, 300'000);
    must(vmm.set_migration_state(vfio_user::MigrationState::kStop));
    ASSERT_TRUE(a_->qp->post_send(wr::write(round, one(sge), b_->remote())).ok());
    EXPECT_TRUE(is_empty(*a_->send_cq));
    must(vmm.set_migration_state(vfio_user::MigrationState::kRunning));
    ASSERT_EQ(await_one(*a_->send_cq).status, Status::kSuccess);
    EXPECT_TRUE(b_->holds(0, 300'000, round));
  }
}

// The guest reuses the memory of a request as soon as its QP has failed. None of that may arrive, whatever
// the other shard's thread does at that moment.
TEST_F(OnTwoShards, read_no_memory_of_a_qp_that_has_ended) {
  std::mt19937 random(7);
  constexpr std::uint32_t kBytes = 200'000;
  constexpr std::byte kBefore{0x11};
  constexpr std::byte kAfterwards{0xee};
#ifdef __SANITIZE_THREAD__
  constexpr int kRounds = 60;
#else
  constexpr int kRounds = 300;
#endif
  for (int round = 0; round < kRounds; ++round) {
    std::memset(a_->bytes(), std::to_integer<int>(kBefore), kBytes);
    std::memset(b_->bytes(), std::to_integer<int>(kBefore), kBytes);
    const Sge sge = a_->sge(0, kBytes);
    for (std::uint64_t i = 0; i < 4; ++i)
      ASSERT_TRUE(a_->qp->post_send(wr::write(i, one(sge), b_->remote())).ok());
    for (volatile std::uint_fast32_t spin = random() % 20'000; spin != 0;) spin = spin - 1;
    if (round % 2 == 0) {
      must(a_->qp->to_error());
    } else {
      must(a_->qp->to_reset());
    }
    std::memset(a_->bytes(), std::to_integer<int>(kAfterwards), kBytes);
    must(b_->qp->to_reset());  // its shard has read what it will read
    const std::span<const std::byte> target(b_->bytes(), kBytes);
    ASSERT_EQ(std::ranges::count(target, kAfterwards), 0) << "in round " << round;
    must(a_->qp->to_reset());
    must(connect(*a_, *b_));
  }
}

// Adapter b_ is in the ward, whose thread sleeps for as long as a test wants: as if the kernel let it sleep
// because of the memory of b_.
class BesideTheWard : public OnTwoShards {
 protected:
  BesideTheWard() : OnTwoShards({}, true) {}
  void TearDown() override {
    wake();
    OnTwoShards::TearDown();
  }
  void sleep() {
    std::promise<void> asleep;
    ward_ = std::async(std::launch::async, [this, &asleep] {
      host_.on_shard(1, [this, &asleep](adapters::ServedAdapter&) {
        asleep.set_value();
        wakes_.get_future().wait();
      });
    });
    asleep.get_future().wait();
  }
  void wake() {
    if (!ward_.valid()) return;
    wakes_.set_value();
    ward_.get();
  }

 private:
  std::promise<void> wakes_;
  std::future<void> ward_;
};

TEST_F(BesideTheWard, exchange_messages_of_all_sizes_with_it) {
  std::uint8_t seed = 1;
  for (const std::uint32_t size : kSizes) {
    SCOPED_TRACE(size);
    a_->fill(11, size, seed);
    const Sge sge = a_->sge(11, size);
    EXPECT_EQ(execute(wr::write(seed, one(sge), b_->remote(777))).status, Status::kSuccess);
    EXPECT_TRUE(b_->holds(777, size, seed++));
    b_->fill(777, size, seed);
    EXPECT_EQ(execute(wr::read(seed, one(sge), b_->remote(777))).status, Status::kSuccess);
    EXPECT_TRUE(a_->holds(11, size, seed++));
  }
  EXPECT_EQ(counters(0).timeouts + counters(1).timeouts, 0U) << "nothing was lost";
}

TEST_F(BesideTheWard, wait_for_nothing_while_it_sleeps) {
  RcEndpoint near(device(0), gid_of(0), endpoint_);
  RcEndpoint other(device(0), gid_of(0), endpoint_);
  must(connect(near, other, connection_));
  sleep();
  const std::uint32_t at_once = 32;  // more than the ring takes
  const Sge large = a_->sge(0, 1 << 20);
  for (std::uint32_t i = 0; i < at_once; ++i)
    ASSERT_TRUE(a_->qp->post_send(wr::write(i, one(large), b_->remote())).ok());
  for (std::uint8_t round = 1; round < 20; ++round) {
    near.fill(0, 100'000, round);
    const Sge sge = near.sge(0, 100'000);
    ASSERT_TRUE(near.qp->post_send(wr::write(round, one(sge), other.remote())).ok());
    ASSERT_EQ(await_one(*near.send_cq).status, Status::kSuccess);
    ASSERT_TRUE(other.holds(0, 100'000, round));
  }
  must(a_->qp->to_reset());  // takes back what lies in the ring
  EXPECT_TRUE(is_empty(*a_->send_cq)) << "the ward has executed nothing";
  wake();
  must(b_->qp->to_reset());
  must(connect(*a_, *b_));
  a_->fill(0, 5000, 99);
  const Sge sge = a_->sge(0, 5000);
  EXPECT_EQ(execute(wr::write(1, one(sge), b_->remote())).status, Status::kSuccess);
  EXPECT_TRUE(b_->holds(0, 5000, 99));
}

}  // namespace
}  // namespace pvrdma::test
