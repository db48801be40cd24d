#include "pvrdmactl/formatter.h"

#include <gtest/gtest.h>

namespace pvrdma::ctl {
namespace {

Table nics() {
  Table table(
      {{"Name"}, {"Link Status"}, {"MTU", Align::kRight}, {"Enabled", Align::kRight}, {"Description"}});
  table.add({"vmnic0", "Up", "9000", "true", "ConnectX-5, \"dual\" <2>"});
  table.add({"vmnic1", "Down", "-", "false", ""});
  return table;
}

Table version() {
  Table table({{"Product"}, {"Version"}}, Layout::kObject);
  table.add({"pvrdmad", "1.0"});
  return table;
}

TEST(Formatter, NamesARowAsTheCommandDoes) {
  EXPECT_EQ(structure_name("network nic list"), "Nic");
  EXPECT_EQ(structure_name("system version get"), "VersionGet");
  EXPECT_EQ(structure_name("vm list"), "Vm");
  EXPECT_EQ(structure_name("stats"), "Stats");
}

TEST(Formatter, WritesCsvInTheOrderOfTheNames) {
  EXPECT_EQ(csv_of(nics()),
            "Description,Enabled,LinkStatus,MTU,Name,\n"
            "\"ConnectX-5, \"\"dual\"\" <2>\",true,Up,9000,vmnic0,\n"
            ",false,Down,-,vmnic1,\n");
  EXPECT_EQ(csv_of(Table({{"B"}, {"A"}})), "A,B,\n") << "an empty list has its names";
}

TEST(Formatter, WritesJsonWithTypes) {
  EXPECT_EQ(
      json_of(nics()).dump(),
      R"([{"Description":"ConnectX-5, \"dual\" <2>","Enabled":true,"LinkStatus":"Up","MTU":9000,)"
      R"("Name":"vmnic0"},{"Description":"","Enabled":false,"LinkStatus":"Down","MTU":"-","Name":"vmnic1"}])");
  EXPECT_EQ(json_of(version()).dump(), R"({"Product":"pvrdmad","Version":"1.0"})");
}

TEST(Formatter, WritesKeysAndValuesWithTypes) {
  EXPECT_EQ(key_values_of(version(), "VersionGet"),
            "VersionGet.Product.string=pvrdmad\nVersionGet.Version.string=1.0\n");
  EXPECT_EQ(key_values_of(nics(), "Nic").substr(0, 85),
            "Nic.Description.string=ConnectX-5, \"dual\" <2>\nNic.Enabled.boolean=true\nNic.LinkStatus");
}

TEST(Formatter, WritesXml) {
  const std::string xml = xml_of(nics(), "Nic");
  EXPECT_NE(
      xml.find("<list type=\"structure\">\n<structure typeName=\"Nic\">\n"
               "<field name=\"Description\"><string>ConnectX-5, &quot;dual&quot; &lt;2&gt;</string></field>\n"
               "<field name=\"Enabled\"><boolean>true</boolean></field>\n"),
      std::string::npos)
      << xml;
  EXPECT_EQ(xml_of(version(), "VersionGet").find("<list"), std::string::npos) << "an object is no list";
}

}  // namespace
}  // namespace pvrdma::ctl
