// Which adapter made a turn of its shard long (base/blame.h), with whole adapters, real time and pages that
// really sleep. A and B are connected, C has nothing to do with them.
#include <atomic>
#include <thread>
#include <vector>

#include "device_test.h"
#include "support/slow_pages.h"

namespace pvrdma::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kA = 0, kB = 1, kC = 2;
constexpr std::uint32_t kBytes = 1 << 20;
constexpr Duration kSleep = 60ms;

class BlameTest : public RcTest {
 protected:
  BlameTest() : RcTest({.buffer_bytes = kBytes}, {}, {.adapter_count = 3}) {}

  void SetUp() override {
    RcTest::SetUp();
    device(kC);
    make_a_long_turn();
  }
  // Nobody is blamed for it, but for the following ones.
  void make_a_long_turn() {
    host_.on_shard(kC, [](adapters::ServedAdapter&) { std::this_thread::sleep_for(15ms); });
  }
  std::uint64_t offences(std::uint32_t index) { return host_.info(index).device_counters.offences; }
  // Where the daemon has a byte of the endpoint's buffer.
  const std::byte* daemons(std::uint32_t index, const RcEndpoint& endpoint, std::size_t offset) {
    const guestmem::GuestPhys at(endpoint.buffer->gpa(offset).value);
    return host_.on_shard(index, [at](adapters::ServedAdapter& served) -> const std::byte* {
      return served.engine().memory().translate(at, 1, guestmem::Access::kReadWrite);
    });
  }
  void expect_all_ops_blame(std::uint32_t index, const RcEndpoint& endpoint) {
    SlowPages slow(kSleep);
    const Sge sge = a_->sge(0, kBytes);
    std::uint32_t rounds = 0;
    for (const driver::SendRequest& request :
         {wr::write(1, one(sge), b_->remote()), wr::read(2, one(sge), b_->remote()), wr::send(3, one(sge))}) {
      ASSERT_TRUE(b_->recv(4, 0, kBytes).ok());
      slow.add(daemons(index, endpoint, kBytes / 2));
      EXPECT_TRUE(execute(request).ok());
      EXPECT_EQ(slow.touched(), ++rounds);
      EXPECT_TRUE(eventually([&] { return offences(index) == rounds; })) << "a turn ends after its answer";
    }
    for (const std::uint32_t other : {kA, kB, kC}) EXPECT_EQ(offences(other), other == index ? rounds : 0U);
    EXPECT_GE(host_.info(index).device_counters.offences_us, 3 * 20'000U);
  }
};

TEST_F(BlameTest, ARequesterIsBlamedForItsMemoryAndNobodyElse) {
  expect_all_ops_blame(kA, *a_);
}

TEST_F(BlameTest, AResponderIsBlamedForItsMemoryAndNobodyElse) {
  expect_all_ops_blame(kB, *b_);
}

TEST_F(BlameTest, TheLogNamesTheOwnerOfTheMemory) {
  LogCapture log;
  SlowPages slow(kSleep);
  const Sge sge = a_->sge(0, 64);
  slow.add(daemons(kB, *b_, 0));
  EXPECT_TRUE(execute(wr::write(1, one(sge), b_->remote())).ok());
  EXPECT_TRUE(eventually([&] { return offences(kB) == 1; }));
  EXPECT_NE(log.text().find("because of adapter " + host_.info(kB).name), std::string::npos);
}

// More threads than cores run all the time.
class BusyMachine : public BlameTest {
 protected:
  BusyMachine() {
    for (unsigned i = 0; i < 16 * std::thread::hardware_concurrency(); ++i)
      threads_.emplace_back([this] {
        while (!over_.load(std::memory_order_relaxed)) {
        }
      });
  }
  ~BusyMachine() override {
    over_ = true;
    for (std::thread& each : threads_) each.join();
  }
  std::uint64_t long_turns() { return host_.loop_counters(kA).long_turns; }

 private:
  std::atomic<bool> over_ = false;
  std::vector<std::thread> threads_;
};

// The shard loses its core in the middle of its turns.
TEST_F(BusyMachine, NobodyIsBlamedForWaitingForACore) {
  const Sge sge = a_->sge(0, kBytes);
  const std::vector<driver::SendRequest> writes(60, wr::write(1, one(sge), b_->remote()));
  const std::uint64_t before = long_turns();
  while (long_turns() < before + 20) {
    EXPECT_TRUE(a_->qp->post_send(writes).ok());
    await(*a_->send_cq, writes.size());
  }
  for (const std::uint32_t each : {kA, kB, kC}) EXPECT_EQ(offences(each), 0U);
}

TEST_F(BusyMachine, OnlyTheOwnerOfTheMemoryIsBlamed) {
  SlowPages slow(kSleep);
  const Sge sge = a_->sge(0, kBytes);
  for (int tries = 0; offences(kB) == 0; ++tries) {
    ASSERT_LT(tries, 60);
    slow.add(daemons(kB, *b_, 0));
    EXPECT_TRUE(execute(wr::write(1, one(sge), b_->remote())).ok());
  }
  EXPECT_EQ(offences(kA), 0U);
  EXPECT_EQ(offences(kC), 0U);
}

}  // namespace
}  // namespace pvrdma::test
