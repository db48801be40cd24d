// Views: the model's objects as the API's answers, made from an inventory. objects.h describes once what
// records and answers have in common.
//
// Thread: values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/model/objects.h"

namespace pvrdma::control {

struct VmkView {
  std::string name;
  IpAddress address;
  bool tagged = false;
};

struct RulesetView : Ruleset {
  std::string name;
};

struct RdmaDeviceView : RdmaDevice {
  std::string vmknic;
};

struct HostView {
  std::string name;
  bool self = false;  // it is the host that answers
  bool alive = false;
  std::string version;
  std::vector<VmkView> vmks;
  std::string pvrdma_vmknic;
  RulesetView ruleset;
  bool firewall = true;  // false: disabled, and the ruleset has no effect
  std::vector<Vmnic> vmnics;
  std::vector<RdmaDeviceView> rdma_devices;
  std::string socket_folder;
};

struct PortGroupView : PortGroup {
  std::string name;
};

struct MemberView {
  std::string host;
  Dvs::Assigned uplinks;
};

struct DvsView : Dvs {
  std::vector<PortGroupView> portgroup_list;
  std::vector<MemberView> member_list;
};

struct VmAdapterView : VmAdapter {
  std::string socket;  // empty: its host is not alive
};

struct VmView : Vm {
  std::string_view power;  // "on", "off"
  std::optional<VmAdapterView> adapter_view;
  std::string power_on_refusal;  // the rule that forbids power-on; empty: it is allowed
  std::string not_served;
};

RulesetView view_of(const Ruleset& ruleset);
// `self`: it is this daemon's host.
HostView view_of(const Inventory& inventory, const Host& host, bool self);
DvsView view_of(const Dvs& dvs);
// `not_served` says why this daemon cannot serve the VM's adapter. Empty: it can, or another host has the VM.
VmView view_of(const Inventory& inventory, const Vm& vm, const std::string& not_served);

}  // namespace pvrdma::control

namespace pvrdma::schema {

template <>
inline constexpr auto kObject<control::VmkView> = record("Vmk", field("name", &control::VmkView::name),
                                                         field("address", &control::VmkView::address),
                                                         field("tagged", &control::VmkView::tagged));

template <>
inline constexpr auto kObject<control::RulesetView> = record("Ruleset",
                                                             field("name", &control::RulesetView::name),
                                                             kObject<control::Ruleset>);

template <>
inline constexpr auto kObject<control::RdmaDeviceView> =
    record("RdmaDevice", kObject<control::RdmaDevice>, field("vmknic", &control::RdmaDeviceView::vmknic));

template <>
inline constexpr auto kObject<control::HostView> = record(
    "Host", field("name", &control::HostView::name, kName), field("self", &control::HostView::self),
    field("alive", &control::HostView::alive), field("version", &control::HostView::version),
    field("vmks", &control::HostView::vmks), field("pvrdma_vmknic", &control::HostView::pvrdma_vmknic),
    field("ruleset", &control::HostView::ruleset), field("firewall", &control::HostView::firewall),
    field("vmnics", &control::HostView::vmnics), field("rdma_devices", &control::HostView::rdma_devices),
    field("socket_folder", &control::HostView::socket_folder));

template <>
inline constexpr auto kObject<control::PortGroupView> = record("PortGroup",
                                                               field("name", &control::PortGroupView::name),
                                                               kObject<control::PortGroup>);

template <>
inline constexpr auto kObject<control::MemberView> = record("Member",
                                                            field("host", &control::MemberView::host),
                                                            field("uplinks", &control::MemberView::uplinks));

template <>
inline constexpr auto kObject<control::DvsView> = record(
    "Dvs", field("name", &control::DvsView::name, kName), kDvsCommon,
    field("portgroups", &control::DvsView::portgroup_list), field("members", &control::DvsView::member_list));

template <>
inline constexpr auto kObject<control::VmAdapterView> =
    record("VmAdapter", kObject<control::VmAdapter>, field("socket", &control::VmAdapterView::socket));

template <>
inline constexpr auto kObject<control::VmView> = record(
    "Vm", field("name", &control::VmView::name, kName), kVmCommon,
    field("power", &control::VmView::power).noted(R"("enum": ["on", "off"])"),
    field("adapter", &control::VmView::adapter_view),
    field("power_on_refusal", &control::VmView::power_on_refusal),
    field("not_served", &control::VmView::not_served)
        .noted(
            R"("description": "Why the host that answers cannot serve its adapter; empty when it is another's")"));

}  // namespace pvrdma::schema
