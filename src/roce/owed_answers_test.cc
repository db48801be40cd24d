#include "roce/owed_answers.h"

#include <gtest/gtest.h>

namespace pvrdma::roce {
namespace {

using verbs::Psn;

OwedAnswer at(std::uint32_t psn) {
  return {.kind = OwedAnswer::Kind::kAtomic, .psn = Psn(psn)};
}

TEST(OwedAnswers, LeaveInTheirOrderHoweverOftenTheRingTurns) {
  OwedAnswers owed;
  std::uint32_t in = 0, out = 0;
  while (!owed.full()) owed.push(at(in++));
  EXPECT_EQ(in, OwedAnswers::kMost);
  for (int i = 0; i < 100; ++i) {
    for (int take = 0; take < 5; ++take) {
      EXPECT_EQ(owed.front().psn, Psn(out++));
      owed.pop();
    }
    while (!owed.full()) owed.push(at(in++));
  }
  EXPECT_EQ(in, out + OwedAnswers::kMost);
  for (; !owed.empty(); owed.pop()) EXPECT_EQ(owed.front().psn, Psn(out++));
  EXPECT_EQ(in, out);
}

TEST(OwedAnswers, AreDroppedFromWhereThePeerGoesBackTo) {
  OwedAnswers owed;
  for (const std::uint32_t psn : {0xff'fffeu, 0xff'ffffu, 0u, 3u}) owed.push(at(psn));
  EXPECT_EQ(owed.drop_from(Psn(4)), 0u);
  EXPECT_EQ(owed.drop_from(Psn(0)), 2u);
  EXPECT_EQ(owed.front().psn, Psn(0xff'fffe));
  EXPECT_EQ(owed.drop_from(Psn(0xff'fff0)), 2u);
  EXPECT_TRUE(owed.empty());
  EXPECT_EQ(owed.drop_from(Psn(0)), 0u);
}

}  // namespace
}  // namespace pvrdma::roce
