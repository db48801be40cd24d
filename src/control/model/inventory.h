// Inventory: everything that the cluster's hosts agree on, in VMware's terms: hosts, distributed switches,
// VMs, and live records. A value: edits (edits.h) make the next inventory, and the plane keeps the current
// one.
//
// Administrators write the configuration, and it stays until they change it. Each host writes its live
// records under its lease, and they vanish with the lease.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ip_address.h"
#include "vocabulary/doorbell_mode.h"
#include "vocabulary/ethernet.h"
#include "vocabulary/mac.h"
#include "vocabulary/profile.h"
#include "vocabulary/roce_version.h"

namespace pvrdma::control {

// --- Hosts: configuration ---

// The firewall ruleset `pvrdma`.
struct Ruleset {
  bool enabled = false;
  bool allow_all = true;  // false: only the networks in `allowed`
  std::vector<IpNetwork> allowed;
  bool admits(const IpAddress& address) const;
  friend bool operator==(const Ruleset&, const Ruleset&) = default;
};

struct Host {
  std::string name;
  std::map<std::string, IpAddress> vmks;  // VMkernel adapters: "vmk2" -> its address
  std::string pvrdma_vmknic;              // /Net/PVRDMAVmknic: one of the vmks; empty: not set
  Ruleset pvrdma_ruleset;
  bool firewall = true;  // false: disabled, so the ruleset has no effect and everything is let through

  // The ruleset that applies.
  Ruleset effective_ruleset() const;
  // The address that cross-host traffic uses. Null: no vmknic is tagged.
  const IpAddress* tagged_address() const;
  friend bool operator==(const Host&, const Host&) = default;
};

// --- Hosts: live ---

struct Vmnic {
  std::string name;         // "vmnic0"
  std::string netdev;       // "eth0"
  std::string pci_address;  // "0000:02:00.0"; empty: not a PCI device
  std::string driver;
  std::string mac;
  std::string description;
  bool link_up = false;
  std::uint32_t mtu = 0;
  std::uint32_t speed_mbps = 0;  // 0: down or unknown
  bool full_duplex = true;
  friend bool operator==(const Vmnic&, const Vmnic&) = default;
};

struct RdmaDevice {
  std::string name;    // "vmrdma0"
  std::string device;  // "mlx5_0", its name in libibverbs
  std::string driver;
  bool active = false;
  std::uint32_t mtu = 0;
  std::uint32_t speed_mbps = 0;  // 0 when down
  std::string paired_uplink;     // a Vmnic's name; empty: none
  std::string description;
  bool roce_v1 = false;
  bool roce_v2 = false;
  bool iwarp = false;
  friend bool operator==(const RdmaDevice&, const RdmaDevice&) = default;
};

struct LiveHost {
  std::string name;
  std::string instance;  // random, new at each start of the daemon; distinguishes two daemons with one name
  std::string version;
  std::string socket_folder;  // the folder of the adapters' vfio-user sockets
  std::vector<Vmnic> vmnics;
  std::vector<RdmaDevice> rdma_devices;
  std::optional<std::uint16_t> shards;  // empty: its daemon is of a release that has one, and knows of one
  // How many of its shards its HCA serves. Empty: its daemon is of a release whose HCA serves the first shard
  // of a host, and knows of no other.
  std::optional<std::uint16_t> hca_shards;
  friend bool operator==(const LiveHost&, const LiveHost&) = default;
};

// --- Distributed switches ---

struct PortGroup {
  std::uint16_t vlan = 0;  // 0 … 4094; ports of a switch reach each other if their VLANs are equal
  NetworkMtu mtu = kNetworkMtuDefault;
  // Whether the ports may reach machines that are not VMs of the cluster, and which ones; empty: any. All
  // port groups of a switch that have the same VLAN have the same values.
  bool native_endpoints = false;
  std::vector<IpNetwork> native_peers;
  friend bool operator==(const PortGroup&, const PortGroup&) = default;
};

struct Dvs {
  std::string name;
  std::uint32_t id = 0;                                 // > 0; never reused for another switch
  std::string version;                                  // "6.5.0" …
  std::vector<std::string> uplinks;                     // slots: "uplink1", "uplink2" …
  std::map<std::string, PortGroup> portgroups;          // by name
  using Assigned = std::map<std::string, std::string>;  // uplink slot -> vmnic
  std::map<std::string, Assigned> members;              // by host name
  friend bool operator==(const Dvs&, const Dvs&) = default;
};

// --- VMs ---

struct VmAdapter {
  Mac mac;
  std::string dvs;
  std::string portgroup;
  RoceVersion protocol = RoceVersion::kV2;
  Profile profile = Profile::kOpen;
  DoorbellMode doorbells = DoorbellMode::kTrapped;  // what records of before this setting mean
  std::vector<IpAddress> addresses;  // the only ones its guest may use besides those of its MAC; empty: any
  std::string owner;  // owner of its socket on its host, by name or number; empty: the daemon's user
  std::string group;  // the same
  friend bool operator==(const VmAdapter&, const VmAdapter&) = default;
};

// The motion of a VM from its host to another one (vMotion).
struct VmMotion {
  std::string id;  // of this motion; never reused
  std::string to;
  friend bool operator==(const VmMotion&, const VmMotion&) = default;
};

struct Vm {
  std::string name;
  std::string host;
  std::uint32_t hardware_version = 0;  // also one without adapters
  std::uint32_t memory_mib = 0;
  std::uint32_t memory_reserved_mib = 0;
  std::optional<VmAdapter> adapter;
  std::optional<VmMotion> motion;
  std::string arrived_by;  // the motion that brought it to `host`; empty: no motion did
  friend bool operator==(const Vm&, const Vm&) = default;
};

// The holder of a GID that a guest has bound. Live, written by the VM's host.
struct GidHolder {
  std::string port;  // the VM's name
  std::string host;
  // The shard of the host. Empty: the first, as in records of releases that know of one. A record is replaced
  // by comparing its text, so the first shard is never written as 0.
  std::optional<std::uint16_t> shard;
  friend bool operator==(const GidHolder&, const GidHolder&) = default;
};

// The part of a switch in which GIDs are unique and ports reach each other: one VLAN of one switch.
struct SegmentKey {
  std::uint32_t dvs_id = 0;
  std::uint16_t vlan = 0;
  friend auto operator<=>(const SegmentKey&, const SegmentKey&) = default;
};

struct GidKey {
  SegmentKey segment;
  std::string gid;  // 32 lower-case hexadecimal digits
  friend auto operator<=>(const GidKey&, const GidKey&) = default;
};

struct Inventory {
  // Counts edits of the configuration. Of two simultaneous edits, the second is tried again on the result of
  // the first.
  std::uint64_t revision = 0;
  std::uint32_t next_dvs_id = 1;
  std::uint64_t cluster_id =
      0;  // random, so that two clusters on one network differ; 0: before the first edit
  std::map<std::string, Host> hosts;
  std::map<std::string, Dvs> switches;
  std::map<std::string, Vm> vms;

  std::map<std::string, LiveHost> live_hosts;
  std::map<std::string, std::string> powered_on;  // VM -> host
  std::map<GidKey, GidHolder> gids;

  bool is_on(const std::string& vm) const { return powered_on.contains(vm); }
  friend bool operator==(const Inventory&, const Inventory&) = default;
};

}  // namespace pvrdma::control
