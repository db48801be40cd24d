// Tests a dialler's bulk QPs with a peer that lends answers to reads, and with one that does not know lent
// answers.
#include "transport/hca/lender.h"

#include "gtest/gtest.h"

#include "transport/hca/bulk_fuzz_fixture.h"

namespace pvrdma::transport::hca {
namespace {

class CountingPeer final : public LyingPeer {
 public:
  using LyingPeer::LyingPeer;
  int offers = 0;
  int returned = 0;

 private:
  void on_bulk_frame(const BulkFrame& frame) override {
    if (std::holds_alternative<BulkReturned>(frame.body)) ++returned;
    const auto* offer = std::get_if<BulkOffer>(&frame.body);
    if (offer == nullptr) return;
    ++offers;
    accept(*offer);
  }
};

verbs::Request long_one(verbs::RequestOp op) {
  verbs::Request request{.from = {gid(1), qpn_of(0)}, .to = {peer_gid(0), qpn_of(0)}, .op = op};
  request.bytes = request.message_bytes = kTargetBytes;
  return request;
}

void ask(BulkFuzz<CountingPeer>& world) {
  world.pipe().expect_loan(world.vm().engine(), kSegment, long_one(verbs::RequestOp::kRead), world.now());
  world.pass(5000);
}

bool lend(BulkFuzz<CountingPeer>& world) {
  const bool lent = world.pipe().lend(world.vm().engine(), kSegment, long_one(verbs::RequestOp::kWrite),
                                      world.vm().memory_of(0, kTargetBytes), world.now());
  world.pass(5000);
  return lent;
}

TEST(LenderTest, ALongReadMakesABulkQpThatTheAnswerMayBeLentBy) {
  BulkFuzz<CountingPeer> world(Pipe::Role::kDialler);
  ask(world);
  EXPECT_EQ(world.peer().offers, 1);
  EXPECT_EQ(world.peer().returned, 1) << "it stands";
  EXPECT_TRUE(lend(world)) << "requests go by the same";
  EXPECT_EQ(world.peer().offers, 1);
}

TEST(LenderTest, AnOlderHostHearsNothingOfAnswersThatAreLent) {
  BulkFuzz<CountingPeer> world(Pipe::Role::kDialler, true);
  ask(world);
  EXPECT_EQ(world.peer().offers, 0);
  EXPECT_FALSE(lend(world)) << "there is none yet";
  EXPECT_EQ(world.peer().offers, 1);
  EXPECT_TRUE(lend(world));
  EXPECT_EQ(world.peer().returned, 0);
}

}  // namespace
}  // namespace pvrdma::transport::hca
