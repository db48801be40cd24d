// AdapterInfo: an operator's view of one adapter, copied at one moment. Thread: a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/counters.h"
#include "device/device_version.h"
#include "verbs/counters.h"
#include "verbs/engine.h"
#include "verbs/ids.h"
#include "vocabulary/budgets.h"
#include "vocabulary/doorbell_mode.h"
#include "vocabulary/mac.h"

namespace pvrdma::device {

// kDetached: no driver. kAttached: a driver has announced its shared region. kActive: commands are executed.
// kFailed: the VMM removed guest memory that the driver used; nothing works until it has disconnected.
enum class AdapterState : std::uint8_t { kDetached, kAttached, kActive, kFailed };

// Whether the driver's shared region and its event rings are known.
constexpr bool has_region(AdapterState state) {
  return state == AdapterState::kAttached || state == AdapterState::kActive;
}

constexpr const char* describe(AdapterState state) {
  switch (state) {
    case AdapterState::kDetached:
      return "detached";
    case AdapterState::kAttached:
      return "attached";
    case AdapterState::kActive:
      return "active";
    case AdapterState::kFailed:
      return "failed";
  }
  return "";
}

struct GidInfo {
  std::uint32_t index = 0;
  verbs::Gid gid;
  RoceVersion roce{};
};

struct AdapterInfo {
  std::string name;
  Mac mac;
  HardwareVersion hardware_version{};
  std::uint32_t device_version = 0;  // the VERSION register
  RoceVersion roce{};
  DoorbellMode doorbells{};
  std::uint32_t mtu_bytes = 0;  // the port's active MTU
  AdapterState state{};
  bool connected = false;
  bool link_up = false;
  std::uint32_t driver_version = 0;  // 0 while detached
  std::string guest_os;              // empty while detached
  // Why no driver can work, why the last one was refused, or why memory is missing; else empty.
  std::string trouble;
  std::uint64_t dma_map_count = 0;
  std::uint64_t dma_ram_bytes = 0;
  std::vector<GidInfo> gids;
  verbs::Engine::ObjectCounts objects{};
  std::vector<BudgetUse> budgets;  // one for each budget
  verbs::Counters verbs_counters;
  Counters device_counters;
};

}  // namespace pvrdma::device
