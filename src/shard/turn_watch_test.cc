// Who is blamed for a long turn, with a manual clock. loop_time_test.cc has what the loop passes to the
// watch, and base/blame_test.cc how pieces are added up.
#include "shard/turn_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <utility>

#include "support/log_of.h"
#include "support/manual_clock.h"

namespace pvrdma::shard {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class Guest final : public Blame::Party {
 public:
  using Party::Party;
  void on_blamed(Duration took) override { blamed = took; }
  std::string what() const override { return "adapter web2"; }
  Duration blamed{0};
};

class TurnWatchTest : public testing::Test {
 protected:
  // A turn in which adapter web1 calls adapter web2, which does that work. Returns the log's lines about it.
  template <typename Work>
  std::string turn(Work work) {
    watch_.begin(clock_.now());
    return rest_of_turn(work);
  }
  template <typename Work>
  std::string rest_of_turn(Work work) {
    {
      const Blame::Piece piece(blame_, &web2_);
      work();
    }
    watch_.ran(clock_.now(), [] { return std::string("in the turn of adapter web1"); });
    return test::log_of([this] { watch_.end(clock_.now()); });
  }
  Duration blamed() { return std::exchange(web2_.blamed, 0ms); }

  test::ManualClock clock_;
  Blame blame_{clock_};
  Guest web2_{blame_};
  TurnWatch watch_{3, clock_, blame_};
};

TEST_F(TurnWatchTest, SaysBecauseOfWhomAndBlamesNobodyForAMissingCore) {
  const auto sleeps = [this] { clock_.sleep(30ms); };
  EXPECT_THAT(turn(sleeps), HasSubstr("30.0 ms of them in the turn of adapter web1")) << "nobody looked";
  EXPECT_THAT(turn(sleeps), HasSubstr("30.0 ms of them because of adapter web2"));
  EXPECT_EQ(blamed(), 30ms);
  EXPECT_THAT(turn([this] {
                clock_.sleep(30ms);
                clock_.wait_for_core(15ms);
              }),
              HasSubstr("waited 45.0 ms for one turn, 30.0 ms of them because of adapter web2"));
  EXPECT_THAT(turn([this] { clock_.work(31ms); }), HasSubstr("31.0 ms of them because of adapter web2"));
  EXPECT_EQ(blamed(), 31ms);
  EXPECT_THAT(turn([this] {
                clock_.sleep(1ms);
                clock_.wait_for_core(40ms);
              }),
              HasSubstr("41.0 ms of them in the turn of adapter web1"));
  // This virtual machine had no core.
  EXPECT_THAT(turn([this] { clock_.advance(40ms); }),
              HasSubstr("40.0 ms of them in the turn of adapter web1"));
  EXPECT_EQ(blamed(), 0ms);
  EXPECT_EQ(watch_.long_turns(), 6U);
  EXPECT_EQ(watch_.long_turns_unblamed(), 3U);
}

TEST_F(TurnWatchTest, BlamesNobodyIfTheKernelsCountsAreMissing) {
  clock_.wait_for_core(500ms);
  const auto turn_that_ends = [this](bool lost) {
    turn([this, lost] {
      clock_.sleep(30ms);
      clock_.lose_count(lost);
    });
    return blamed();
  };
  turn_that_ends(false);
  EXPECT_EQ(turn_that_ends(true), 0ms) << "at the end";
  EXPECT_EQ(turn_that_ends(false), 0ms) << "at the beginning";
  EXPECT_EQ(turn_that_ends(false), 30ms);
}

TEST_F(TurnWatchTest, TheSleepBeforeTheWorkIsNoneOfTheWork) {
  turn([this] { clock_.sleep(30ms); });
  watch_.begin(clock_.now());
  clock_.sleep(100us);
  watch_.woke_up(clock_.now());
  rest_of_turn([this] { clock_.advance(40ms); });  // this virtual machine had no core
  EXPECT_EQ(blamed(), 0ms);
  EXPECT_EQ(watch_.long_turns(), 2U);
}

}  // namespace
}  // namespace pvrdma::shard
