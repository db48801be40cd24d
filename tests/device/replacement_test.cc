// An adapter is saved, destroyed and replaced between any two calls of its driver. The driver's whole life
// must go on unchanged. (tests/sim/ does the same to random worlds with lossy wires.)
#include <functional>
#include <string>
#include <vector>

#include "device/capabilities.h"
#include "device_test.h"
#include "support/testbench.h"

namespace pvrdma::test {
namespace {

// What a driver saw, in order, and what the adapter counted.
using Story = std::vector<std::string>;

class Life {
 public:
  Life(DoorbellMode doorbells, std::function<bool(std::uint64_t call)> replaced_before)
      : replaced_before_(std::move(replaced_before)), bench_(options(doorbells)) {}

  Story live() {
    open();
    move_data();
    sleep();
    wait_for_receives();
    fail();
    close();
    return std::move(story_);
  }
  std::uint64_t calls() const { return calls_; }
  std::uint64_t replaced() const { return replaced_; }

 private:
  TestbenchOptions options(DoorbellMode doorbells) {
    TestbenchOptions out;
    out.doorbells = doorbells;
    out.driver.ram.size_bytes = 4u << 20;
    out.before_each_call = [this](std::uint32_t index) {
      if (!replaced_before_(calls_++)) return;
      ++replaced_;
      bench_.replace_adapter(index);
    };
    return out;
  }

  void tell(std::string what) { story_.push_back(std::move(what)); }
  void take(const char* who, driver::CompletionQueue& cq, std::size_t count) {
    bench_.run();
    WorkCompletion done;
    for (; count != 0 && cq.poll(std::span(&done, 1)) == 1; --count) {
      tell(std::string(who) + " completed " + std::to_string(done.wr_id) + " with " +
           std::to_string(static_cast<int>(done.status)) + ", " +
           std::to_string(done.ok() ? done.byte_len : 0) + " bytes");
    }
    EXPECT_EQ(count, 0u) << who << ": completions are missing";
    EXPECT_TRUE(is_empty(cq));
  }

  void open() {
    user_ = must(driver::Context::create_user(bench_.device(0)));
    pd_ = must(driver::ProtectionDomain::create(bench_.device(1).kernel()));
    srq_ = must(driver::SharedReceiveQueue::create(*pd_, {.max_wr = 16, .limit = 2}));
    a_ = std::make_unique<RcEndpoint>(bench_.device(0), gid_of(0), EndpointOptions{.context = user_.get()});
    b_ = std::make_unique<RcEndpoint>(bench_.device(1), gid_of(1),
                                      EndpointOptions{.srq = srq_.get(), .pd = pd_.get()});
    must(connect(*a_, *b_));
  }
  void post(const driver::SendRequest& request) { ASSERT_TRUE(a_->qp->post_send(request).ok()); }
  void receive(std::uint64_t wr_id) {
    const Sge sge = b_->sge(32'768, 4096);
    ASSERT_TRUE(srq_->post_recv(driver::ReceiveRequest{wr_id, one(sge)}).ok());
  }

  void move_data() {
    a_->fill(0, 5000, 1);
    const Sge sge = a_->sge(0, 5000);
    const Sge back = a_->sge(8192, 5000);
    const Sge word = a_->sge(16'384, 8);
    post(wr::write(1, one(sge), b_->remote()));
    post(wr::read(2, one(back), b_->remote()));
    post(wr::fetch_add(3, one(word), b_->remote(24'576), 5));
    take("a", *a_->send_cq, 3);
    EXPECT_TRUE(a_->holds(8192, 5000, 1));
    receive(10);
    receive(11);
    receive(12);
    const Sge small = a_->sge(0, 100);
    post(wr::send(4, one(small)));
    post(wr::send_imm(5, one(small), 77));
    take("a", *a_->send_cq, 2);
    take("b", *b_->recv_cq, 2);
    while (const auto event = bench_.device(1).poll_async_event())
      tell("b's event " + std::to_string(static_cast<int>(event->type)));
  }

  void sleep() {
    for (std::uint64_t round = 0; round < 3; ++round) {
      receive(20 + round);
      must(a_->send_cq->arm());
      must(b_->recv_cq->arm());
      const Sge small = a_->sge(0, 64);
      post(wr::send(30 + round, one(small)));
      bench_.advance(std::chrono::milliseconds(20));
      EXPECT_TRUE(a_->send_cq->wait(kPatience)) << "nobody woke the sender";
      EXPECT_TRUE(b_->recv_cq->wait(kPatience)) << "nobody woke the receiver";
      take("a", *a_->send_cq, 1);
      take("b", *b_->recv_cq, 1);
    }
  }

  // The SRQ has one receive left; the other messages wait for receives and for RNR timers.
  void wait_for_receives() {
    const Sge small = a_->sge(0, 200);
    for (std::uint64_t i = 0; i < 3; ++i) post(wr::send(40 + i, one(small)));
    bench_.run();
    receive(50);
    receive(51);
    bench_.advance(std::chrono::milliseconds(50));
    take("a", *a_->send_cq, 3);
    take("b", *b_->recv_cq, 3);
  }

  // Requests posted in the error state are flushed, and an unknown key ends the connection.
  void fail() {
    const Sge small = a_->sge(0, 200);
    post(wr::write(60, one(small), {b_->mr->start(), b_->mr->rkey() + 0x1000}));
    post(wr::write(61, one(small), b_->remote()));
    take("a", *a_->send_cq, 2);
    tell("a is in state " + std::to_string(static_cast<int>(must(a_->qp->query()).qp_state)));
    while (const auto event = bench_.device(1).poll_async_event())
      tell("b's event " + std::to_string(static_cast<int>(event->type)));
  }

  void close() {
    a_.reset();
    b_.reset();
    srq_.reset();
    pd_.reset();
    user_.reset();
    for (std::uint32_t index = 0; index < bench_.count(); ++index) {
      const device::AdapterInfo info = bench_.adapter(index).info();
      const verbs::Engine::ObjectCounts counts = info.objects;
      EXPECT_EQ(counts.contexts + counts.pds + counts.mrs + counts.cqs + counts.qps + counts.srqs, 0u);
      tell("commands " + std::to_string(info.device_counters.commands) + ", doorbells " +
           std::to_string(info.device_counters.doorbells) + ", events " +
           std::to_string(info.device_counters.async_events) + ", sent " +
           std::to_string(info.verbs_counters.tx_bytes) + ", received " +
           std::to_string(info.verbs_counters.rx_bytes));
      EXPECT_EQ(bench_.device(index).oddities(), driver::Device::Oddities{});
      must(bench_.device(index).close());
    }
  }

  const std::function<bool(std::uint64_t)> replaced_before_;
  std::uint64_t calls_ = 0;
  std::uint64_t replaced_ = 0;
  Story story_;
  Testbench bench_;
  std::unique_ptr<driver::Context> user_;
  std::unique_ptr<driver::ProtectionDomain> pd_;
  std::unique_ptr<driver::SharedReceiveQueue> srq_;
  std::unique_ptr<RcEndpoint> a_;
  std::unique_ptr<RcEndpoint> b_;
};

class Replacement : public ::testing::TestWithParam<DoorbellMode> {
 protected:
  void SetUp() override {
    if (GetParam() == DoorbellMode::kMapped && !kHostIsX86)
      GTEST_SKIP() << "mapped doorbells need an x86 host";
  }
  Life undisturbed_{GetParam(), [](std::uint64_t) { return false; }};
};

TEST_P(Replacement, before_every_call_changes_nothing) {
  const Story told = undisturbed_.live();
  EXPECT_GT(told.size(), 15u);
  Life life(GetParam(), [](std::uint64_t) { return true; });
  EXPECT_EQ(life.live(), told);
  EXPECT_EQ(life.replaced(), undisturbed_.calls());
}

TEST_P(Replacement, before_any_one_call_changes_nothing) {
  const Story told = undisturbed_.live();
  for (std::uint64_t at = 0; at < undisturbed_.calls(); ++at) {
    Life life(GetParam(), [at](std::uint64_t call) { return call == at; });
    ASSERT_EQ(life.live(), told) << "before call " << at;
    ASSERT_EQ(life.replaced(), 1u);
  }
}

INSTANTIATE_TEST_SUITE_P(Doorbells, Replacement,
                         ::testing::Values(DoorbellMode::kTrapped, DoorbellMode::kMapped),
                         [](const auto& one) { return std::string(to_text(one.param)); });

}  // namespace
}  // namespace pvrdma::test
