#include "roce/congestion_window.h"

#include <gtest/gtest.h>

namespace pvrdma::roce {
namespace {

using verbs::Psn;

TEST(CongestionWindow, GrowsByOneForEachWindowThatIsConfirmed) {
  CongestionWindow window;
  EXPECT_EQ(window.packets(), CongestionWindow::kFirst);
  window.on_confirmed(63, Psn(63));
  EXPECT_EQ(window.packets(), 64u);
  window.on_confirmed(1, Psn(64));
  EXPECT_EQ(window.packets(), 65u);
  window.on_confirmed(64, Psn(128));
  EXPECT_EQ(window.packets(), 65u);
}

TEST(CongestionWindow, HasAMost) {
  CongestionWindow window;
  for (std::uint32_t i = 0; i < 1000; ++i) window.on_confirmed(1000, Psn(i));
  EXPECT_EQ(window.packets(), CongestionWindow::kMost);
}

TEST(CongestionWindow, IsHalvedOnceForWhatWasOut) {
  CongestionWindow window;
  window.on_loss(Psn(100));
  EXPECT_EQ(window.packets(), 32u);
  window.on_loss(Psn(120));
  window.on_confirmed(1, Psn(99));
  window.on_loss(Psn(120));
  EXPECT_EQ(window.packets(), 32u) << "the packet before 100 is not confirmed";
  window.on_confirmed(1, Psn(100));
  window.on_loss(Psn(120));
  EXPECT_EQ(window.packets(), 16u);
}

TEST(CongestionWindow, BeginsAnewAfterSilenceAndSoonHasHalf) {
  CongestionWindow window;
  window.on_silence(Psn(64));
  EXPECT_EQ(window.packets(), CongestionWindow::kLeast);
  window.on_confirmed(4, Psn(4));
  EXPECT_EQ(window.packets(), 8u);
  window.on_silence(Psn(64));
  window.on_confirmed(60, Psn(64));
  EXPECT_EQ(window.packets(), 32u) << "halved once for what was out";
  window.on_confirmed(32, Psn(96));
  EXPECT_EQ(window.packets(), 33u);
}

TEST(CongestionWindow, HasHalfAtOnceWhenAnswersOnlyWereLate) {
  CongestionWindow window;
  window.on_silence(Psn(64));
  window.on_late();
  EXPECT_EQ(window.packets(), 32u);
}

TEST(CongestionWindow, HasALeast) {
  CongestionWindow window;
  for (std::uint32_t i = 0; i < 20; ++i) {
    window.on_loss(Psn(i));
    window.on_confirmed(1, Psn(i));
  }
  EXPECT_EQ(window.packets(), CongestionWindow::kLeast);
}

TEST(CongestionWindow, RecoversAcrossTheWrap) {
  CongestionWindow window;
  window.on_loss(Psn(5));
  window.on_confirmed(1, Psn(0xff'fff0));
  window.on_loss(Psn(6));
  EXPECT_EQ(window.packets(), 32u);
  window.on_confirmed(1, Psn(5));
  window.on_loss(Psn(30));
  EXPECT_EQ(window.packets(), 16u);
}

}  // namespace
}  // namespace pvrdma::roce
