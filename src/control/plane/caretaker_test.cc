#include "control/plane/caretaker.h"

#include <gtest/gtest.h>

namespace pvrdma::control {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

TEST(Caretaker, ForgetsWhatIsOlderThanItKeeps) {
  Caretaker caretaker;
  Instant now{minutes(10)};
  std::optional<std::uint64_t> forgotten;
  for (std::uint64_t revision = 1000; revision < 1000 + 10 * 60; revision += 10) {
    ASSERT_TRUE(caretaker.is_due(now));
    if (const auto wanted = caretaker.look(revision, now)) {
      EXPECT_EQ(*wanted, revision - 300) << "a revision a second, five minutes";
      forgotten = wanted;
    }
    EXPECT_FALSE(caretaker.is_due(now + seconds(9)));
    now = now + Caretaker::kLookPause;
  }
  EXPECT_EQ(forgotten, 1000 + 590 - 300U);
}

TEST(Caretaker, ForgetsSoonerWhenThereIsMuch) {
  Caretaker caretaker;
  Instant now{minutes(10)};
  EXPECT_EQ(caretaker.look(100, now), std::nullopt);
  now = now + Caretaker::kLookPause;
  EXPECT_EQ(caretaker.look(4000, now), std::nullopt);
  now = now + Caretaker::kLookPause;
  EXPECT_EQ(caretaker.look(6000, now), 4000U) << "who reads slowly has ten seconds";
  now = now + Caretaker::kLookPause;
  EXPECT_EQ(caretaker.look(6001, now), std::nullopt);
}

TEST(Caretaker, LetsAnIdleStoreBeAndANewOneStartAnew) {
  Caretaker caretaker;
  Instant now{minutes(10)};
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(caretaker.look(50'000, now), std::nullopt);
    now = now + Caretaker::kLookPause;
  }
  EXPECT_EQ(caretaker.look(3, now), std::nullopt) << "another store took its place";
  EXPECT_EQ(caretaker.look(4, now + Caretaker::kLookPause), std::nullopt);
}

TEST(Caretaker, IsTheFirstHostThatLives) {
  Inventory inventory;
  EXPECT_EQ(caretaker_of(inventory), "");
  inventory.hosts["esx-01"].name = "esx-01";
  inventory.live_hosts["esx-03"].name = "esx-03";
  inventory.live_hosts["esx-02"].name = "esx-02";
  EXPECT_EQ(caretaker_of(inventory), "esx-02");
}

}  // namespace
}  // namespace pvrdma::control
