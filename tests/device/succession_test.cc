// A VM continues in another VMM on its host, at the same socket. The successor's client maps the same memory
// and takes over the guest's adapter. The guest's driver notices nothing.
#include <vector>

#include "moving_vm_fixture.h"
#include "support/vmm_bus.h"

namespace pvrdma::test {
namespace {

class MovableBus final : public VmmBus {
 public:
  explicit MovableBus(ServedHost& host, std::uint32_t index)
      : VmmBus(must(driver::VfioUserBus::connect(host.socket_path(index)))), host_(host), index_(index) {}

  // Does what a successor's VMM does before the VM runs in it.
  void bring_successor() {
    must(host_.on_shard(index_, [](adapters::ServedAdapter& served) { return served.expect_successor(); }));
    successor_ = must(driver::VfioUserBus::connect(host_.socket_path(index_)));
    prepare(*successor_);
  }
  Result<SwitchedOver> switch_over() {
    return host_.on_shard(index_, [](adapters::ServedAdapter& served) {
      auto switched = served.switch_over(Instant::now());
      if (switched) served.seated().adapter().resume();
      return switched;
    });
  }
  void end_successor() {
    host_.on_shard(index_, [](adapters::ServedAdapter& served) { served.end_successor(); });
    successor_.reset();
  }
  void swap() { std::swap(bus_, successor_); }
  void move() {
    bring_successor();
    must(switch_over());
    swap();
    end_successor();
  }
  std::unique_ptr<driver::VfioUserBus>& client() { return bus_; }
  std::unique_ptr<driver::VfioUserBus>& successor() { return successor_; }
  // Moves the VM before each access of the guest.
  void move_before_each_access() { moves_always_ = true; }
  std::uint64_t accesses() const { return accesses_; }

 private:
  driver::VfioUserBus& access() override {
    ++accesses_;
    if (moves_always_) move();
    return *bus_;
  }

  ServedHost& host_;
  const std::uint32_t index_;
  std::unique_ptr<driver::VfioUserBus> successor_;
  bool moves_always_ = false;
  std::uint64_t accesses_ = 0;
};

class Succession : public MovingVmTest {
 protected:
  void SetUp() override {
    if (needs_another_host()) GTEST_SKIP() << "mapped doorbells need an x86 host";
    open_all(buses_);
  }

  bool successor_is_here(std::uint32_t index) {
    return host_.on_shard(index,
                          [](adapters::ServedAdapter& served) { return served.successor()->has_client(); });
  }
  bool is_connected(std::uint32_t index) { return host_.info(index).connected; }

  std::array<MovableBus*, 2> buses_{};
};

TEST_P(Succession, connections_go_on_whoever_moves) {
  connect_both();
  exchange(1);
  for (std::uint8_t round = 2; round < 6; ++round) {
    buses_[round % 2]->move();
    exchange(round);
  }
}

TEST_P(Succession, before_each_of_a_drivers_accesses_changes_nothing) {
  for (MovableBus* bus : buses_) bus->move_before_each_access();
  connect_both();
  exchange(1);
  a_.reset();
  b_.reset();
  EXPECT_GT(buses_[0]->accesses(), 10u);
}

TEST_P(Succession, what_is_under_way_goes_along) {
  connect_both();
  a_->fill(0, 4000, 9);
  const Sge out = a_->sge(0, 4000);
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(a_->qp->post_send(wr::send(i, one(out))).ok());
  buses_[1]->move();  // its peer waits for receives
  buses_[0]->move();
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(b_->recv(i, 8192 * (i % 4), 4000).ok());
  for (const WorkCompletion& done : await(*a_->send_cq, 8)) EXPECT_TRUE(done.ok());
  for (const WorkCompletion& done : await(*b_->recv_cq, 8)) EXPECT_TRUE(done.ok());
  EXPECT_TRUE(b_->holds(0, 4000, 9));
}

TEST_P(Succession, the_adapter_goes_back) {
  connect_both();
  MovableBus& bus = *buses_[0];
  bus.bring_successor();
  must(bus.switch_over());
  must(bus.switch_over());
  bus.end_successor();
  exchange(1);
}

TEST_P(Succession, who_has_not_the_adapter_can_do_nothing_with_it) {
  connect_both();
  LogCapture log;
  MovableBus& bus = *buses_[0];
  const auto abuse = [&bus](abi::Register which, std::uint32_t value) {
    must(bus.successor()->region_write32(driver::Region::kRegisters, static_cast<std::uint32_t>(which),
                                         value));
  };
  const auto ignored = [this] {
    return host_.on_shard(0, [](adapters::ServedAdapter& served) {
      return served.successor()->adapter().info().device_counters.bad_accesses;
    });
  };
  const auto abuse_all = [&] {
    const std::uint64_t before = ignored();
    abuse(abi::Register::kDsrLow, 0x1000);
    abuse(abi::Register::kDsrHigh, 0);
    abuse(abi::Register::kCtl, static_cast<std::uint32_t>(abi::Ctl::kReset));
    abuse(abi::Register::kRequest, 0);
    EXPECT_EQ(ignored(), before + 4);
    must(bus.successor()->region_write32(driver::Region::kUar, 0, 0x4000'0000));
  };
  bus.bring_successor();
  abuse_all();
  exchange(1);
  must(bus.switch_over());
  bus.swap();
  abuse_all();
  exchange(2);
  bus.end_successor();
  exchange(3);
  EXPECT_NE(log.text().find("adapter test-0: write of 4 bytes at 0x10 while another VMM has the VM ignored"),
            std::string::npos);
}

TEST_P(Succession, who_leaves_is_missed_or_not) {
  connect_both();
  MovableBus& bus = *buses_[0];
  bus.bring_successor();
  bus.successor()->disconnect();
  EXPECT_TRUE(eventually([&] { return !successor_is_here(0); }));
  EXPECT_EQ(bus.switch_over().error().code, ENOTCONN);
  exchange(1);
  bus.end_successor();
  bus.bring_successor();
  bus.client()->disconnect();  // the VM is off
  EXPECT_TRUE(eventually([&] { return !is_connected(0); }));
  EXPECT_FALSE(bus.successor()->region_read32(driver::Region::kRegisters, 0)) << "sent away";
  bus.successor().reset();
  expect_tidy_ = false;
}

TEST_P(Succession, is_refused_with_a_reason) {
  connect_both();
  const auto expect = [this](std::uint32_t index) {
    return host_.on_shard(index, [](adapters::ServedAdapter& served) { return served.expect_successor(); });
  };
  EXPECT_EQ(buses_[0]->switch_over().error().message, "adapter test-0: no other VMM is connected");
  must(expect(0));
  EXPECT_EQ(buses_[0]->switch_over().error().code, ENOTCONN);
  EXPECT_EQ(expect(0).error().message,
            "adapter test-0: another VMM is expected already: wait until that is over");
  host_.on_shard(1, [](adapters::ServedAdapter& served) { served.refuse_clients("it was changed"); });
  EXPECT_EQ(expect(1).error().message, "adapter test-1 accepts no other VMM: it was changed");
  exchange(1);
}

INSTANTIATE_TEST_SUITE_P(Doorbells, Succession,
                         ::testing::Values(DoorbellMode::kTrapped, DoorbellMode::kMapped),
                         [](const auto& one) { return std::string(to_text(one.param)); });

}  // namespace
}  // namespace pvrdma::test
