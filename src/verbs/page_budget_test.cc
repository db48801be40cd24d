#include "verbs/page_budget.h"

#include <gtest/gtest.h>

namespace pvrdma::verbs {
namespace {

TEST(PageBudget, GivesNoMoreThanItHas) {
  PageBudget budget(10);
  const auto most = budget.take(7);
  ASSERT_TRUE(most);
  EXPECT_FALSE(budget.take(4));
  EXPECT_TRUE(budget.take(3)) << "a refusal costs nothing";
}

TEST(PageBudget, ASharesPagesComeBackOnceWhenItEnds) {
  PageBudget budget(10);
  {
    PageBudget::Share kept;
    {
      auto taken = budget.take(10);
      ASSERT_TRUE(taken);
      kept = *std::move(taken);
    }
    EXPECT_FALSE(budget.take(1)) << "the share moved, it did not end";
  }
  EXPECT_TRUE(budget.take(10));
}

}  // namespace
}  // namespace pvrdma::verbs
