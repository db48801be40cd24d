#include "roce/round_trip.h"

#include <gtest/gtest.h>

namespace pvrdma::roce {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using verbs::Psn;

constexpr Instant kBegin{seconds(1)};

// Sends one packet and answers it.
void measure(RoundTrip& round_trip, std::uint32_t psn, Duration took) {
  round_trip.on_sent(Psn(psn), kBegin);
  round_trip.on_confirmed(Psn(psn), kBegin + took);
}

TEST(RoundTrip, IsUnknownAtFirst) {
  EXPECT_EQ(RoundTrip().repeat_after(), RoundTrip::kFirst);
}

TEST(RoundTrip, RepeatsAfterFour) {
  RoundTrip round_trip;
  measure(round_trip, 1, milliseconds(10));
  EXPECT_EQ(round_trip.repeat_after(), milliseconds(40));
}

TEST(RoundTrip, IsSmoothed) {
  RoundTrip round_trip;
  measure(round_trip, 1, milliseconds(8));
  measure(round_trip, 2, milliseconds(16));
  EXPECT_EQ(round_trip.repeat_after(), milliseconds(36));
}

TEST(RoundTrip, HasLimits) {
  RoundTrip quick, slow;
  measure(quick, 1, microseconds(20));
  EXPECT_EQ(quick.repeat_after(), RoundTrip::kLeast);
  measure(slow, 1, seconds(3600));
  EXPECT_EQ(slow.repeat_after(), RoundTrip::kMost);
}

TEST(RoundTrip, DoublesWithEachSilenceUntilAnAnswerMeasures) {
  RoundTrip round_trip;
  measure(round_trip, 1, milliseconds(10));
  round_trip.on_silence();
  round_trip.on_silence();
  EXPECT_EQ(round_trip.repeat_after(), milliseconds(160));
  for (int i = 0; i < 100; ++i) round_trip.on_silence();
  EXPECT_EQ(round_trip.repeat_after(), RoundTrip::kMost);
  round_trip.on_confirmed(Psn(2), kBegin);
  EXPECT_EQ(round_trip.repeat_after(), RoundTrip::kMost) << "perhaps of what was sent twice";
  measure(round_trip, 3, milliseconds(10));
  EXPECT_LT(round_trip.repeat_after(), milliseconds(50));
}

TEST(RoundTrip, IsNotMeasuredByWhatWasSentTwice) {
  RoundTrip round_trip;
  measure(round_trip, 1, milliseconds(10));
  round_trip.on_sent(Psn(2), kBegin);
  round_trip.on_sent_again(Psn(1), Psn(3));
  round_trip.on_confirmed(Psn(2), kBegin + seconds(1));
  EXPECT_EQ(round_trip.repeat_after(), milliseconds(40));
}

TEST(RoundTrip, IsMeasuredByWhatComesLateAndWasSentOnce) {
  RoundTrip round_trip;
  measure(round_trip, 1, milliseconds(10));
  round_trip.on_sent(Psn(6), kBegin);
  round_trip.on_silence();
  round_trip.on_sent_again(Psn(2), Psn(6));
  round_trip.on_confirmed(Psn(6), kBegin + milliseconds(90));
  EXPECT_EQ(round_trip.repeat_after(), milliseconds(115));
}

TEST(RoundTrip, IsMeasuredByOnePacketAtATime) {
  RoundTrip round_trip;
  round_trip.on_sent(Psn(0xff'ffff), kBegin);
  round_trip.on_sent(Psn(1), kBegin + milliseconds(9));
  round_trip.on_confirmed(Psn(0xff'fffe), kBegin + milliseconds(9));
  EXPECT_EQ(round_trip.repeat_after(), RoundTrip::kFirst) << "not the one that is measured";
  round_trip.on_confirmed(Psn(0), kBegin + milliseconds(10));
  EXPECT_EQ(round_trip.repeat_after(), milliseconds(40));
}

}  // namespace
}  // namespace pvrdma::roce
