// Which adapters belong into the ward, by the times of their offences.
#include "adapters/offences.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace pvrdma::adapters {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kBegin = Instant{} + std::chrono::hours(1);

class OffencesTest : public testing::Test {
 protected:
  std::vector<std::string> offenders(Instant now) {
    std::vector<std::string> names;
    for (const Offence& each : offences_.due(now)) names.push_back(each.adapter);
    return names;
  }
  using Names = std::vector<std::string>;

  Offences offences_;
};

TEST_F(OffencesTest, TwoWithinAMinuteAreEnough) {
  offences_.note({"VM-1", milliseconds(20)}, kBegin);
  EXPECT_EQ(offenders(kBegin), Names{});
  offences_.note({"VM-1", milliseconds(25)}, kBegin + seconds(60));
  EXPECT_EQ(offenders(kBegin + seconds(60)), Names{"VM-1"});
  EXPECT_EQ(offences_.due(kBegin + seconds(60)).at(0).took, milliseconds(25));
}

TEST_F(OffencesTest, TwoThatAreFurtherApartAreNot) {
  offences_.note({"VM-1", seconds(1)}, kBegin);
  offences_.note({"VM-1", seconds(1)}, kBegin + seconds(60) + milliseconds(1));
  EXPECT_EQ(offenders(kBegin + seconds(61)), Names{});
  offences_.note({"VM-1", seconds(1)}, kBegin + seconds(62));
  EXPECT_EQ(offenders(kBegin + seconds(62)), Names{"VM-1"}) << "the second one was the first of the next two";
}

TEST_F(OffencesTest, AShortOneIsNone) {
  for (int i = 0; i < 10; ++i)
    offences_.note({"VM-1", milliseconds(20) - std::chrono::nanoseconds(1)}, kBegin);
  EXPECT_EQ(offenders(kBegin), Names{});
}

TEST_F(OffencesTest, EachAdapterCountsForItself) {
  offences_.note({"VM-1", seconds(1)}, kBegin);
  offences_.note({"VM-2", seconds(1)}, kBegin);
  EXPECT_EQ(offenders(kBegin), Names{});
  offences_.note({"VM-2", seconds(1)}, kBegin);
  EXPECT_EQ(offenders(kBegin), Names{"VM-2"});
}

TEST_F(OffencesTest, AnOffenderStaysOneUntilItIsQuietForAMinuteOrForgotten) {
  for (const Instant at : {kBegin, kBegin, kBegin + seconds(50)}) offences_.note({"VM-1", seconds(1)}, at);
  EXPECT_EQ(offenders(kBegin + seconds(110)), Names{"VM-1"});
  EXPECT_EQ(offenders(kBegin + seconds(110) + milliseconds(1)), Names{});
  offences_.note({"VM-1", seconds(1)}, kBegin + seconds(111));
  EXPECT_EQ(offenders(kBegin + seconds(111)), Names{});
  offences_.note({"VM-1", seconds(1)}, kBegin + seconds(112));
  EXPECT_EQ(offenders(kBegin + seconds(112)), Names{"VM-1"});
  offences_.forget("VM-1");
  EXPECT_EQ(offenders(kBegin + seconds(112)), Names{});
}

TEST_F(OffencesTest, ARefusalIsTriedAgainAfterAPauseThatDoubles) {
  EXPECT_EQ(offences_.next_due(), Instant::never());
  for (int i = 0; i < 2; ++i) offences_.note({"VM-1", seconds(1)}, kBegin);
  EXPECT_EQ(offences_.next_due(), kBegin);
  Instant now = kBegin;
  for (const int pause : {1, 2, 4, 8, 16, 32, 60, 60}) {
    ASSERT_EQ(offenders(now), Names{"VM-1"});
    offences_.put_off("VM-1", now);
    EXPECT_EQ(offences_.next_due(), now + seconds(pause));
    offences_.note({"VM-1", seconds(1)}, now + seconds(pause) / 2);
    EXPECT_EQ(offenders(now + (seconds(pause) - milliseconds(1))), Names{});
    now = now + seconds(pause);
  }
  offences_.put_off("VM-2", now);
  EXPECT_EQ(offenders(now), Names{"VM-1"}) << "nothing is known of VM-2";
}

TEST_F(OffencesTest, OfTooManyAdaptersTheOldestOffenceMakesRoom) {
  for (std::size_t i = 0; i < Offences::kAdaptersMax; ++i)
    offences_.note({std::to_string(i), seconds(1)}, kBegin + milliseconds(i));
  const Instant later = kBegin + seconds(2);
  offences_.note({"new", seconds(1)}, later);
  offences_.note({"new", seconds(1)}, later);
  offences_.note({"1", seconds(1)}, later);
  offences_.note({"0", seconds(1)}, later);
  EXPECT_EQ(offenders(later), (Names{"1", "new"})) << "0 was forgotten";
}

}  // namespace
}  // namespace pvrdma::adapters
