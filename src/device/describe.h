// The fields of a saved adapter: one description for each type, for every archive of state/. Like
// verbs/describe.h, which describes the engine. Thread: values.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "device/counters.h"
#include "device/event_rings.h"
#include "device/pci_state.h"
#include "device/rate_limit.h"
#include "device/saved.h"
#include "device/shared_region.h"
#include "state/stream.h"
#include "verbs/describe.h"
#include "vocabulary/name.h"

namespace pvrdma::device {

// Records of an adapter, each once and in this order. The engine's records follow and end the stream.
inline constexpr state::RecordKind kIdentityRecord{0x100, 1};
inline constexpr state::RecordKind kPciRecord{0x101, 1};
inline constexpr state::RecordKind kRegistersRecord{0x102, 1};
inline constexpr state::RecordKind kInterruptsRecord{0x103, 1};
inline constexpr state::RecordKind kDriverRecord{0x104, 1};
inline constexpr state::RecordKind kEventRingsRecord{0x105, 1};
inline constexpr state::RecordKind kDoorbellsRecord{0x106, 1};
inline constexpr state::RecordKind kRatesRecord{0x107, 1};
inline constexpr state::RecordKind kDeviceCountersRecord{0x108, 1};

// Bounds for readers, independent of the adapter's limits.
inline constexpr std::uint32_t kSavedCqsMax = verbs::kSavedSlotsMax;

constexpr std::uint64_t ns(Duration duration) {
  return static_cast<std::uint64_t>(duration.count());
}

template <typename Archive>
void describe(Archive& archive, verbs::Limits& limits) {
  auto& [max_context, max_pd, max_mr, max_cq, max_cqe, max_qp, max_qp_wr, max_user_qp_wr, max_sge, max_srq,
         max_srq_wr, max_rd_atomic, max_ah, gid_table_length, mtu, max_mr_bytes, max_ud_qp] = limits;
  archive.number("max_context", max_context);
  archive.number("max_pd", max_pd);
  archive.number("max_mr", max_mr);
  archive.number("max_cq", max_cq);
  archive.number("max_cqe", max_cqe);
  archive.number("max_qp", max_qp);
  archive.number("max_qp_wr", max_qp_wr);
  archive.number("max_user_qp_wr", max_user_qp_wr);
  archive.number("max_sge", max_sge);
  archive.number("max_srq", max_srq);
  archive.number("max_srq_wr", max_srq_wr);
  archive.number("max_rd_atomic", max_rd_atomic);
  archive.number("max_ah", max_ah);
  archive.number("gid_table_length", gid_table_length);
  archive.choice("mtu", mtu, abi::Mtu::k256, abi::Mtu::k4096);
  archive.number("max_mr_bytes", max_mr_bytes);
  archive.number("max_ud_qp", max_ud_qp);
}

template <typename Archive>
void describe(Archive& archive, verbs::Rules& rules) {
  auto& [qp_handle_is_qpn, atomics, roce, mapped_doorbells] = rules;
  archive.flag("qp_handle_is_qpn", qp_handle_is_qpn);
  archive.flag("atomics", atomics);
  archive.choice("rules_roce", roce, RoceVersion::kV1, RoceVersion::kV2);
  archive.flag("mapped_doorbells", mapped_doorbells);
}

template <typename Archive>
void describe(Archive& archive, SavedIdentity& identity) {
  auto& [name, mac, hardware_version, roce, profile, doorbells, limits, rules] = identity;
  archive.text("name", name, kNameCharsMax);
  archive.bytes("mac", mac.raw);
  archive.choice("hardware_version", hardware_version, HardwareVersion::k13, HardwareVersion::k18);
  archive.choice("roce", roce, RoceVersion::kV1, RoceVersion::kV2);
  archive.choice("profile", profile, Profile::kOpen, Profile::kEsxi);
  archive.choice("doorbells", doorbells, DoorbellMode::kTrapped, DoorbellMode::kMapped);
  describe(archive, limits);
  describe(archive, rules);
}

// 16 bytes in a field, as lspci prints them.
template <typename Archive, std::size_t size>
void describe_rows(Archive& archive, std::string_view name, std::array<std::uint8_t, size>& bytes) {
  static_assert(size % 16 == 0);
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (std::size_t at = 0; at < size; at += 16) {
    std::array<std::uint8_t, 16> row{};
    std::memcpy(row.data(), bytes.data() + at, row.size());
    archive.bytes(std::string(name) + "_" + kDigits[at / 16] + "0", row);
    std::memcpy(bytes.data() + at, row.data(), row.size());
  }
}

template <typename Archive>
void describe(Archive& archive, PciState& pci) {
  auto& [config, has_msix_table, msix_table] = pci;
  describe_rows(archive, "config", config);
  archive.flag("has_msix_table", has_msix_table);
  if (has_msix_table) describe_rows(archive, "msix", msix_table);
}

template <typename Archive>
void describe(Archive& archive, SavedRegisters& registers) {
  auto& [dsr_low, err, mac_low, mac_high] = registers;
  archive.number("dsr_low", dsr_low);
  archive.number("err", err);
  archive.number("mac_low", mac_low);
  archive.number("mac_high", mac_high);
}

template <typename Archive>
void describe(Archive& archive, SavedInterrupts& interrupts) {
  constexpr std::uint32_t kCauses = (1u << abi::kVectorCount) - 1;
  auto& [raised, mask, causes, held_by_mask] = interrupts;
  for (std::uint64_t& count : raised) archive.number("raised", count);
  archive.number("mask", mask);
  archive.number("causes", causes, kCauses);
  archive.number("held_by_mask", held_by_mask, mask & kCauses);
}

template <typename Archive>
void describe(Archive& archive, SavedRegion& region) {
  auto& [driver_version, guest_os, command_slot, response_slot, uar_page_frame, async_pages,
         notification_pages] = region;
  archive.number("driver_version", driver_version);
  archive.number("guest_os", guest_os);
  archive.number("command_slot", command_slot);
  archive.number("response_slot", response_slot);
  archive.number("uar_page_frame", uar_page_frame);
  archive.pages("async_pages", async_pages, kEventRingPagesMax);
  archive.pages("notification_pages", notification_pages, kEventRingPagesMax);
}

template <typename Archive>
void describe(Archive& archive, SavedDriver& driver) {
  auto& [state, link_up, region] = driver;
  archive.choice("state", state, AdapterState::kDetached, AdapterState::kFailed);
  archive.flag("link_up", link_up);
  if (has_region(state)) describe(archive, region);
}

template <typename Archive>
void describe(Archive& archive, SavedIndex& index) {
  auto& [own_index, own_index_known] = index;
  archive.number("own_index", own_index);
  archive.flag("own_index_known", own_index_known);
}

template <typename Archive>
void describe(Archive& archive, abi::AsyncEvent& event) {
  auto& [type, info] = event;
  archive.number("type", type, static_cast<std::uint32_t>(abi::EventType::kGidChange));
  archive.number("info", info);
}

template <typename Archive>
void describe(Archive& archive, SavedEventRings& rings) {
  auto& [async, notifications, pending_cqs, drain_from_cq, held, retry_in_ns, retry_after_ns] = rings;
  describe(archive, async);
  describe(archive, notifications);
  archive.list("pending_cqs", pending_cqs, kSavedCqsMax, 4,
               [&archive](std::uint32_t& cq) { archive.number("cq", cq, kSavedCqsMax - 1); });
  archive.number("drain_from_cq", drain_from_cq, kSavedCqsMax);
  archive.list("held", held, EventRings::kHeldEventsMax, sizeof(abi::AsyncEvent),
               [&archive](abi::AsyncEvent& event) { describe(archive, event); });
  archive.number("retry_in_ns", retry_in_ns, ns(EventRings::kRetryAfterMax));
  archive.number("retry_after_ns", retry_after_ns, ns(EventRings::kRetryAfterMax));
}

template <typename Archive>
void describe(Archive& archive, SavedDoorbellPage& page) {
  auto& [uar, words] = page;
  archive.number("uar", uar);
  archive.number("words", words);
}

template <typename Archive>
void describe(Archive& archive, SavedDoorbells& doorbells) {
  auto& [pages] = doorbells;
  archive.list("pages", pages, verbs::kSavedContextsMax, 12,
               [&archive](SavedDoorbellPage& page) { describe(archive, page); });
}

template <typename Archive>
void describe(Archive& archive, SavedRate& rate) {
  auto& [taken_ns, second_age_ns, in_second, last_second, slowed] = rate;
  archive.number("taken_ns", taken_ns, ns(RateLimit::kBurst + RateLimit::kLongestWait));
  archive.number("second_age_ns", second_age_ns, ns(RateLimit::kSecondForgotten));
  archive.number("in_second", in_second);
  archive.number("last_second", last_second);
  archive.number("slowed", slowed);
}

// The rates of commands, then of doorbells.
template <typename Archive>
void describe(Archive& archive, SavedRates& rates) {
  auto& [commands, doorbells] = rates;
  describe(archive, commands);
  describe(archive, doorbells);
}

template <typename Archive>
void describe(Archive& archive, CommandErrors& errors) {
  auto& [not_ready, no_such_object, busy, no_memory, bad_address, invalid, not_permitted, not_supported,
         address_in_use] = errors;
  archive.number("not_ready", not_ready);
  archive.number("no_such_object", no_such_object);
  archive.number("busy", busy);
  archive.number("no_memory", no_memory);
  archive.number("bad_address", bad_address);
  archive.number("invalid", invalid);
  archive.number("not_permitted", not_permitted);
  archive.number("not_supported", not_supported);
  archive.number("address_in_use", address_in_use);
}

// Without interrupts, which are counted where they are raised, and slow ones and offences, which concern this
// host.
template <typename Archive>
void describe(Archive& archive, Counters& counters) {
  auto& [commands, command_errors, doorbells, interrupts, slow_interrupts, notifications, async_events,
         events_held_back, events_dropped, invalid_event_indices, bad_accesses, posted_register_writes,
         shared_region_errors, resets, connections, qp_failures, offences, offences_us] = counters;
  archive.number("commands", commands);
  describe(archive, command_errors);
  archive.number("doorbells", doorbells);
  archive.number("notifications", notifications);
  archive.number("async_events", async_events);
  archive.number("events_held_back", events_held_back);
  archive.number("events_dropped", events_dropped);
  archive.number("invalid_event_indices", invalid_event_indices);
  archive.number("bad_accesses", bad_accesses);
  archive.number("posted_register_writes", posted_register_writes);
  archive.number("shared_region_errors", shared_region_errors);
  archive.number("resets", resets);
  archive.number("connections", connections);
  archive.number("qp_failures", qp_failures);
}

}  // namespace pvrdma::device
