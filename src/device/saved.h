// The parts of a saved adapter besides its engine (ADR 16): values that represent them in a stream. As in
// verbs/saved.h, a part's save() and describe() name every member.
//
// Thread: values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "abi/registers.h"
#include "abi/ring.h"
#include "device/adapter_info.h"
#include "device/device_version.h"
#include "verbs/limits.h"
#include "vocabulary/doorbell_mode.h"
#include "vocabulary/mac.h"
#include "vocabulary/profile.h"

namespace pvrdma::device {

// The adapter's identity and what its guest was told. A load compares it. It is applied only to an adapter
// whose client continues in another process (keep_to()).
struct SavedIdentity {
  std::string name;
  Mac mac;
  HardwareVersion hardware_version{};
  RoceVersion roce{};
  Profile profile{};
  DoorbellMode doorbells{};
  verbs::Limits limits;
  verbs::Rules rules;
};

struct SavedRegisters {
  std::uint32_t dsr_low = 0;
  std::uint32_t err = 0;
  std::uint32_t mac_low = 0;
  std::uint32_t mac_high = 0;
};

struct SavedInterrupts {
  std::array<std::uint64_t, abi::kVectorCount> raised{};
  std::uint32_t mask = 0;
  std::uint32_t causes = 0;
  std::uint32_t held_by_mask = 0;
};

struct SavedRegion {
  std::uint32_t driver_version = 0;
  std::uint32_t guest_os = 0;
  std::uint64_t command_slot = 0;
  std::uint64_t response_slot = 0;
  std::uint64_t uar_page_frame = 0;
  std::vector<std::uint64_t> async_pages;
  std::vector<std::uint64_t> notification_pages;
};

// The state of the driver.
struct SavedDriver {
  AdapterState state{};
  bool link_up = false;
  SavedRegion region;  // while attached or active; otherwise empty
};

// The device's own index in a ring whose pages are in the region.
struct SavedIndex {
  std::uint32_t own_index = 0;
  bool own_index_known = false;
};

struct SavedEventRings {
  SavedIndex async;
  SavedIndex notifications;
  std::vector<std::uint32_t> pending_cqs;  // ascending
  std::uint32_t drain_from_cq = 0;
  std::vector<abi::AsyncEvent> held;  // oldest first
  std::uint64_t retry_in_ns = 0;
  std::uint64_t retry_after_ns = 0;
};

// A context's page and the doorbells in it that have not been looked at.
struct SavedDoorbellPage {
  std::uint32_t uar = 0;
  std::uint64_t words = 0;  // the QP and CQ words
};

// Mapped mode: one page for each context.
struct SavedDoorbells {
  std::vector<SavedDoorbellPage> pages;  // ascending
};

struct SavedRate {
  std::uint64_t taken_ns = 0;  // the unpaid time, beyond the longest pause that counts
  std::uint64_t second_age_ns = 0;
  std::uint64_t in_second = 0;
  std::uint64_t last_second = 0;
  std::uint64_t slowed = 0;
};

struct SavedRates {
  SavedRate commands;
  SavedRate doorbells;
};

}  // namespace pvrdma::device
