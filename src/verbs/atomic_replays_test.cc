#include "verbs/atomic_replays.h"

#include "verbs/connected_qp_fixture.h"

namespace pvrdma::verbs {
namespace {

TEST(AtomicReplays, KeepsTheResultsOfAsManyAsMayBeUnanswered) {
  AtomicReplays replays;
  for (std::uint32_t i = 0; i <= kRdAtomicMax; ++i) replays.remember(Psn(10 + i), i);
  EXPECT_EQ(replays.find(Psn(10)), std::nullopt);
  for (std::uint32_t i = 1; i <= kRdAtomicMax; ++i) EXPECT_EQ(replays.find(Psn(10 + i)), i);
  EXPECT_EQ(replays.find(Psn(9)), std::nullopt);
}

// A connection with few atomics: the PSN comes round again while the atomic that last had it is still
// remembered.
TEST(AtomicReplays, APsnThatComesRoundHasOneResult) {
  for (std::uint32_t before = 0; before < kRdAtomicMax; ++before) {
    AtomicReplays replays;
    for (std::uint32_t i = 0; i < before; ++i) replays.remember(Psn(1000 + i), 0);
    replays.remember(Psn(7), 111);
    replays.remember(Psn(8), 112);
    replays.remember(Psn(7), 222);
    EXPECT_EQ(replays.find(Psn(7)), 222u) << before;
    replays.remember(Psn(9), 333);
    EXPECT_EQ(replays.find(Psn(7)), 222u) << before;
  }
}

static_assert(Limits{}.max_rd_atomic <= kRdAtomicMax);

class AtomicsNearTheWrap : public ConnectedQp {
 protected:
  ConnectOptions connection() const override { return {.rq_psn = kFirst}; }
  static constexpr std::uint32_t kFirst = MessageNumber::kMask - 2;
};

TEST_F(AtomicsNearTheWrap, EachIsExecutedOnceAndAnsweredWithItsOwnResult) {
  constexpr std::uint32_t kCount = 6;
  for (const bool again : {false, true}) {
    for (std::uint32_t i = 0; i < kCount; ++i) {
      Request add = request(RequestOp::kFetchAdd, kFirst + i, 8);
      add.compare_add = 1;
      ask(add);
      const Response response = answered();
      EXPECT_EQ(response.number, MessageNumber(kFirst + i)) << again;
      EXPECT_EQ(response.atomic_original, i) << again;
    }
  }
  EXPECT_EQ(a.word(mr, 0), kCount);
  EXPECT_EQ(a.engine.counters().duplicates, kCount);
}

}  // namespace
}  // namespace pvrdma::verbs
