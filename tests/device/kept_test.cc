// The daemon's process ends, and the next process continues with its clients from what was kept of the
// adapters. The guests' drivers notice nothing. After a crash they are told that their device has failed.
#include <string>
#include <utility>
#include <vector>

#include "moving_vm_fixture.h"
#include "support/saved_stream.h"
#include "support/vmm_bus.h"

namespace pvrdma::test {
namespace {

using Objects = device::Adapter::Objects;

class RestartedBus final : public VmmBus {
 public:
  RestartedBus(ServedHost& host, std::uint32_t index)
      : VmmBus(must(driver::VfioUserBus::connect(host.socket_path(index)))), host_(host) {}

  void restart_before_each_access() { restarts_ = true; }
  std::uint64_t restarts() const { return count_; }

 private:
  driver::VfioUserBus& access() override {
    if (restarts_) {
      ++count_;
      host_.restart();
    }
    return *bus_;
  }

  ServedHost& host_;
  bool restarts_ = false;
  std::uint64_t count_ = 0;
};

TestbenchOptions kept_options(TestbenchOptions options) {
  options.kept = true;
  return options;
}

class Kept : public MovingVmTest {
 protected:
  Kept() : MovingVmTest(kept_options(options_of(GetParam()))) {}

  void SetUp() override {
    if (needs_another_host()) GTEST_SKIP() << "mapped doorbells need an x86 host";
    open_all(buses_);
    connect_both();
  }

  std::array<RestartedBus*, 2> buses_{};
};

TEST_P(Kept, connections_go_on) {
  exchange(1);
  for (std::uint8_t round = 2; round < 6; ++round) {
    host_.restart();
    exchange(round);
  }
}

TEST_P(Kept, before_each_of_a_drivers_accesses_changes_nothing) {
  a_.reset();
  b_.reset();
  for (RestartedBus* bus : buses_) bus->restart_before_each_access();
  connect_both();
  exchange(1);
  a_.reset();
  b_.reset();
  EXPECT_GT(buses_[0]->restarts(), 10u);
}

TEST_P(Kept, what_is_under_way_goes_along) {
  a_->fill(0, 4000, 9);
  const Sge out = a_->sge(0, 4000);
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(a_->qp->post_send(wr::send(i, one(out))).ok());
  host_.restart();
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(b_->recv(i, 8192 * (i % 4), 4000).ok());
  for (const WorkCompletion& done : await(*a_->send_cq, 8)) EXPECT_TRUE(done.ok());
  for (const WorkCompletion& done : await(*b_->recv_cq, 8)) EXPECT_TRUE(done.ok());
  EXPECT_TRUE(b_->holds(0, 4000, 9));
}

TEST_P(Kept, maps_that_one_message_removed_do_not_come_back) {
  constexpr std::uint64_t kPlace = 1ull << 40;
  constexpr std::uint64_t kMaps = 4;
  const std::uint64_t before = host_.info(0).dma_map_count;
  for (std::uint64_t i = 0; i < kMaps; ++i)
    must(buses_[0]->dma_map(kPlace + i * abi::kPageBytes, abi::kPageBytes, devices_[0]->ram().fd(), 0));
  host_.restart();
  EXPECT_EQ(host_.info(0).dma_map_count, before + kMaps);
  must(buses_[0]->dma_unmap(kPlace, kMaps * abi::kPageBytes));
  host_.restart();
  EXPECT_EQ(host_.info(0).dma_map_count, before);
  exchange(1);
}

TEST_P(Kept, a_link_that_is_down_stays_down) {
  host_.on_shard(0, [](adapters::ServedAdapter& served) { served.set_link(false); });
  EXPECT_EQ(devices_[0]->wait_async_event(kPatience)->type, abi::EventType::kPortErr);
  host_.restart();
  EXPECT_FALSE(host_.info(0).link_up);
  EXPECT_FALSE(devices_[0]->poll_async_event()) << "nothing has changed";
  host_.on_shard(0, [](adapters::ServedAdapter& served) { served.set_link(true); });
  EXPECT_EQ(devices_[0]->wait_async_event(kPatience)->type, abi::EventType::kPortActive);
  exchange(1);
}

// After a crash the guest's driver can start again.
TEST_P(Kept, after_a_crash_the_guest_is_told_and_can_begin_anew) {
  const std::array kept{host_.keep(0, Objects::kLost), host_.keep(1, Objects::kLost)};
  exchange(1);
  for (const std::uint32_t each : {0u, 1u}) {
    must(host_.take_back(each, kept[each]));
    EXPECT_EQ(devices_[each]->wait_async_event(kPatience)->type, abi::EventType::kDeviceFatal);
    const auto left = host_.info(each).objects;
    EXPECT_EQ(left.qps + left.cqs + left.mrs + left.pds, 0u);
  }
  must(buses_[0]->region_write32(driver::Region::kRegisters, static_cast<std::uint32_t>(abi::Register::kCtl),
                                 static_cast<std::uint32_t>(abi::Ctl::kReset)));
  EXPECT_EQ(host_.info(0).state, device::AdapterState::kDetached);
  expect_tidy_ = false;  // the objects that the endpoints would destroy are gone
}

// Kept state is invalid after it was used, and after a change.
TEST_P(Kept, is_true_once) {
  const auto kept = host_.keep(0, Objects::kSaved);
  must(host_.take_back(0, kept));
  EXPECT_EQ(host_.take_back(0, kept).error().message, "it has changed since its state was recorded");
  const auto before = host_.keep(1, Objects::kLost);
  must(buses_[1]->region_write32(driver::Region::kConfig, 4, 6));
  EXPECT_EQ(host_.take_back(1, before).error().message, "it has changed since its state was recorded");
  expect_tidy_ = false;
}

// If the next process cannot continue an adapter, only its client loses it. Others are not affected.
TEST_P(Kept, is_refused_when_something_of_it_is_missing) {
  adapters::KeptAdapter kept = host_.keep(0, Objects::kSaved);
  const auto stream = kept.stream;
  const std::vector all(kept.ids.begin() + 1,
                        kept.ids.end());  // without the listener, which the test still has open
  for (const adapters::KeptId missing : all) {
    Fd fd = std::exchange(kept.fds.at(missing), Fd());
    kept.fds.erase(missing);
    static_cast<void>(host_.take_back(0, kept));
    kept.fds.emplace(missing, std::move(fd));
  }
  kept.stream.resize(stream.size() / 2);
  EXPECT_FALSE(host_.take_back(0, kept));
  kept.stream.clear();
  EXPECT_FALSE(host_.take_back(0, kept));
  EXPECT_TRUE(eventually([&] { return !host_.info(0).connected; }));
  expect_tidy_ = false;
}

// Any content with correct checksums, except for the listener's number, because that descriptor is open.
TEST_P(Kept, may_say_anything) {
  adapters::KeptAdapter kept = host_.keep(0, Objects::kSaved);
  const std::size_t head = record_bytes(kept.stream, 0).value();
  const std::size_t record = record_bytes(kept.stream, head).value();
  std::size_t refused = 0;
  for (std::size_t i = state::kRecordHeadBytes + sizeof(adapters::KeptId);
       i < record - state::kRecordTailBytes; ++i) {
    for (const std::byte flip : {std::byte{1}, std::byte{0x80}, std::byte{0xff}}) {
      kept.stream[head + i] ^= flip;
      make_checksum_right(std::span(kept.stream).subspan(head, record));
      if (!host_.take_back(0, kept)) ++refused;
      kept.stream[head + i] ^= flip;
    }
  }
  EXPECT_GT(refused, record);
  EXPECT_FALSE(host_.info(0).connected);
  expect_tidy_ = false;
}

INSTANTIATE_TEST_SUITE_P(Doorbells, Kept, ::testing::Values(DoorbellMode::kTrapped, DoorbellMode::kMapped),
                         [](const auto& one) { return std::string(to_text(one.param)); });

}  // namespace
}  // namespace pvrdma::test
