// Edits: what an admin can change, and the rules. Each function either makes the whole change in `inventory`
// or leaves it as it was and returns one sentence that names the object, the value and the way out.
//
// Error codes: ENOENT no such object; EEXIST it is there already; EINVAL a value is not allowed; EBUSY the
// object is in use or powered on; EPERM a rule forbids it.
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

// Makes the host if it is not known. What a daemon does when it first joins.
Result<void> add_host(Inventory& inventory, const std::string& host);
// EBUSY: it lives, is a member of a switch, or VMs are placed on it.
Result<void> remove_host(Inventory& inventory, const std::string& host);

// `name` is vmkN. EEXIST: the name, or another host or vmk has the address.
Result<void> add_vmk(Inventory& inventory, const std::string& host, const std::string& name,
                     const std::string& address);
Result<void> remove_vmk(Inventory& inventory, const std::string& host,
                        const std::string& name);  // EBUSY: it is tagged

inline constexpr const char* kPvrdmaVmknic = "/Net/PVRDMAVmknic";
// `path` must be kPvrdmaVmknic; an empty `value` is the default (not set).
Result<void> set_advanced(Inventory& inventory, const std::string& host, const std::string& path,
                          const std::string& value);

inline constexpr const char* kRuleset = "pvrdma";
Result<void> set_ruleset(Inventory& inventory, const std::string& host, const std::string& ruleset,
                         std::optional<bool> enabled, std::optional<bool> allow_all);
Result<void> add_allowed_ip(Inventory& inventory, const std::string& host, const std::string& ruleset,
                            const std::string& network);
Result<void> remove_allowed_ip(Inventory& inventory, const std::string& host, const std::string& ruleset,
                               const std::string& network);

// --- Distributed switches ---

inline constexpr std::uint32_t kUplinksMax = 32;
struct NewDvs {
  std::string name;
  std::string version = "8.0.0";
  std::uint32_t uplinks = 2;  // slots uplink1 … uplinkN, 1 … kUplinksMax
};
Result<void> create_dvs(Inventory& inventory, const NewDvs& spec);
Result<void> delete_dvs(Inventory& inventory, const std::string& dvs);  // EBUSY: members, or VMs use it
Result<void> add_dvs_host(Inventory& inventory, const std::string& dvs, const std::string& host);
Result<void> remove_dvs_host(Inventory& inventory, const std::string& dvs, const std::string& host);
// An empty `vmnic` frees the slot. Rules: a vmnic is an uplink of one switch; the uplink paired with an RDMA
// device is the only one of its host on the switch (no teaming); while VMs of the host with PVRDMA adapters
// on the switch are on, an uplink with an RDMA device neither comes nor goes.
Result<void> set_uplink(Inventory& inventory, const std::string& dvs, const std::string& host,
                        const std::string& slot, const std::string& vmnic);
inline constexpr std::size_t kNativePeersMax = 64;
// Port groups with the same VLAN are one network and have the same native endpoints: one that says nothing of
// them takes over what the others have, one that says something else is refused (EINVAL).
Result<void> add_portgroup(Inventory& inventory, const std::string& dvs, const std::string& name,
                           const PortGroup& portgroup);
// What is given is changed; native endpoints of all port groups with the same VLAN.
struct PortGroupChange {
  std::optional<NetworkMtu> mtu;  // adapters have it from their next power-on
  std::optional<bool> native_endpoints;
  std::optional<std::vector<IpNetwork>> native_peers;  // all of them; empty: any
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
  std::optional<std::string> mac;  // none: one of 52:54:00 that no other VM has, derived from the VM's name
  std::string dvs;                 // empty: the one switch that has the port group
  std::string portgroup;
  std::optional<RoceVersion> protocol;  // none: v1 on hardware version 13, otherwise v2
  Profile profile = Profile::kOpen;
  DoorbellMode doorbells = DoorbellMode::kTrapped;
  std::vector<IpAddress> addresses;  // empty: any
  std::string owner;                 // of its socket; empty: the daemon's user
  std::string group;
};
// Rules: hardware version >= 13; v2 needs >= 14; at most one PVRDMA adapter a VM; of the VMs of one segment
// one lists an address.
Result<void> add_adapter(Inventory& inventory, const std::string& vm, const NewAdapter& spec);
Result<void> remove_adapter(Inventory& inventory, const std::string& vm);

// What is given is changed. All of it needs the VM off.
struct VmChange {
  std::optional<std::string> host;
  std::optional<std::uint32_t> memory_mib;
  std::optional<std::uint32_t> memory_reserved_mib;
  std::optional<RoceVersion> protocol;
  std::optional<DoorbellMode> doorbells;
  std::optional<std::string> portgroup;
  std::optional<std::string> dvs;
  std::optional<std::vector<IpAddress>> addresses;  // all of them; empty: any
  std::optional<std::string> owner;
  std::optional<std::string> group;
};
Result<void> change_vm(Inventory& inventory, const std::string& vm, const VmChange& change);

// --- vMotion: a VM that is on goes on on another host ---
// While it is on its way nothing else of it changes, and neither host leaves its switch.

// EPERM: a rule forbids it there, or no path leads there; EBUSY: it is on its way already.
Result<void> begin_motion(Inventory& inventory, const std::string& vm, const VmMotion& motion);
// Without changing anything: whether begin_motion() would.
Result<void> check_motion(const Inventory& inventory, const std::string& vm, const std::string& to);
// From now on it is there. Nothing happens when it is already. ECANCELED: this motion was ended before.
Result<void> commit_motion(Inventory& inventory, const std::string& vm, const VmMotion& motion);
// It stays. Nothing happens when it was ended before. EALREADY: it was committed.
Result<void> end_motion(Inventory& inventory, const std::string& vm, const VmMotion& motion);

// Only upwards. The adapter keeps its protocol: 13 -> 14 stays RoCE v1 (as VMware documents).
Result<void> upgrade_vm(Inventory& inventory, const std::string& vm, std::uint32_t hardware_version);

}  // namespace pvrdma::control::edits
