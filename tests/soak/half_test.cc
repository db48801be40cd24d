// Breaks exactly-once delivery to show that the soak's checker notices it.
#include "programs/half.h"

#include <gtest/gtest.h>
#include <memory>

#include "support/must.h"
#include "support/stamped_block.h"
#include "support/testbench.h"

namespace pvrdma::test {
namespace {

constexpr std::uint32_t kBlock = 4096;
constexpr std::size_t kCounterAt = 2 * std::size_t{kBlock};
constexpr std::size_t kNumberAt = kCounterAt + 8;

class HalfTest : public testing::Test {
 protected:
  HalfTest() {
    must(answerer_.join(Role::kAnswerer, peer_of(asker_), 14));
    must(asker_.join(Role::kAsker, peer_of(answerer_), 14));
  }

  static Peer peer_of(const Half& half) {
    const RcEndpoint& end = half.endpoint();
    return {.gid = end.gid, .qpn = end.qp->qpn(), .buffer = end.remote()};
  }
  // On the local path a round's requests are executed when they are posted.
  void round() {
    answerer_.poll(true);
    asker_.poll(true);
  }
  bool all_is_well() const { return !asker_.ended() && !answerer_.ended(); }

  Testbench bench_{TestbenchOptions{.adapter_count = 2}};
  Half asker_{bench_.device(0), gid_of(0), kBlock};
  Half answerer_{bench_.device(1), gid_of(1), kBlock};
};

TEST_F(HalfTest, RoundsFollowRounds) {
  for (int i = 0; i < 10; ++i) round();
  EXPECT_TRUE(all_is_well()) << asker_.findings().wrong.value_or("")
                             << answerer_.findings().wrong.value_or("");
  EXPECT_EQ(asker_.rounds(), 10U);
  EXPECT_EQ(answerer_.rounds(), 10U);
}

TEST_F(HalfTest, TheNextRoundWaitsUntilItMayBegin) {
  answerer_.poll(false);
  asker_.poll(false);
  EXPECT_EQ(asker_.rounds(), 1U);
  answerer_.poll(false);
  EXPECT_EQ(answerer_.rounds(), 1U) << "nothing was asked";
  asker_.poll(true);
  answerer_.poll(false);
  EXPECT_EQ(answerer_.rounds(), 2U);
}

TEST_F(HalfTest, AnAtomicExecutedTwiceIsFound) {
  round();
  std::byte* counter = answerer_.endpoint().bytes(kCounterAt);
  store_word(counter, load_word(counter) + 1);
  answerer_.poll(true);
  ASSERT_TRUE(answerer_.findings().wrong);
  EXPECT_NE(answerer_.findings().wrong->find("the counter is 3, not 2"), std::string::npos);
}

TEST_F(HalfTest, AnAtomicExecutedAgainLaterIsFoundByTheAsker) {
  answerer_.poll(true);
  std::byte* counter = answerer_.endpoint().bytes(kCounterAt);
  store_word(counter, load_word(counter) + 1);
  asker_.poll(true);  // begins the second round
  asker_.poll(true);
  ASSERT_TRUE(asker_.findings().wrong);
  EXPECT_NE(asker_.findings().wrong->find("the counter was 2"), std::string::npos);
}

TEST_F(HalfTest, AWriteThatCameLateIsFound) {
  stamp_block(answerer_.endpoint().bytes(), kBlock, 7);
  answerer_.poll(true);
  ASSERT_TRUE(answerer_.findings().wrong);
  EXPECT_NE(answerer_.findings().wrong->find("word 0 of the block written"), std::string::npos);
}

TEST_F(HalfTest, AMessageThatCameTwiceIsFound) {
  answerer_.poll(true);
  const driver::Sge number = asker_.endpoint().sge(kNumberAt, 8);
  ASSERT_TRUE(asker_.endpoint().qp->post_send(driver::wr::send(9, {&number, 1}, 0)).ok());
  answerer_.poll(true);
  ASSERT_TRUE(answerer_.findings().wrong);
  EXPECT_NE(answerer_.findings().wrong->find("number 0 arrived"), std::string::npos);
}

TEST_F(HalfTest, AConnectionThatEndsIsLostAndNotWrong) {
  round();
  must(asker_.endpoint().qp->to_error());
  asker_.poll(true);
  EXPECT_TRUE(asker_.findings().lost);
  EXPECT_FALSE(asker_.findings().wrong);
}

}  // namespace
}  // namespace pvrdma::test
