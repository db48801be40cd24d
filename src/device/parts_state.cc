// Converts the parts of an adapter to saved values and back (ADR 16). Each function names all members, so
// that a new member does not compile until it is handled. A loaded value is trusted afterwards like one from
// a guest's access, so the same rules check it here.
#include <algorithm>
#include <atomic>

#include "device/describe.h"
#include "device/doorbell_poller.h"
#include "device/interrupts.h"
#include "device/rate_limit.h"
#include "device/registers.h"
#include "device/saved.h"
#include "device/shared_region.h"

namespace pvrdma::device {
namespace {

Duration from_ns(std::uint64_t count) {
  return Duration(static_cast<Duration::rep>(count));
}

std::vector<std::uint64_t> addresses_of(const guestmem::PageList& pages) {
  std::vector<std::uint64_t> out;
  for (const guestmem::GuestPhys page : pages.from(0, pages.size())) out.push_back(page.value);
  return out;
}

std::optional<guestmem::PageList> page_list_of(const std::vector<std::uint64_t>& addresses) {
  if (addresses.size() < kEventRingPagesMin || addresses.size() > kEventRingPagesMax) return std::nullopt;
  guestmem::PageList pages;
  for (const std::uint64_t address : addresses) pages.append(guestmem::GuestPhys(address));
  return pages;
}

}  // namespace

SavedRegisters Registers::save() const {
  const auto& [device_version, mac, interrupts, actions, dsr_low, err, mac_low, mac_high] = *this;
  return {.dsr_low = dsr_low, .err = err, .mac_low = mac_low, .mac_high = mac_high};
}

void Registers::restore(const SavedRegisters& saved) {
  const auto& [dsr_low, err, mac_low, mac_high] = saved;
  dsr_low_ = dsr_low;
  err_ = err;
  mac_low_ = mac_low;
  mac_high_ = mac_high;
}

SavedInterrupts Interrupts::save() const {
  const auto& [clock, log, eventfds, raised, slow, mask, causes, held_by_mask] = *this;
  return {.raised = raised, .mask = mask, .causes = causes, .held_by_mask = held_by_mask};
}

void Interrupts::restore(const SavedInterrupts& saved) {
  const auto& [raised, mask, causes, held_by_mask] = saved;
  raised_ = raised;
  mask_ = mask;
  causes_ = causes;
  held_by_mask_ = held_by_mask;
}

SavedRegion save(const SharedRegion& region) {
  const auto& [driver_version, guest_os, command_slot, response_slot, uar_page_frame, async_pages,
               notification_pages] = region;
  return {.driver_version = driver_version,
          .guest_os = guest_os,
          .command_slot = command_slot.value,
          .response_slot = response_slot.value,
          .uar_page_frame = uar_page_frame,
          .async_pages = addresses_of(async_pages),
          .notification_pages = addresses_of(notification_pages)};
}

std::optional<SharedRegion> restore(const SavedRegion& saved, PageFrames frames) {
  const auto& [driver_version, guest_os, command_slot, response_slot, uar_page_frame, async_pages,
               notification_pages] = saved;
  if (driver_version < kOldestDriver || command_slot % abi::kPageBytes != 0 ||
      response_slot % abi::kPageBytes != 0)
    return std::nullopt;
  if (frames == PageFrames::k32Bit && uar_page_frame > UINT32_MAX) return std::nullopt;
  std::optional<guestmem::PageList> async = page_list_of(async_pages);
  std::optional<guestmem::PageList> notifications = page_list_of(notification_pages);
  if (!async || !notifications) return std::nullopt;
  return SharedRegion{.driver_version = driver_version,
                      .guest_os = guest_os,
                      .command_slot = guestmem::GuestPhys{command_slot},
                      .response_slot = guestmem::GuestPhys{response_slot},
                      .uar_page_frame = uar_page_frame,
                      .async_pages = *std::move(async),
                      .notification_pages = *std::move(notifications)};
}

SavedDoorbells DoorbellPoller::save() const {
  // Which pages are hot, and which come next, is not saved: all pages are looked at after a load.
  const auto& [memory, doorbells, engine, hot, cold, next_hot, next_cold, cold_due, look, last_look] = *this;
  SavedDoorbells saved;
  for (const std::vector<Page>* pages : {&hot, &cold}) {
    for (const Page& page : *pages)
      saved.pages.push_back({.uar = page.uar, .words = words_of(page.uar).load(std::memory_order_seq_cst)});
  }
  std::ranges::sort(saved.pages, {}, &SavedDoorbellPage::uar);
  return saved;
}

void DoorbellPoller::restore(const SavedDoorbells& saved, Words from) {
  for (const auto& [uar, words] : saved.pages) {
    if (from == Words::kInMemory) {
      look_after(uar);
      continue;
    }
    open(uar);
    words_of(uar).store(words, std::memory_order_seq_cst);
  }
}

SavedRate RateLimit::save(Instant now) const {
  const auto& [price, paid_at, over, second_began, in_second, last_second, slowed] = *this;
  return {.taken_ns = ns(std::clamp(paid_at - now, -kBurst, kLongestWait) + kBurst),
          .second_age_ns = ns(std::clamp(now - second_began, Duration(0), kSecondForgotten)),
          .in_second = in_second,
          .last_second = last_second,
          .slowed = slowed};
}

void RateLimit::restore(const SavedRate& saved, Instant now) {
  const auto& [taken_ns, second_age_ns, in_second, last_second, slowed] = saved;
  paid_at_ = now + (from_ns(taken_ns) - kBurst);
  over_ = paid_at_ > now;
  second_began_ = now + -from_ns(second_age_ns);
  in_second_ = in_second;
  last_second_ = last_second;
  slowed_ = slowed;
}

}  // namespace pvrdma::device
