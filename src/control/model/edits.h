// Edits: the changes that an administrator can make, and their rules. Each function either makes the whole
// change in `inventory`, or leaves it unchanged and returns one sentence that names the object, the value and
// the fix.
//
// Kinds of errors: kNotFound, there is no such object; kInvalid, a value is not allowed; kConflict, the
// object exists already, is in use or powered on, or a rule forbids it.
//
// Pure: no clock, no I/O. Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/model/inventory.h"

namespace pvrdma::control::edits {

// --- Hosts ---

// Makes the host unless it is known. A daemon calls this when it first joins.
Result<void> add_host(Inventory& inventory, const std::string& host);
// kConflict: the host is alive or a member of a switch, or VMs are placed on it.
Result<void> remove_host(Inventory& inventory, const std::string& host);

// `name` is vmkN. kConflict: the host has a vmk of this name, or another host or vmk has the address.
Result<void> add_vmk(Inventory& inventory, const std::string& host, const std::string& name,
                     const std::string& address);
Result<void> remove_vmk(Inventory& inventory, const std::string& host,
                        const std::string& name);  // kConflict: it is tagged
// The vmk may be tagged: hosts then connect to the new address. kConflict: another vmk has the address.
Result<void> set_vmk_address(Inventory& inventory, const std::string& host, const std::string& name,
                             const std::string& address);

inline constexpr const char* kPvrdmaVmknic = "/Net/PVRDMAVmknic";
// `path` must be kPvrdmaVmknic. An empty `value` means the default (not set).
Result<void> set_advanced(Inventory& inventory, const std::string& host, const std::string& path,
                          const std::string& value);

Result<void> set_firewall(Inventory& inventory, const std::string& host, bool enabled);

inline constexpr const char* kRuleset = "pvrdma";
// Members without a value stay. `allowed` is the whole list of addresses and networks.
Result<void> set_ruleset(Inventory& inventory, const std::string& host, const std::string& ruleset,
                         std::optional<bool> enabled, std::optional<bool> allow_all,
                         const std::optional<std::vector<std::string>>& allowed = std::nullopt);
Result<void> add_allowed_ip(Inventory& inventory, const std::string& host, const std::string& ruleset,
                            const std::string& network);
Result<void> remove_allowed_ip(Inventory& inventory, const std::string& host, const std::string& ruleset,
                               const std::string& network);

// --- Distributed switches ---

inline constexpr std::uint32_t kUplinksMax = 32;
struct NewDvs {
  std::string name;
  std::string version = "8.0.0";
  std::uint32_t uplinks = 2;  // number of slots uplink1 … uplinkN, 1 … kUplinksMax
};
Result<void> create_dvs(Inventory& inventory, const NewDvs& spec);
Result<void> delete_dvs(Inventory& inventory, const std::string& dvs);  // kConflict: members, or VMs use it
Result<void> add_dvs_host(Inventory& inventory, const std::string& dvs, const std::string& host);
Result<void> remove_dvs_host(Inventory& inventory, const std::string& dvs, const std::string& host);
// An empty `vmnic` frees the slot. Rules: A vmnic is an uplink of only one switch. An uplink that is paired
// with an RDMA device is its host's only one on the switch (no teaming). While VMs of the host with PVRDMA
// adapters on the switch are on, uplinks with an RDMA device cannot be added or removed.
Result<void> set_uplink(Inventory& inventory, const std::string& dvs, const std::string& host,
                        const std::string& slot, const std::string& vmnic);
inline constexpr std::size_t kNativePeersMax = 64;
// Port groups with the same VLAN are one network and have the same native endpoints. A new port group without
// such settings takes over those of the others; different settings are refused (kInvalid).
Result<void> add_portgroup(Inventory& inventory, const std::string& dvs, const std::string& name,
                           const PortGroup& portgroup);
// Changes the given values. Native endpoints change for all port groups with the same VLAN.
struct PortGroupChange {
  std::optional<NetworkMtu> mtu;  // adapters get it at their next power-on
  std::optional<bool> native_endpoints;
  std::optional<std::vector<IpNetwork>> native_peers;  // replaces all; empty: any
};
Result<void> change_portgroup(Inventory& inventory, const std::string& dvs, const std::string& name,
                              const PortGroupChange& change);
Result<void> remove_portgroup(Inventory& inventory, const std::string& dvs, const std::string& name);

// --- VMs ---

struct NewVm {
  std::string name;
  std::string host;
  std::uint32_t hardware_version = 14;
  std::uint32_t memory_mib = 0;
  std::uint32_t memory_reserved_mib = 0;
};
Result<void> create_vm(Inventory& inventory, const NewVm& spec);
Result<void> delete_vm(Inventory& inventory, const std::string& vm);

struct NewAdapter {
  std::optional<std::string> mac;  // none: a free one of 52:54:00, made from cluster_id and the VM's name
  std::string dvs;                 // empty: the only switch that has the port group
  std::string portgroup;
  std::optional<RoceVersion> protocol;  // empty: v1 on hardware version 13, otherwise v2
  Profile profile = Profile::kOpen;
  DoorbellMode doorbells = kDoorbellModeDefault;
  std::vector<IpAddress> addresses;  // empty: any
  std::string owner;                 // owner of the socket; empty: the daemon's user
  std::string group;
};
// Rules: the hardware version is at least 13, and at least 14 for v2. A VM has at most one PVRDMA adapter.
// Only one VM of a segment may list an address.
Result<void> add_adapter(Inventory& inventory, const std::string& vm, const NewAdapter& spec);
Result<void> remove_adapter(Inventory& inventory, const std::string& vm);

// Changes the given values. All changes need the VM to be off.
struct VmChange {
  std::optional<std::string> host;
  std::optional<std::uint32_t> memory_mib;
  std::optional<std::uint32_t> memory_reserved_mib;
  std::optional<RoceVersion> protocol;
  std::optional<DoorbellMode> doorbells;
  std::optional<std::string> portgroup;
  std::optional<std::string> dvs;
  std::optional<std::vector<IpAddress>> addresses;  // replaces all; empty: any
  std::optional<std::string> owner;
  std::optional<std::string> group;
};
Result<void> change_vm(Inventory& inventory, const std::string& vm, const VmChange& change);

// --- vMotion: a running VM moves to another host ---

// During the motion the rest of the VM's configuration cannot change, and neither host can leave the VM's
// switch.

// kConflict: a rule forbids the VM there, there is no path between the hosts, or the VM is already in motion.
Result<void> begin_motion(Inventory& inventory, const std::string& vm, const VmMotion& motion);
// kConflict: the VM is on its way. A name that is no VM's is on no way.
Result<void> check_stays(const Inventory& inventory, const std::string& vm);
// Returns what begin_motion() would, without changing anything.
Result<void> check_motion(const Inventory& inventory, const std::string& vm, const std::string& to);
// From now on the VM is at its destination. Does nothing if that is so already. ECANCELED (kConflict): this
// motion was ended before.
Result<void> commit_motion(Inventory& inventory, const std::string& vm, const VmMotion& motion);
// The VM stays at its source. Does nothing if the motion was ended before. EALREADY (kConflict): it was
// committed.
Result<void> end_motion(Inventory& inventory, const std::string& vm, const VmMotion& motion);

// Only to a higher version. The adapter keeps its protocol: 13 -> 14 stays RoCE v1, as VMware documents.
Result<void> upgrade_vm(Inventory& inventory, const std::string& vm, std::uint32_t hardware_version);

}  // namespace pvrdma::control::edits
