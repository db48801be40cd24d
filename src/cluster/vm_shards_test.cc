#include "cluster/vm_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster_fixture.h"
#include "support/log_of.h"

namespace pvrdma::cluster {
namespace {

namespace edits = control::edits;
using testing::_;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// esx-01 with VM-01, VM-11, VM-12 and VM-13. Every host knows of shards.
class VmShardsTest : public testing::Test {
 protected:
  VmShardsTest() {
    for (const std::string vm : {"VM-11", "VM-12", "VM-13"}) add_vm(inventory_, vm, "esx-01");
    for (auto& [name, live] : inventory_.live_hosts) live.shards = 1;
  }
  // By shard.
  std::vector<std::vector<std::string>> divide() {
    views_ = shards_->divide(compute_view(inventory_, "esx-01", "/run/pvrdma", ids_), inventory_);
    std::vector<std::vector<std::string>> vms;
    for (const ShardView& view : views_) {
      auto& names = vms.emplace_back();
      for (const auto& adapter : view.adapters) names.push_back(adapter.config.name);
    }
    return vms;
  }
  void remove_vm(const std::string& vm) { must(edits::delete_vm(inventory_, vm)); }

  control::Inventory inventory_ = three_hosts();
  HostIds ids_;
  std::optional<VmShards> shards_{std::in_place, "esx-01", ShardCount{.ordinary = 2},
                                  std::vector<control::RoceConfig>{{.dvs = "dvs1", .vlan = 9}}};
  std::vector<ShardView> views_;
};

TEST_F(VmShardsTest, AVmComesToTheShardWithTheFewestAndStays) {
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-01", "VM-12"), ElementsAre("VM-11", "VM-13")));
  remove_vm("VM-01");
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-12"), ElementsAre("VM-11", "VM-13")));
  add_vm(inventory_, "VM-00", "esx-01");
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-00", "VM-12"), ElementsAre("VM-11", "VM-13")));
  for (const ShardView& view : views_)
    EXPECT_THAT(view.adapters_of_host, ElementsAre("VM-00", "VM-11", "VM-12", "VM-13"));
}

TEST_F(VmShardsTest, AVmThatComesBackComesToItsShard) {
  divide();
  inventory_.vms.at("VM-11").host = "esx-02";
  add_vm(inventory_, "VM-14", "esx-01");
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-01", "VM-12"), ElementsAre("VM-13", "VM-14")))
      << "a VM that is away does not count";
  inventory_.vms.at("VM-11").host = "esx-01";
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-01", "VM-12"), ElementsAre("VM-11", "VM-13", "VM-14")));
}

TEST_F(VmShardsTest, AVmThatWasMovedStaysWhereItIs) {
  EXPECT_FALSE(shards_->has("VM-01"));
  divide();
  ASSERT_TRUE(shards_->has("VM-01"));
  ASSERT_TRUE(shards_->check("VM-01", 1));
  shards_->move("VM-01", 1);
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-12"), ElementsAre("VM-01", "VM-11", "VM-13")));
  inventory_.vms.at("VM-01").host = "esx-02";
  divide();
  inventory_.vms.at("VM-01").host = "esx-01";
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-12"), ElementsAre("VM-01", "VM-11", "VM-13")))
      << "also when it comes back";
  add_vm(inventory_, "VM-14", "esx-01");
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-12", "VM-14"), ElementsAre("VM-01", "VM-11", "VM-13")));
  remove_vm("VM-01");
  divide();
  EXPECT_FALSE(shards_->has("VM-01"));
}

TEST_F(VmShardsTest, OneShardServesAll) {
  VmShards one("esx-01", {.ordinary = 1}, {});
  const ShardView whole = compute_view(inventory_, "esx-01", "/run/pvrdma", ids_);
  EXPECT_THAT(one.divide(whole, inventory_), ElementsAre(whole));
}

TEST_F(VmShardsTest, AVmWhoseSegmentHasALinkIsOnTheFirstShard) {
  must(edits::add_portgroup(inventory_, "dvs1", "linked", {.vlan = 9}));
  must(edits::change_vm(inventory_, "VM-11", {.portgroup = "linked", .dvs = "dvs1"}));
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-01", "VM-11"), ElementsAre("VM-12", "VM-13")));
  must(edits::change_vm(inventory_, "VM-12", {.portgroup = "linked", .dvs = "dvs1"}));
  inventory_.powered_on["VM-12"] = "esx-01";
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-01", "VM-11"), ElementsAre("VM-12", "VM-13")))
      << "not while it is on";
  EXPECT_EQ(shards_->check("VM-12", 1).error().message,
            "VM VM-12 has to be on the first shard, which has the RoCE link of its network");
  EXPECT_TRUE(shards_->check("VM-12", 0));
  EXPECT_TRUE(shards_->check("VM-13", 1));
  inventory_.powered_on.clear();
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-01", "VM-11", "VM-12"), ElementsAre("VM-13")));
}

// This host's records are gone for a moment when its lease has ended.
TEST_F(VmShardsTest, AVmThatIsOnStaysWhateverTheStoreSays) {
  divide();
  shards_->set_on("VM-11", true);
  inventory_.live_hosts.at("esx-02").shards.reset();
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-01", "VM-12", "VM-13"), ElementsAre("VM-11")));
  EXPECT_TRUE(shards_->check("VM-11", 0)) << "an operator need not wait until it is off";
  shards_->set_on("VM-11", false);
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-01", "VM-11", "VM-12", "VM-13"), IsEmpty()));
}

TEST_F(VmShardsTest, AnOlderDaemonFindsAllOnTheFirstShard) {
  inventory_.live_hosts.at("esx-02").shards.reset();
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-01", "VM-11", "VM-12", "VM-13"), IsEmpty()));
  inventory_.live_hosts.at("esx-02").version = "0.9";
  divide();
  const auto refused = shards_->check("VM-01", 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kConflict);
  EXPECT_EQ(refused.error().message,
            "VM VM-01 has to be on the first shard, as all VMs of this host: host esx-02 runs release 0.9, "
            "which knows of one only");
  inventory_.live_hosts.at("esx-02").shards = 1;
  add_vm(inventory_, "VM-14", "esx-01");
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-01", "VM-11", "VM-12", "VM-13"), ElementsAre("VM-14")));
}

// Its VMs came before the older daemon did.
TEST_F(VmShardsTest, AnotherShardDoesNotDialAnOlderDaemon) {
  divide();
  EXPECT_EQ(views_.at(1).tcp.peers.size(), 2U);
  inventory_.live_hosts.at("esx-02").shards.reset();
  divide();
  EXPECT_EQ(views_.at(0).tcp.peers.size(), 2U);
  ASSERT_EQ(views_.at(1).tcp.peers.size(), 1U);
  EXPECT_EQ(views_.at(1).tcp.peers[0].name, "esx-03");
  const fabric::RemoteHost& older = views_.at(1).fabric.hosts.at(0);
  EXPECT_EQ(older.name, "esx-02");
  EXPECT_EQ(older.path, fabric::PathKind::kNone);
  EXPECT_EQ(older.reason, "host esx-02 runs an older release, which reaches the first shard of a host only");
}

TEST_F(VmShardsTest, OnesOwnOlderRecordIsNoOlderDaemon) {
  inventory_.live_hosts.at("esx-01").shards.reset();
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-01", "VM-12"), ElementsAre("VM-11", "VM-13")));
}

// The same VMs, on a host that also has a ward.
class WithAWard : public VmShardsTest {
 protected:
  explicit WithAWard(std::uint16_t ordinary = 2) : ward_(ordinary) {
    shards_.emplace("esx-01", ShardCount{.ordinary = ordinary, .has_ward = true},
                    std::vector<control::RoceConfig>{{.dvs = "dvs1", .vlan = 9}});
  }

  const std::uint16_t ward_;
};

TEST_F(WithAWard, NoVmIsDealtOutToIt) {
  for (const std::string vm : {"VM-14", "VM-15", "VM-16"}) add_vm(inventory_, vm, "esx-01");
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-01", "VM-12", "VM-14", "VM-16"),
                                    ElementsAre("VM-11", "VM-13", "VM-15"), IsEmpty()));
}

TEST_F(WithAWard, AVmThatWasMovedThereStays) {
  divide();
  ASSERT_TRUE(shards_->check("VM-01", ward_));
  shards_->move("VM-01", ward_);
  const auto in_ward = ElementsAre(ElementsAre("VM-12"), ElementsAre("VM-11", "VM-13"), ElementsAre("VM-01"));
  for (const bool on : {true, false, true}) {
    shards_->set_on("VM-01", on);
    EXPECT_THAT(divide(), in_ward);
  }
  inventory_.vms.at("VM-01").host = "esx-02";
  divide();
  inventory_.vms.at("VM-01").host = "esx-01";
  EXPECT_THAT(divide(), in_ward) << "also when it comes back";
  add_vm(inventory_, "VM-14", "esx-01");
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-12", "VM-14"), _, _)) << "it counts nowhere else";
  shards_->move("VM-01", 0);
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-01", "VM-12", "VM-14"), _, IsEmpty()));
}

TEST_F(WithAWard, AVmThatHasToBeOnTheFirstShardDoesNotComeThere) {
  must(edits::add_portgroup(inventory_, "dvs1", "linked", {.vlan = 9}));
  must(edits::change_vm(inventory_, "VM-11", {.portgroup = "linked", .dvs = "dvs1"}));
  divide();
  EXPECT_EQ(shards_->check("VM-11", ward_).error().message,
            "VM VM-11 has to be on the first shard, which has the RoCE link of its network");
  inventory_.live_hosts.at("esx-02").shards.reset();
  divide();
  EXPECT_EQ(shards_->check("VM-01", ward_).error().kind, ErrorKind::kConflict);
  EXPECT_EQ(views_.at(ward_).tcp.peers.size(), 1U) << "nor would it reach that host";
}

// A host with one shard and a ward.
class OneShardAndAWard : public WithAWard {
 protected:
  OneShardAndAWard() : WithAWard(1) {}
};

TEST_F(OneShardAndAWard, BothGetViews) {
  const std::string log = pvrdma::test::log_of([this] {
    EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-01", "VM-11", "VM-12", "VM-13"), IsEmpty()));
    inventory_.live_hosts.at("esx-02").shards.reset();
    divide();
    inventory_.live_hosts.at("esx-02").shards = 2;
    divide();
  });
  EXPECT_EQ(log, "") << "VMs cannot be spread over one shard";
  shards_->move("VM-12", ward_);
  EXPECT_THAT(divide(), ElementsAre(ElementsAre("VM-01", "VM-11", "VM-13"), ElementsAre("VM-12")));
  EXPECT_EQ(views_.at(1).fabric, views_.at(0).fabric);
  EXPECT_EQ(views_.at(1).tcp, views_.at(0).tcp);
}

// Gives the host an active RDMA device that is paired with the only uplink of dvs1.
void add_hca(control::Inventory& inventory, const std::string& host) {
  inventory.live_hosts.at(host).vmnics = {{.name = "vmnic0", .netdev = "eth1"}};
  inventory.live_hosts.at(host).rdma_devices = {
      {.name = "vmrdma0", .device = "mlx5_0", .active = true, .paired_uplink = "vmnic0", .roce_v2 = true}};
  must(edits::set_uplink(inventory, "dvs1", host, "uplink1", "vmnic0"));
}

fabric::PathKind path_to_other(const ShardView& view) {
  return view.fabric.hosts.at(0).path;
}

TEST_F(VmShardsTest, AnHcaServesEachShard) {
  add_hca(inventory_, "esx-01");
  add_hca(inventory_, "esx-02");
  inventory_.live_hosts.at("esx-02").hca_shards = 1;
  EXPECT_THAT(divide(), ElementsAre(SizeIs(2), SizeIs(2)));
  ASSERT_EQ(views_.at(0).fabric.hosts.at(0).name, "esx-02");
  for (const ShardView& view : views_) EXPECT_EQ(path_to_other(view), fabric::PathKind::kHca);
  EXPECT_FALSE(views_.at(0).hca.peers.empty());
  EXPECT_EQ(views_.at(1).hca, views_.at(0).hca);
  EXPECT_EQ(views_.at(1).fabric, views_.at(0).fabric);
}

TEST_F(VmShardsTest, TheHcaOfAnOlderReleaseServesTheFirstShard) {
  add_hca(inventory_, "esx-01");
  add_hca(inventory_, "esx-02");
  EXPECT_THAT(divide(), ElementsAre(SizeIs(2), SizeIs(2)));
  EXPECT_EQ(path_to_other(views_.at(0)), fabric::PathKind::kHca);
  EXPECT_EQ(views_.at(0).hca.peers.size(), 1U);
  EXPECT_EQ(path_to_other(views_.at(1)), fabric::PathKind::kTcp);
  EXPECT_EQ(views_.at(1).fabric.hosts.at(0).reason, kOtherShardReason);
  EXPECT_TRUE(views_.at(1).fabric.hosts.at(0).hca_switches.empty());
  EXPECT_TRUE(views_.at(1).hca.peers.empty());
  EXPECT_EQ(views_.at(1).tcp, views_.at(0).tcp);
}

}  // namespace
}  // namespace pvrdma::cluster
