#include "base/blame.h"

#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <utility>

#include "support/manual_clock.h"

namespace pvrdma {
namespace {

using namespace std::chrono_literals;

class BlameTest : public testing::Test {
 protected:
  class Guest final : public Blame::Party {
   public:
    using Party::Party;
    void on_blamed(Duration took) override { took_ = took; }
    std::string what() const override { return "a guest"; }
    // What it was blamed for since the last call.
    std::optional<Duration> took() { return std::exchange(took_, std::nullopt); }

   private:
    std::optional<Duration> took_;
  };

  void begin_to_watch() { blame_.end_long_turn(clock_.now(), 0ms); }
  void begin_turn() { blame_.begin_turn(clock_.now()); }
  Blame::Blamed end_turn(Duration idle = 0ms) { return blame_.end_long_turn(clock_.now(), idle); }
  void piece_of(Guest& guest, Duration takes) {
    const Blame::Piece piece(blame_, &guest);
    clock_.advance(takes);
  }

  test::ManualClock clock_;
  Blame blame_{clock_};
  Guest a_{blame_};
  Guest b_{blame_};
};

TEST_F(BlameTest, NobodyIsBlamedForTheFirstLongTurnAndThenForAMinute) {
  begin_turn();
  piece_of(a_, 50ms);
  EXPECT_EQ(end_turn().party, nullptr);
  EXPECT_EQ(a_.took(), std::nullopt);
  begin_turn();
  piece_of(a_, 50ms);
  EXPECT_EQ(end_turn().party, &a_);
  EXPECT_EQ(a_.took(), 50ms);
  clock_.advance(Blame::kWatchesFor);
  begin_turn();
  EXPECT_FALSE(blame_.is_watching());
  piece_of(a_, 50ms);
  EXPECT_EQ(end_turn().party, nullptr);
  EXPECT_EQ(a_.took(), std::nullopt);
}

TEST_F(BlameTest, WhileNobodyWatchesNoClockIsRead) {
  piece_of(a_, 0ms);
  EXPECT_EQ(clock_.reads(), 0U);
}

TEST_F(BlameTest, TimeCountsForTheInnermostPiece) {
  begin_to_watch();
  begin_turn();
  {
    const Blame::Piece outer(blame_, &a_);
    clock_.advance(30ms);
    {
      const Blame::Piece inner(blame_, &b_);
      EXPECT_EQ(inner.outer_party(), &a_);
      clock_.advance(25ms);
      {
        const Blame::Piece nobodys(blame_, nullptr);
        clock_.advance(70ms);
      }
    }
    clock_.advance(2ms);
  }
  clock_.advance(100ms);
  const Blame::Blamed worst = end_turn();
  EXPECT_EQ(worst.party, &a_);
  EXPECT_EQ(worst.took, 32ms);
  EXPECT_EQ(a_.took(), 32ms);
  EXPECT_EQ(b_.took(), 25ms);
}

TEST_F(BlameTest, ShortPiecesOfOneTurnAreAdded) {
  begin_to_watch();
  for (int turn = 0; turn < 3; ++turn) {
    begin_turn();
    for (int i = 0; i < 20; ++i) {
      piece_of(a_, 1ms);
      piece_of(b_, 900us);
    }
    EXPECT_EQ(end_turn().party, &a_);
    EXPECT_EQ(a_.took(), 20ms);
    EXPECT_EQ(b_.took(), std::nullopt);
  }
}

TEST_F(BlameTest, TimeThatTheThreadMayHaveWaitedForACoreIsNobodys) {
  begin_to_watch();
  begin_turn();
  piece_of(a_, 60ms);
  piece_of(b_, 49ms);
  EXPECT_EQ(end_turn(30ms).took, 30ms);
  EXPECT_EQ(a_.took(), 30ms);
  EXPECT_EQ(b_.took(), std::nullopt);
}

TEST_F(BlameTest, APartyMayGoBetweenTurns) {
  begin_to_watch();
  begin_turn();
  {
    Guest short_lived(blame_);
    piece_of(short_lived, 50ms);
  }
  EXPECT_EQ(end_turn().party, nullptr);
}

}  // namespace
}  // namespace pvrdma
