// Doorbells that a guest stores into mapped pages, and how the adapter finds them.
#include <fcntl.h>
#include <gtest/gtest.h>

#include "device/fake_doorbells.h"
#include "device/fake_guest.h"

namespace pvrdma::device {
namespace {

using std::chrono::microseconds;
using test::FakeGuest;
using test::kSend;
using test::kUnknown;

constexpr std::uint32_t kArm = 1u << 30;
constexpr std::uint32_t kPoll = 1u << 31;

AdapterConfig mapped(std::uint64_t doorbells_per_s = Budgets::none().doorbells_per_s) {
  AdapterConfig config = test::some_adapter();
  config.doorbells = DoorbellMode::kMapped;
  config.budgets.doorbells_per_s = doorbells_per_s;
  return config;
}

// The engine counts unknown handles, which shows that a word arrived.
class DoorbellPollerTest : public testing::Test {
 protected:
  explicit DoorbellPollerTest(const AdapterConfig& config = mapped()) : guest_(config) { guest_.bring_up(); }
  std::uint64_t rung() { return guest_.adapter().engine().counters().bad_doorbells; }
  std::uint64_t doorbells() { return guest_.adapter().info().device_counters.doorbells; }
  bool run() { return guest_.adapter().run(guest_.clock.now()); }
  void pass(Duration time) { guest_.clock.advance(time); }
  volatile std::uint32_t& qp_word(std::uint32_t uar) { return view_.word(uar, abi::UarWord::kQp); }
  volatile std::uint32_t& cq_word(std::uint32_t uar) { return view_.word(uar, abi::UarWord::kCq); }

  FakeGuest guest_;
  test::DoorbellPages view_{guest_.adapter()};
};

TEST_F(DoorbellPollerTest, AllPagesButTheKernelsMayBeMapped) {
  const auto info = guest_.adapter().region_info(2);
  EXPECT_EQ(info.size, 8u << 20);
  ASSERT_EQ(info.mmap_areas.size(), 1u);
  EXPECT_EQ(info.mmap_areas[0].offset, 4096u);
  EXPECT_EQ(info.mmap_areas[0].size, 4u << 20) << "with the page behind the doorbells";
  EXPECT_NE(::ftruncate(info.fd, 0), 0) << "sealed: a client cannot take it away";
}

TEST_F(DoorbellPollerTest, AHoleIsNoDoorbell) {
  guest_.create_uc(5);
  qp_word(5) = kSend | kUnknown;
  const auto info = guest_.adapter().region_info(2);
  ASSERT_EQ(::fallocate(info.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4 << 20), 0);
  EXPECT_FALSE(run());
  qp_word(5) = kSend | kUnknown;
  EXPECT_TRUE(run());
  EXPECT_EQ(rung(), 1u);
}

TEST_F(DoorbellPollerTest, AnAdapterWithoutContextsLooksForNothing) {
  EXPECT_FALSE(guest_.adapter().polls());
  qp_word(5) = kSend | kUnknown;
  EXPECT_FALSE(run());
  EXPECT_EQ(rung(), 0u);
}

TEST_F(DoorbellPollerTest, AStoredWordIsExecutedInTheNextTurnAndOnce) {
  guest_.create_uc(5);
  EXPECT_TRUE(guest_.adapter().polls());
  qp_word(5) = kSend | kUnknown;
  EXPECT_TRUE(run());
  EXPECT_EQ(rung(), 1u);
  EXPECT_EQ(qp_word(5), 0u);
  EXPECT_FALSE(run());
  EXPECT_EQ(rung(), 1u);
}

TEST_F(DoorbellPollerTest, BothWordsOfAPageAreExecuted) {
  guest_.create_uc(1023);
  qp_word(1023) = kSend | kUnknown;
  cq_word(1023) = kArm | kUnknown;
  EXPECT_TRUE(run());
  EXPECT_EQ(rung(), 2u);
  EXPECT_EQ(doorbells(), 2u);
}

TEST_F(DoorbellPollerTest, WhoOnlyPollsKeepsNobodyAwake) {
  guest_.create_uc(1);
  cq_word(1) = kPoll | kUnknown;
  EXPECT_FALSE(run());
  EXPECT_EQ(cq_word(1), 0u) << "or an ARM could not be told from it";
  EXPECT_EQ(doorbells(), 1u);
}

TEST_F(DoorbellPollerTest, AContextFindsNothingOfTheOneBefore) {
  const std::uint32_t context = guest_.create_uc(7);
  abi::DestroyUcRequest destroy{};
  destroy.ctx_handle = context;
  ASSERT_EQ(guest_.command(abi::Command::kDestroyUc, destroy), 0u);
  EXPECT_FALSE(guest_.adapter().polls());
  qp_word(7) = kSend | kUnknown;
  view_.word(7, abi::UarWord::kSrq) = 0x5ec7e7;
  EXPECT_FALSE(run());
  guest_.create_uc(7);
  EXPECT_EQ(qp_word(7), 0u);
  EXPECT_EQ(view_.word(7, abi::UarWord::kSrq), 0u);
  run();
  EXPECT_EQ(rung(), 0u);
}

TEST_F(DoorbellPollerTest, TrappedWritesWorkBesides) {
  guest_.create_uc(1);
  guest_.write32(2, 0, kSend | kUnknown);
  guest_.write32(2, 4096, kSend | kUnknown);
  EXPECT_EQ(rung(), 2u);
}

TEST_F(DoorbellPollerTest, ADriverThatIsResetHasNoDoorbells) {
  guest_.create_uc(1);
  qp_word(1) = kSend | kUnknown;
  guest_.adapter().reset();
  EXPECT_FALSE(guest_.adapter().polls());
  EXPECT_FALSE(run());
  EXPECT_EQ(rung(), 0u);
}

TEST_F(DoorbellPollerTest, ATurnLooksAtAFewOfManyPages) {
  constexpr std::uint32_t kContexts = 1000;
  for (std::uint32_t uar = 1; uar <= kContexts; ++uar) guest_.create_uc(uar);
  for (std::uint32_t uar = 1; uar <= kContexts; ++uar) qp_word(uar) = kSend | kUnknown;
  std::uint32_t turns = 0;
  std::uint64_t before = 0;
  while (run()) {
    EXPECT_LE(rung() - before, DoorbellPoller::kLooksPerTurn);
    before = rung();
    ASSERT_LT(++turns, kContexts) << "it never ends";
    pass(microseconds(1));
  }
  EXPECT_EQ(rung(), kContexts);
}

// While the shard is awake, a page without recent doorbells is found soon; after a sleep, at once.
TEST_F(DoorbellPollerTest, ColdPagesAreFoundToo) {
  constexpr std::uint32_t kContexts = 33;
  for (std::uint32_t uar = 1; uar <= kContexts; ++uar) guest_.create_uc(uar);
  run();
  for (int news = 0; news < 3; ++news) {
    qp_word(20) = kSend | kUnknown;
    std::uint32_t turns = 0;
    while (rung() == static_cast<std::uint64_t>(2 * news)) {
      pass(microseconds(1));
      run();
      ASSERT_LE(++turns, DoorbellPoller::kColdPagesPerLook);
    }
    for (int i = 0; i < 200; ++i) {
      pass(microseconds(10));
      run();
    }
    qp_word(20) = kSend | kUnknown;
    pass(DoorbellPoller::kSlept);
    EXPECT_TRUE(run());
    EXPECT_EQ(rung(), 2u * static_cast<unsigned>(news) + 2);
    for (int i = 0; i < 200; ++i) {
      pass(microseconds(10));
      run();
    }
  }
}

class DoorbellPollerRateTest : public DoorbellPollerTest {
 protected:
  DoorbellPollerRateTest() : DoorbellPollerTest(mapped(1000)) {}
};

TEST_F(DoorbellPollerRateTest, WhoIsOverItsRateWaits) {
  guest_.create_uc(1);
  for (int i = 0; i < 5000; ++i) {
    qp_word(1) = kSend | kUnknown;
    run();
  }
  EXPECT_EQ(rung(), 2001u) << "a burst of two seconds, and the one that exceeds it";
  EXPECT_FALSE(run()) << "nobody is kept awake by it";
  pass(std::chrono::seconds(2));
  EXPECT_TRUE(run());
}

}  // namespace
}  // namespace pvrdma::device
