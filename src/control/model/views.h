// Views: the model's objects as the API answers with them, made from an inventory. What a record and an
// answer have in common is described once (objects.h).
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
template <>
inline constexpr auto kObject<VmkView> = record("Vmk", field("name", &VmkView::name),
                                                field("address", &VmkView::address),
                                                field("tagged", &VmkView::tagged));

struct RulesetView : Ruleset {
  std::string name;
};
template <>
inline constexpr auto kObject<RulesetView> = record("Ruleset", field("name", &RulesetView::name),
                                                    kObject<Ruleset>);

struct RdmaDeviceView : RdmaDevice {
  std::string vmknic;
};
template <>
inline constexpr auto kObject<RdmaDeviceView> = record("RdmaDevice", kObject<RdmaDevice>,
                                                       field("vmknic", &RdmaDeviceView::vmknic));

struct HostView {
  std::string name;
  bool self = false;  // it is the host that answers
  bool alive = false;
  std::string version;
  std::vector<VmkView> vmks;
  std::string pvrdma_vmknic;
  RulesetView ruleset;
  std::vector<Vmnic> vmnics;
  std::vector<RdmaDeviceView> rdma_devices;
  std::string socket_folder;
};
template <>
inline constexpr auto kObject<HostView> =
    record("Host", field("name", &HostView::name, kName), field("self", &HostView::self),
           field("alive", &HostView::alive), field("version", &HostView::version),
           field("vmks", &HostView::vmks), field("pvrdma_vmknic", &HostView::pvrdma_vmknic),
           field("ruleset", &HostView::ruleset), field("vmnics", &HostView::vmnics),
           field("rdma_devices", &HostView::rdma_devices), field("socket_folder", &HostView::socket_folder));

struct PortGroupView : PortGroup {
  std::string name;
};
template <>
inline constexpr auto kObject<PortGroupView> = record("PortGroup", field("name", &PortGroupView::name),
                                                      kObject<PortGroup>);

struct MemberView {
  std::string host;
  Dvs::Assigned uplinks;
};
template <>
inline constexpr auto kObject<MemberView> = record("Member", field("host", &MemberView::host),
                                                   field("uplinks", &MemberView::uplinks));

struct DvsView : Dvs {
  std::vector<PortGroupView> portgroup_list;
  std::vector<MemberView> member_list;
};
template <>
inline constexpr auto kObject<DvsView> = record("Dvs", field("name", &DvsView::name, kName), kDvsCommon,
                                                field("portgroups", &DvsView::portgroup_list),
                                                field("members", &DvsView::member_list));

struct VmAdapterView : VmAdapter {
  std::string socket;  // empty: its host is not alive
};
template <>
inline constexpr auto kObject<VmAdapterView> = record("VmAdapter", kObject<VmAdapter>,
                                                      field("socket", &VmAdapterView::socket));

struct VmView : Vm {
  std::string_view power;  // "on", "off"
  std::optional<VmAdapterView> adapter_view;
  std::string power_on_refusal;  // the rule that forbids to power it on; empty: none
  std::string not_served;
};
template <>
inline constexpr auto kObject<VmView> = record(
    "Vm", field("name", &VmView::name, kName), kVmCommon,
    field("power", &VmView::power).noted(R"("enum": ["on", "off"])"), field("adapter", &VmView::adapter_view),
    field("power_on_refusal", &VmView::power_on_refusal),
    field("not_served", &VmView::not_served)
        .noted(
            R"("description": "Why the host that answers cannot serve its adapter; empty when it is another's")"));

RulesetView view_of(const Ruleset& ruleset);
// `self`: it is this daemon's host.
HostView view_of(const Inventory& inventory, const Host& host, bool self);
DvsView view_of(const Dvs& dvs);
// `not_served`: why this daemon cannot serve its adapter; empty: it can, or another host has the VM.
VmView view_of(const Inventory& inventory, const Vm& vm, const std::string& not_served);

}  // namespace pvrdma::control
