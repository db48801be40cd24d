// Descriptions of the model's objects as records. The member names are the store's format (records.h), and
// views.h builds the API's answers on them. Names that are keys are not members.
//
// Required in a record are the objects that it names, an id and a MAC. Everything else has a default, so that
// records of other versions can be read.
#pragma once

#include <cstdint>

#include "control/model/inventory.h"
#include "control/model/values.h"
#include "schema/rules.h"
#include "vocabulary/doorbell_mode.h"
#include "vocabulary/name.h"
#include "vocabulary/profile.h"
#include "vocabulary/roce_version.h"
#include "vocabulary/shards.h"

namespace pvrdma::control {

inline constexpr schema::TextRule kVmkName{"a name from vmk0 to vmk999", [](const std::string& text) {
                                             return is_vmk_name(text) ? std::string()
                                                                      : "is not a name: use vmk0 to vmk999";
                                           }};
inline constexpr schema::TextRule kDvsVersion{
    "a version such as 8.0.3", [](const std::string& text) {
      return parse_dvs_version(text) ? std::string() : "is not a version: write three numbers such as 8.0.3";
    }};
inline constexpr schema::TextRule kTaggedVmk{
    "a name from vmk0 to vmk999, or empty",
    [](const std::string& text) { return text.empty() ? std::string() : kVmkName.why_not(text); }};
// Only the VM's host can check whether the account exists.
inline constexpr schema::TextRule kAccount{
    "the name or number of a user or group, or empty", [](const std::string& text) {
      return text.empty() || is_name(text) ? std::string()
                                           : "is not a user or group: write its name or number";
    }};
inline constexpr schema::NumberRule kId{1, UINT32_MAX};  // 0 is not an id
inline constexpr schema::NumberRule kShards{1, kShardsWithWardMax};
inline constexpr schema::NumberRule kOtherShard{1, kShardsWithWardMax - 1};  // the first one is not written

inline constexpr schema::MapRule<schema::TextRule> kAssigned{schema::kName,
                                                             schema::kName};  // uplink slot -> vmnic

// The guard that every edit compares and rewrites.
struct Guard {
  std::uint64_t revision = 0;
  std::uint32_t next_dvs_id = 1;
  std::uint64_t cluster_id = 0;
  friend bool operator==(const Guard&, const Guard&) = default;
};

}  // namespace pvrdma::control

namespace pvrdma::schema {

template <>
inline constexpr auto kObject<control::Ruleset> = record("RulesetRecord",
                                                         field("enabled", &control::Ruleset::enabled),
                                                         field("allow_all", &control::Ruleset::allow_all),
                                                         field("allowed", &control::Ruleset::allowed));

template <>
inline constexpr auto kObject<control::Host> = record(
    "HostRecord", field("vmks", &control::Host::vmks, MapRule<FormRule<IpAddress>>{{}, control::kVmkName}),
    field("pvrdma_vmknic", &control::Host::pvrdma_vmknic, control::kTaggedVmk),
    field("ruleset", &control::Host::pvrdma_ruleset), field("firewall", &control::Host::firewall));

template <>
inline constexpr auto kObject<control::Vmnic> = record(
    "Vmnic", field("name", &control::Vmnic::name, kName).required(), field("netdev", &control::Vmnic::netdev),
    field("pci_address", &control::Vmnic::pci_address), field("driver", &control::Vmnic::driver),
    field("mac", &control::Vmnic::mac), field("description", &control::Vmnic::description),
    field("link_up", &control::Vmnic::link_up), field("mtu", &control::Vmnic::mtu),
    field("speed_mbps", &control::Vmnic::speed_mbps), field("full_duplex", &control::Vmnic::full_duplex));

template <>
inline constexpr auto kObject<control::RdmaDevice> = record(
    "RdmaDeviceRecord", field("name", &control::RdmaDevice::name, kName).required(),
    field("device", &control::RdmaDevice::device), field("driver", &control::RdmaDevice::driver),
    field("active", &control::RdmaDevice::active), field("mtu", &control::RdmaDevice::mtu),
    field("speed_mbps", &control::RdmaDevice::speed_mbps),
    field("paired_uplink", &control::RdmaDevice::paired_uplink),
    field("description", &control::RdmaDevice::description), field("roce_v1", &control::RdmaDevice::roce_v1),
    field("roce_v2", &control::RdmaDevice::roce_v2), field("iwarp", &control::RdmaDevice::iwarp));

template <>
inline constexpr auto kObject<control::LiveHost> = record(
    "LiveHost", field("instance", &control::LiveHost::instance),
    field("version", &control::LiveHost::version), field("socket_folder", &control::LiveHost::socket_folder),
    field("vmnics", &control::LiveHost::vmnics), field("rdma_devices", &control::LiveHost::rdma_devices),
    field("shards", &control::LiveHost::shards, OptionalRule<NumberRule>{control::kShards}),
    field("hca_shards", &control::LiveHost::hca_shards, OptionalRule<NumberRule>{control::kShards}));

template <>
inline constexpr auto kObject<control::PortGroup> =
    record("PortGroupRecord", field("vlan", &control::PortGroup::vlan, kVlan),
           field("mtu", &control::PortGroup::mtu, kNetworkMtu),
           field("native_endpoints", &control::PortGroup::native_endpoints),
           field("native_peers", &control::PortGroup::native_peers));

// The common part of a switch's record and answer.
inline constexpr auto kDvsCommon =
    record("", field("id", &control::Dvs::id, control::kId).required(),
           field("version", &control::Dvs::version, control::kDvsVersion).required(),
           field("uplinks", &control::Dvs::uplinks, ListRule<TextRule>{kName}));

template <>
inline constexpr auto kObject<control::Dvs> =
    record("DvsRecord", kDvsCommon,
           field("portgroups", &control::Dvs::portgroups, MapRule<ObjectRule<control::PortGroup>>{{}, kName}),
           field("members", &control::Dvs::members, MapRule<MapRule<TextRule>>{control::kAssigned, kName}));

template <>
inline constexpr auto kObject<control::VmAdapter> = record(
    "VmAdapterRecord", field("mac", &control::VmAdapter::mac).required(),
    field("dvs", &control::VmAdapter::dvs, kName).required(),
    field("portgroup", &control::VmAdapter::portgroup, kName).required(),
    field("protocol", &control::VmAdapter::protocol), field("profile", &control::VmAdapter::profile),
    field("doorbells", &control::VmAdapter::doorbells), field("addresses", &control::VmAdapter::addresses),
    field("owner", &control::VmAdapter::owner, control::kAccount),
    field("group", &control::VmAdapter::group, control::kAccount));

template <>
inline constexpr auto kObject<control::VmMotion> =
    record("VmMotion", field("id", &control::VmMotion::id, kName).required(),
           field("to", &control::VmMotion::to, kName).required());

inline constexpr auto kVmCommon = record(
    "", field("host", &control::Vm::host, kName).required(),
    field("hardware_version", &control::Vm::hardware_version), field("memory_mib", &control::Vm::memory_mib),
    field("memory_reserved_mib", &control::Vm::memory_reserved_mib), field("motion", &control::Vm::motion));

template <>
inline constexpr auto kObject<control::Vm> = record("VmRecord", kVmCommon,
                                                    field("arrived_by", &control::Vm::arrived_by),
                                                    field("adapter", &control::Vm::adapter));

template <>
inline constexpr auto kObject<control::GidHolder> =
    record("GidHolder", field("port", &control::GidHolder::port, kName).required(),
           field("host", &control::GidHolder::host, kName).required(),
           field("shard", &control::GidHolder::shard, OptionalRule<NumberRule>{control::kOtherShard}));

template <>
inline constexpr auto kObject<control::Guard> = record("Guard", field("revision", &control::Guard::revision),
                                                       field("next_dvs_id", &control::Guard::next_dvs_id,
                                                             control::kId),
                                                       field("cluster_id", &control::Guard::cluster_id));

}  // namespace pvrdma::schema
