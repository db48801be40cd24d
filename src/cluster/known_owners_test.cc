#include "cluster/known_owners.h"

#include <gtest/gtest.h>

namespace pvrdma::cluster {
namespace {

using namespace std::chrono_literals;

class KnownOwnersTest : public testing::Test {
 protected:
  Result<SocketOwner> find() {
    owners_.begin_round();
    return owners_.find("alice", "", now_);
  }

  Instant now_{1000s};
  int looked_up_ = 0;
  Result<SocketOwner> database_ = SocketOwner{.user = 1001};
  KnownOwners owners_{[this](const std::string&, const std::string&) {
    ++looked_up_;
    return database_;
  }};
};

TEST_F(KnownOwnersTest, NobodyIsNotLookedUp) {
  EXPECT_EQ(owners_.find("", "", now_).value(), SocketOwner{});
  EXPECT_EQ(looked_up_, 0);
}

TEST_F(KnownOwnersTest, AnAnswerLasts) {
  EXPECT_EQ(find()->user, 1001U);
  now_ = now_ + (KnownOwners::kFoundLasts - 1s);
  EXPECT_EQ(find()->user, 1001U);
  EXPECT_EQ(looked_up_, 1);
  database_ = SocketOwner{.user = 1002};
  now_ = now_ + 1s;
  EXPECT_EQ(find()->user, 1002U);
  EXPECT_FALSE(owners_.is_due(now_ + 1h)) << "a found one waits for the next round";
}

TEST_F(KnownOwnersTest, AFailedLookUpLeavesWhatWasFound) {
  EXPECT_TRUE(find());
  database_ = fail(ErrorKind::kUnavailable, "the directory does not answer");
  now_ = now_ + KnownOwners::kFoundLasts;
  EXPECT_EQ(find()->user, 1001U);
  EXPECT_TRUE(owners_.is_due(now_ + KnownOwners::kFailureLasts));
  now_ = now_ + KnownOwners::kFailureLasts;
  EXPECT_EQ(find()->user, 1001U);
  EXPECT_EQ(looked_up_, 3);
}

TEST_F(KnownOwnersTest, AnUnknownOwnerIsLookedUpAgainAfterAWhile) {
  EXPECT_TRUE(find());
  database_ = fail(ErrorKind::kInvalid, "this host has no user alice");
  now_ = now_ + KnownOwners::kFoundLasts;
  EXPECT_FALSE(find()) << "it does not exist any more";
  EXPECT_FALSE(owners_.is_due(now_));
  EXPECT_FALSE(find());
  EXPECT_EQ(looked_up_, 2);
  now_ = now_ + KnownOwners::kFailureLasts;
  EXPECT_TRUE(owners_.is_due(now_));
  database_ = SocketOwner{.user = 1003};
  EXPECT_EQ(find()->user, 1003U);
}

TEST_F(KnownOwnersTest, ForgetsWhoIsNotAskedFor) {
  EXPECT_TRUE(find());
  owners_.begin_round();
  EXPECT_TRUE(find());
  EXPECT_EQ(looked_up_, 2);
}

}  // namespace
}  // namespace pvrdma::cluster
