// What an adapter can do: the engine's limits and rules, and the same in the guest's form (Caps).
//
// Both come from one source, so that the guest is never promised what the engine refuses. Numbers: reference
// 2.2. Thread: pure functions.
#pragma once

#include <cstdint>

#include "abi/attributes.h"
#include "abi/endian.h"
#include "abi/shared_region.h"
#include "base/result.h"
#include "device/device_version.h"
#include "verbs/limits.h"
#include "vocabulary/budgets.h"
#include "vocabulary/doorbell_mode.h"
#include "vocabulary/ethernet.h"
#include "vocabulary/profile.h"

namespace pvrdma::device {

verbs::Limits limits_of(HardwareVersion version, Profile profile);
// The lesser of budget and limit for each, so that the guest is told what it may have, and a refusal names
// the limit that applies.
verbs::Limits within(const Budgets& budgets, verbs::Limits limits);
Budgets within(const verbs::Limits& limits, Budgets budgets);
verbs::Rules rules_of(HardwareVersion version, RoceVersion roce, Profile profile);

// Whether the guest's driver works with such limits (reference 2.2, 2.3). The Error names a wrong limit.
Result<> check_limits(const verbs::Limits& limits);

// Only x86 hosts can map them (kHostIsX86). The Error names the mode and the alternative.
Result<> check_doorbells(DoorbellMode mode, bool host_is_x86 = kHostIsX86);

// The largest RDMA MTU whose packets the network carries.
abi::Mtu port_mtu(NetworkMtu network);

// EUI-64 of a MAC: universal bit flipped, ff:fe in the middle.
abi::Be64 node_guid(const abi::Mac& mac);

// The capabilities as the guest reads them. `rules.roce` must be offered by the hardware version.
abi::Caps caps_of(const verbs::Limits& limits, const verbs::Rules& rules, const abi::Mac& mac);

}  // namespace pvrdma::device
