// Work and events of user processes with mapped doorbells, including stores that replace each other. The
// tests run over sockets, or, if they depend on what the device has not looked at yet, in one thread with a
// manual clock.
#include "device_test.h"
#include "support/testbench.h"

namespace pvrdma::test {
namespace {

TestbenchOptions mapped() {
  TestbenchOptions options;
  options.doorbells = DoorbellMode::kMapped;
  return options;
}

// Two connections between processes on two adapters. All four QPs share one pair of pages.
class MappedTraffic : public DeviceTest {
 protected:
  MappedTraffic() : DeviceTest(mapped()) {
    for (std::uint32_t vm = 0; vm < 2; ++vm) {
      users_[vm] = must(driver::Context::create_user(device(vm)));
      for (auto& end : ends_[vm]) {
        end = std::make_unique<RcEndpoint>(device(vm), gid_of(vm),
                                           EndpointOptions{.context = users_[vm].get()});
      }
    }
    for (std::size_t i = 0; i < kConnections; ++i) must(connect(*ends_[0][i], *ends_[1][i]));
  }
  void TearDown() override {
    for (std::uint32_t vm = 0; vm < 2; ++vm) {
      EXPECT_GT(host_.info(vm).device_counters.doorbells, 0u) << "found by looking";
      for (auto& end : ends_[vm]) end.reset();
      users_[vm].reset();
    }
    DeviceTest::TearDown();
  }

  static constexpr std::size_t kConnections = 2;
  std::array<std::unique_ptr<driver::Context>, 2> users_;
  std::array<std::array<std::unique_ptr<RcEndpoint>, kConnections>, 2> ends_;
};

TEST_F(MappedTraffic, posts_of_two_qps_that_hide_each_other_are_executed) {
  for (std::uint64_t round = 0; round < 500; ++round) {
    for (std::size_t i = 0; i < kConnections; ++i) {
      const Sge sge = ends_[0][i]->sge(0, 64);
      ASSERT_TRUE(ends_[0][i]->qp->post_send(wr::write(round, one(sge), ends_[1][i]->remote())).ok());
      ASSERT_TRUE(ends_[1][i]->recv(round, 0, 64).ok());
    }
    for (std::size_t i = 0; i < kConnections; ++i) {
      const Sge sge = ends_[0][i]->sge(0, 64);
      ASSERT_TRUE(ends_[0][i]->qp->post_send(wr::send(round, one(sge))).ok());
    }
    for (std::size_t i = 0; i < kConnections; ++i) {
      for (const WorkCompletion& done : await(*ends_[0][i]->send_cq, 2)) {
        ASSERT_TRUE(done.ok());
        ASSERT_EQ(done.wr_id, round);
      }
      ASSERT_TRUE(await_one(*ends_[1][i]->recv_cq).ok());
    }
  }
}

// As in ib_send_lat with events: the ARM of the second CQ always replaces that of the first.
TEST_F(MappedTraffic, who_sleeps_after_arms_that_hide_each_other_is_woken) {
  std::array<driver::CompletionQueue*, 2> sleepers{ends_[0][0]->send_cq.get(), ends_[1][0]->recv_cq.get()};
  for (std::uint64_t round = 0; round < 200; ++round) {
    ASSERT_TRUE(ends_[1][0]->recv(round, 0, 64).ok());
    must(ends_[1][0]->recv_cq->arm());
    must(ends_[1][1]->recv_cq->arm());
    must(ends_[0][0]->send_cq->arm());
    must(ends_[0][1]->send_cq->arm());
    const Sge sge = ends_[0][0]->sge(0, 64);
    ASSERT_TRUE(ends_[0][0]->qp->post_send(wr::send(round, one(sge))).ok());
    for (driver::CompletionQueue* cq : sleepers) {
      WorkCompletion done;
      while (cq->poll(std::span(&done, 1), driver::CompletionQueue::WhenEmpty::kReturn) == 0) {
        ASSERT_TRUE(cq->wait(kPatience)) << "round " << round << ": nobody woke it";
      }
      ASSERT_EQ(done.wr_id, round);
    }
  }
}

// A consumer takes each completion by polling, and then waits for the event of the ARM before it. Its empty
// polls hide many of its ARMs.
TEST_F(MappedTraffic, who_counts_events_gets_one_for_each_arm) {
  for (std::uint64_t round = 0; round < 2000; ++round) {
    RcEndpoint& self = *ends_[round % 2][0];
    RcEndpoint& peer = *ends_[(round + 1) % 2][0];
    // An event of the last round that nobody asked for must not answer this ARM.
    static_cast<void>(self.send_cq->take_events());
    must(self.send_cq->arm());
    const Sge sge = self.sge(0, 64);
    ASSERT_TRUE(self.qp->post_send(wr::write(round, one(sge), peer.remote())).ok());
    ASSERT_EQ(await_one(*self.send_cq).wr_id, round);
    ASSERT_TRUE(self.send_cq->wait(kPatience)) << "round " << round << ": its ARM gave no event";
  }
}

// Doorbells that the device has not looked at when a command comes.
class MappedCommands : public ::testing::Test {
 protected:
  void SetUp() override {
    must(connect(a_, b_));
    a_.fill(0, 64, 9);
    const Sge sge = a_.sge(0, 64);
    const std::uint64_t told = bench_.bus(0).writes();
    ASSERT_TRUE(a_.qp->post_send(wr::write(1, one(sge), b_.remote())).ok());
    ASSERT_EQ(bench_.bus(0).writes(), told) << "its doorbell is no message";
    ASSERT_FALSE(b_.holds(0, 64, 9)) << "nobody has looked";
  }
  WorkCompletion completion() {
    bench_.run();
    WorkCompletion done{.status = Status::kGeneral};
    EXPECT_EQ(a_.send_cq->poll(std::span(&done, 1)), 1u);
    return done;
  }

  Testbench bench_{mapped()};
  std::unique_ptr<driver::Context> user_{must(driver::Context::create_user(bench_.device(0)))};
  RcEndpoint a_{bench_.device(0), gid_of(0), {.context = user_.get()}};
  RcEndpoint b_{bench_.device(1), gid_of(1)};
};

TEST_F(MappedCommands, what_was_posted_is_executed_when_somebody_looks) {
  EXPECT_TRUE(completion().ok());
  EXPECT_TRUE(b_.holds(0, 64, 9));
}

// The same word of the same QP, the only one of its context.
TEST_F(MappedCommands, what_was_posted_is_not_hidden_by_a_receive_behind_it) {
  ASSERT_TRUE(a_.recv(2, 64, 64).ok());
  EXPECT_TRUE(completion().ok());
  EXPECT_TRUE(b_.holds(0, 64, 9));
}

TEST_F(MappedCommands, what_was_posted_before_an_error_is_executed_before_it) {
  must(a_.qp->to_error());
  EXPECT_TRUE(b_.holds(0, 64, 9));
  EXPECT_TRUE(completion().ok());
}

TEST_F(MappedCommands, what_was_posted_before_a_drain_is_executed_before_it) {
  must(a_.qp->to_sqd());
  EXPECT_TRUE(b_.holds(0, 64, 9));
  EXPECT_TRUE(completion().ok());
}

TEST_F(MappedCommands, what_was_posted_before_the_qps_end_is_executed_before_it) {
  must(a_.qp->destroy());
  EXPECT_TRUE(b_.holds(0, 64, 9));
}

}  // namespace
}  // namespace pvrdma::test
