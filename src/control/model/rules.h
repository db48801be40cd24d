// Rules that decide without editing: whether a VM may be powered on, and by which path two hosts reach each
// other.
//
// Pure. Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/model/inventory.h"

namespace pvrdma::control {

// Whether `vm` may be powered on on its host now. The error (kConflict or kNotFound) is the rule that forbids
// it: the VM has no PVRDMA adapter; not all its memory is reserved; its switch or port group is gone; its
// host is not a member of the switch, or teams an uplink that is paired with an RDMA device; its hardware
// version does not fit its adapter or protocol; it runs on another host.
Result<void> check_power_on(const Inventory& inventory, const std::string& vm);

// The inventory as if the VMs in motion to `host` were there and off, to check whether they could start
// there.
Inventory with_arrivals(const Inventory& inventory, const std::string& host);

enum class HostPath : std::uint8_t { kNone, kLocal, kTcp };

// The RDMA device of `host` that PVRDMA uses: the first that is active, has RoCE v2, and is an uplink of a
// switch. Null: there is none, and `why` is the reason; empty: none is active, or the host is not alive.
const RdmaDevice* hca_of(const Inventory& inventory, const std::string& host, std::string& why);

// Both hosts have an HCA that PVRDMA may use, on a switch that has both as members.
struct HcaChoice {
  std::string device;                   // of the first host, by its name in libibverbs
  std::vector<std::uint32_t> switches;  // those whose ports go by it: the HCAs are its only uplinks; sorted
};

struct HostPathChoice {
  HostPath kind = HostPath::kNone;
  std::string reason;            // one clause that names the missing thing and its host
  std::optional<HcaChoice> hca;  // with kTcp: present if some switches use the HCAs; the others use TCP
};

// Why `host` has no traffic to other hosts: one clause that names it. Empty: it has.
std::string why_unreachable(const Inventory& inventory, const std::string& host);

// The path between two hosts. The same host: local. Otherwise tcp, if both hosts are alive, have a tagged
// vmknic and an enabled ruleset, and admit each other's address. It is tcp with an HCA (the reason names the
// devices) or without (the reason says why not). In all other cases: none.
HostPathChoice choose_path(const Inventory& inventory, const std::string& from, const std::string& to);

// Where a VM's adapter is attached. Empty: it has no adapter, or the switch or port group is gone.
struct Attachment {
  SegmentKey segment;
  NetworkMtu mtu = kNetworkMtuDefault;
};
std::optional<Attachment> attachment_of(const Inventory& inventory, const Vm& vm);
std::optional<SegmentKey> segment_of(const Inventory& inventory, const Vm& vm);

}  // namespace pvrdma::control
