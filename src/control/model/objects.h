// The model's objects as records describe them: the member names are the store's format (records.h), and
// views.h builds the API's answers on them. Names that are keys are no members.
//
// What a record must have: the objects it names, an id, a MAC. Everything else has a default, so that what
// another version wrote is read.
#pragma once

#include <cstdint>

#include "base/doorbell_mode.h"
#include "base/name.h"
#include "base/profile.h"
#include "base/roce.h"
#include "control/model/inventory.h"
#include "control/model/values.h"
#include "control/schema/rules.h"

namespace pvrdma::control {

inline constexpr TextRule kVmkName{"a name from vmk0 to vmk999", [](const std::string& text) {
                                     return is_vmk_name(text) ? std::string()
                                                              : "is no name: use vmk0 to vmk999";
                                   }};
inline constexpr TextRule kDvsVersion{
    "a version such as 8.0.3", [](const std::string& text) {
      return parse_dvs_version(text) ? std::string() : "is no version: write three numbers such as 8.0.3";
    }};
inline constexpr TextRule kTaggedVmk{"a name from vmk0 to vmk999, or empty", [](const std::string& text) {
                                       return text.empty() ? std::string() : kVmkName.why_not(text);
                                     }};
// Whether a host has it is found out there.
inline constexpr TextRule kAccount{
    "the name or number of a user or group, or empty", [](const std::string& text) {
      return text.empty() || is_name(text) ? std::string() : "is no user or group: write its name or number";
    }};
inline constexpr NumberRule kId{1, UINT32_MAX};  // 0 is none

template <>
inline constexpr auto kObject<Ruleset> = record("RulesetRecord", field("enabled", &Ruleset::enabled),
                                                field("allow_all", &Ruleset::allow_all),
                                                field("allowed", &Ruleset::allowed));

template <>
inline constexpr auto kObject<Host> =
    record("HostRecord", field("vmks", &Host::vmks, MapRule<FormRule<IpAddress>>{{}, kVmkName}),
           field("pvrdma_vmknic", &Host::pvrdma_vmknic, kTaggedVmk), field("ruleset", &Host::pvrdma_ruleset));

template <>
inline constexpr auto kObject<Vmnic> = record(
    "Vmnic", field("name", &Vmnic::name, kName).required(), field("netdev", &Vmnic::netdev),
    field("pci_address", &Vmnic::pci_address), field("driver", &Vmnic::driver), field("mac", &Vmnic::mac),
    field("description", &Vmnic::description), field("link_up", &Vmnic::link_up), field("mtu", &Vmnic::mtu),
    field("speed_mbps", &Vmnic::speed_mbps), field("full_duplex", &Vmnic::full_duplex));

template <>
inline constexpr auto kObject<RdmaDevice> =
    record("RdmaDeviceRecord", field("name", &RdmaDevice::name, kName).required(),
           field("device", &RdmaDevice::device), field("driver", &RdmaDevice::driver),
           field("active", &RdmaDevice::active), field("mtu", &RdmaDevice::mtu),
           field("speed_mbps", &RdmaDevice::speed_mbps), field("paired_uplink", &RdmaDevice::paired_uplink),
           field("description", &RdmaDevice::description), field("roce_v1", &RdmaDevice::roce_v1),
           field("roce_v2", &RdmaDevice::roce_v2), field("iwarp", &RdmaDevice::iwarp));

template <>
inline constexpr auto kObject<LiveHost> = record("LiveHost", field("instance", &LiveHost::instance),
                                                 field("version", &LiveHost::version),
                                                 field("socket_folder", &LiveHost::socket_folder),
                                                 field("vmnics", &LiveHost::vmnics),
                                                 field("rdma_devices", &LiveHost::rdma_devices));

template <>
inline constexpr auto kObject<PortGroup> = record("PortGroupRecord", field("vlan", &PortGroup::vlan, kVlan),
                                                  field("mtu", &PortGroup::mtu, kNetworkMtu),
                                                  field("native_endpoints", &PortGroup::native_endpoints),
                                                  field("native_peers", &PortGroup::native_peers));

inline constexpr MapRule<TextRule> kAssigned{kName, kName};  // uplink slot -> vmnic
// What record and answer have in common.
inline constexpr auto kDvsCommon =
    record("", field("id", &Dvs::id, kId).required(), field("version", &Dvs::version, kDvsVersion).required(),
           field("uplinks", &Dvs::uplinks, ListRule<TextRule>{kName}));
template <>
inline constexpr auto kObject<Dvs> = record(
    "DvsRecord", kDvsCommon, field("portgroups", &Dvs::portgroups, MapRule<ObjectRule<PortGroup>>{{}, kName}),
    field("members", &Dvs::members, MapRule<MapRule<TextRule>>{kAssigned, kName}));

template <>
inline constexpr auto kObject<VmAdapter> = record("VmAdapterRecord", field("mac", &VmAdapter::mac).required(),
                                                  field("dvs", &VmAdapter::dvs, kName).required(),
                                                  field("portgroup", &VmAdapter::portgroup, kName).required(),
                                                  field("protocol", &VmAdapter::protocol),
                                                  field("profile", &VmAdapter::profile),
                                                  field("doorbells", &VmAdapter::doorbells),
                                                  field("addresses", &VmAdapter::addresses),
                                                  field("owner", &VmAdapter::owner, kAccount),
                                                  field("group", &VmAdapter::group, kAccount));

template <>
inline constexpr auto kObject<VmMotion> = record("VmMotion", field("id", &VmMotion::id, kName).required(),
                                                 field("to", &VmMotion::to, kName).required());

inline constexpr auto kVmCommon =
    record("", field("host", &Vm::host, kName).required(), field("hardware_version", &Vm::hardware_version),
           field("memory_mib", &Vm::memory_mib), field("memory_reserved_mib", &Vm::memory_reserved_mib),
           field("motion", &Vm::motion));
template <>
inline constexpr auto kObject<Vm> = record("VmRecord", kVmCommon, field("arrived_by", &Vm::arrived_by),
                                           field("adapter", &Vm::adapter));

template <>
inline constexpr auto kObject<GidHolder> = record("GidHolder",
                                                  field("port", &GidHolder::port, kName).required(),
                                                  field("host", &GidHolder::host, kName).required());

// The guard that every edit compares and rewrites.
struct Guard {
  std::uint64_t revision = 0;
  std::uint32_t next_dvs_id = 1;
  friend bool operator==(const Guard&, const Guard&) = default;
};
template <>
inline constexpr auto kObject<Guard> = record("Guard", field("revision", &Guard::revision),
                                              field("next_dvs_id", &Guard::next_dvs_id, kId));

}  // namespace pvrdma::control
