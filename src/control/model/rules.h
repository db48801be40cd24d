// Rules that decide rather than edit: may this VM be powered on, and which way do two hosts reach each
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

// May `vm` be powered on on its host now? The error is the rule that forbids it (EPERM, or ENOENT): it has no
// PVRDMA adapter; memory not all reserved; its switch or port group is gone; its host is no member of the
// switch, or teams an uplink that is paired with an RDMA device; hardware version against adapter and
// protocol; it runs on another host.
Result<void> check_power_on(const Inventory& inventory, const std::string& vm);

// With the VMs that are on their way to `host` there, and off: what it would be for them to begin there.
Inventory with_arrivals(const Inventory& inventory, const std::string& host);

enum class HostPath : std::uint8_t { kNone, kLocal, kTcp };

// Both hosts have an HCA that PVRDMA may use, on a switch that both are members of.
struct HcaChoice {
  std::string device;                   // of the first host, as libibverbs calls it
  std::vector<std::uint32_t> switches;  // those whose ports go by it: the HCAs are its only uplinks; sorted
};

struct HostPathChoice {
  HostPath kind = HostPath::kNone;
  std::string reason;            // one clause, names what is missing and on which host
  std::optional<HcaChoice> hca;  // with kTcp: which carries what goes by it, and tcp the rest
};

// From `from` to `to`: the same host -> local; both alive, with a tagged vmknic and the ruleset enabled and
// admitting the other's address -> tcp, with hca (the reason names the devices) or without (it tells why
// not); otherwise none.
HostPathChoice choose_path(const Inventory& inventory, const std::string& from, const std::string& to);

// What a VM's adapter is attached to. Nothing: no adapter, or the switch or port group is gone.
struct Attachment {
  SegmentKey segment;
  NetworkMtu mtu = kNetworkMtuDefault;
};
std::optional<Attachment> attachment_of(const Inventory& inventory, const Vm& vm);
std::optional<SegmentKey> segment_of(const Inventory& inventory, const Vm& vm);

}  // namespace pvrdma::control
