#include "control/model/configuration_changes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/model/edits.h"

namespace pvrdma::control {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// "dvs DSwitch added: uplinks null -> ["uplink1"], ...".
std::vector<std::string> told(const Inventory& before, const Inventory& after) {
  std::vector<std::string> lines;
  for (const ObjectChange& change : changes_between(before, after)) {
    std::vector<std::string> members;
    for (const MemberChange& each : change.members)
      members.push_back(fmt::format("{} {} -> {}", each.member, each.before.dump(), each.after.dump()));
    lines.push_back(fmt::format("{} {} {}: {}", to_text(change.kind), change.name, to_text(change.change),
                                fmt::join(members, ", ")));
  }
  return lines;
}

class ChangesTest : public testing::Test {
 protected:
  ChangesTest() {
    before_.hosts["esx-01"].name = "esx-01";
    before_.switches["DSwitch"] = {.name = "DSwitch",
                                   .id = 1,
                                   .version = "8.0.0",
                                   .uplinks = {"uplink1"},
                                   .portgroups = {{"Group", {.vlan = 5}}},
                                   .members = {}};
    after_ = before_;
  }
  Inventory before_;
  Inventory after_;
};

TEST_F(ChangesTest, EqualConfigurationsHaveNone) {
  EXPECT_THAT(told(before_, after_), IsEmpty());
  after_.revision = 7;
  after_.powered_on["VM-01"] = "esx-01";
  EXPECT_THAT(told(before_, after_), IsEmpty()) << "live records are not configuration";
}

TEST_F(ChangesTest, NamesTheMembersThatDiffer) {
  after_.switches["DSwitch"].portgroups["Group"].vlan = 6;
  after_.hosts["esx-01"].vmks["vmk2"] = IpAddress::parse("10.0.0.1").value();
  after_.hosts["esx-01"].pvrdma_vmknic = "vmk2";
  EXPECT_THAT(told(before_, after_),
              ElementsAre("dvs DSwitch changed: portgroups/Group/vlan 5 -> 6",
                          "host esx-01 changed: pvrdma_vmknic \"\" -> \"vmk2\", vmks/vmk2 null -> "
                          "\"10.0.0.1\""));
}

TEST_F(ChangesTest, AnObjectIsAMemberBesideItsMembers) {
  after_.switches["DSwitch"].members["esx-01"];
  EXPECT_THAT(told(before_, after_), ElementsAre("dvs DSwitch changed: members/esx-01 null -> {}"));
  Inventory with_uplink = after_;
  with_uplink.switches["DSwitch"].members["esx-01"]["uplink1"] = "vmnic0";
  EXPECT_THAT(told(after_, with_uplink),
              ElementsAre("dvs DSwitch changed: members/esx-01/uplink1 null -> \"vmnic0\""));
  EXPECT_THAT(told(with_uplink, after_),
              ElementsAre("dvs DSwitch changed: members/esx-01/uplink1 \"vmnic0\" -> null"));
  EXPECT_THAT(told(with_uplink, before_),
              ElementsAre("dvs DSwitch changed: members/esx-01 {} -> null, members/esx-01/uplink1 "
                          "\"vmnic0\" -> null"))
      << "a host that leaves differs from one that loses its uplink";
}

TEST_F(ChangesTest, ShowsAllOfANewObjectAndOnlyTheNameOfARemovedOne) {
  after_.switches.clear();
  after_.vms["VM-01"] = {.name = "VM-01", .host = "esx-01", .hardware_version = 14, .memory_mib = 512};
  EXPECT_THAT(
      told(before_, after_),
      ElementsAre("dvs DSwitch removed: ",
                  "vm VM-01 added: arrived_by null -> \"\", hardware_version null -> 14, host null -> "
                  "\"esx-01\", memory_mib null -> 512, memory_reserved_mib null -> 0"));
}

}  // namespace
}  // namespace pvrdma::control
