#include "pvrdmactl/table.h"

#include <gtest/gtest.h>

namespace pvrdma::ctl {
namespace {

TEST(Table, AlignsColumnsUnderATwoLineHeader) {
  Table table({{"Name"}, {"QPs", Align::kRight}, {"Socket"}});
  table.add({"VM-01", "3", "/a"});
  table.add({"a", "12345", "/run/b"});
  EXPECT_EQ(table.text(),
            "Name     QPs  Socket\n"
            "-----  -----  ------\n"
            "VM-01      3  /a\n"
            "a      12345  /run/b\n");
}

TEST(Table, IsItsHeaderWhenEmpty) {
  EXPECT_EQ(Table({{"A"}, {"BB"}}).text(), "A  BB\n-  --\n");
}

TEST(Properties, AreIndentedUnderTheTitle) {
  Properties properties("VM-01");
  properties.add("State", "off");
  properties.add("Guest OS", "");
  EXPECT_EQ(properties.text(), "VM-01\n   State: off\n   Guest OS:\n");
  Properties untitled;
  untitled.add("State", "off");
  EXPECT_EQ(untitled.text(), "   State: off\n");
}

}  // namespace
}  // namespace pvrdma::ctl
