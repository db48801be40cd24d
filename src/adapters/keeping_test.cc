#include "adapters/keeping.h"

#include <gtest/gtest.h>
#include <map>
#include <string>

namespace pvrdma::adapters {
namespace {

class KeepingTest : public testing::Test {
 protected:
  KeepingTest() {
    std::map<std::string, GivenBack> given;
    given["VM-01"].record.changes = 1;
    given["VM-02"].record.changes = 2;
    keeping_.give_back(std::move(given));
  }

  int noticed_ = 0;
  Keeping keeping_{[this] { ++noticed_; }};
};

TEST_F(KeepingTest, ARecordStaysUntilItsAdapterIsTakenBack) {
  EXPECT_EQ(keeping_.given("VM-01")->record.changes, 1U);
  EXPECT_EQ(keeping_.given("VM-01")->record.changes, 1U);  // making the adapter may fail, and is tried again
  EXPECT_EQ(keeping_.given("VM-03"), nullptr);
  keeping_.taken_back("VM-01");
  EXPECT_EQ(keeping_.given("VM-01"), nullptr);
  EXPECT_NE(keeping_.given("VM-02"), nullptr);
}

TEST_F(KeepingTest, DropsRecordsThatNobodyWantsWhileOneIsInUse) {
  const auto in_use = keeping_.given("VM-01");
  keeping_.drop_all_but({"VM-01", "VM-02"});
  EXPECT_EQ(noticed_, 0);
  keeping_.drop_all_but({"VM-02"});
  EXPECT_EQ(noticed_, 1);
  EXPECT_EQ(in_use->record.changes, 1U);
  EXPECT_EQ(keeping_.given("VM-01"), nullptr);
  EXPECT_NE(keeping_.given("VM-02"), nullptr);
  keeping_.drop_all_but({});
  EXPECT_EQ(keeping_.given("VM-02"), nullptr);
}

}  // namespace
}  // namespace pvrdma::adapters
