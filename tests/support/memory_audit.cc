#include "support/memory_audit.h"

#include <array>
#include <cstring>
#include <fmt/core.h>
#include <span>

#include "base/check.h"
#include "support/must.h"

namespace pvrdma::test {
namespace {

using guestmem::kPageBytes;

}  // namespace

void MemoryAudit::add(driver::GuestRam& ram, guestmem::AddressSpace& memory) {
  must(memory.start_log());
  guests_.push_back(std::make_unique<Guest>(Guest{ram, memory, {}, {}, {}}));
}

template <typename Changed>
void MemoryAudit::remember(Guest& guest, Changed changed) {
  for (std::uint64_t at = 0; at < guest.ram.size_bytes(); at += kPageBytes) {
    const driver::GuestPhys gpa(guest.ram.base().value + at);
    if (!guest.ram.is_taken(gpa)) continue;
    const std::byte* const now = guest.ram.at(gpa, kPageBytes);
    std::unique_ptr<Page>& then = guest.remembered[gpa.value / kPageBytes];
    if (then != nullptr && std::memcmp(then->data(), now, kPageBytes) == 0) continue;
    if (then == nullptr) then = std::make_unique<Page>();
    std::memcpy(then->data(), now, kPageBytes);
    changed(gpa.value / kPageBytes);
  }
}

void MemoryAudit::look() {
  for (const auto& guest : guests_) remember(*guest, [](std::uint64_t) {});
}

void MemoryAudit::check() {
  for (std::size_t i = 0; i < guests_.size(); ++i) {
    Guest& guest = *guests_[i];
    remember(guest, [&guest](std::uint64_t page) { guest.changed.insert(page); });
    if (random_() % 3 == 0) empty_log(i);
  }
}

void MemoryAudit::finish() {
  for (std::size_t i = 0; i < guests_.size(); ++i) {
    empty_log(i);
    guests_[i]->memory.stop_log();
  }
}

void MemoryAudit::empty_log(std::size_t index) {
  Guest& guest = *guests_[index];
  const Pages logged = random_() % 2 == 0 ? collect(guest) : report(guest);
  for (const std::uint64_t page : guest.changed) {
    if (!logged.contains(page)) {
      missed_.push_back(
          fmt::format("guest {}: page {:#x} changed and is not in the log", index, page * kPageBytes));
    }
  }
  guest.logged.insert(logged.begin(), logged.end());
  changes_ += guest.changed.size();
  ++times_emptied_;
  guest.changed.clear();
}

MemoryAudit::Pages MemoryAudit::collect(Guest& guest) {
  Pages out;
  std::array<guestmem::PageRun, 2 * guestmem::AddressSpace::kRunsMin> runs;
  guestmem::AddressSpace::Collected part;
  do {
    part = must(guest.memory.collect_log(part.next, runs));
    for (const guestmem::PageRun& run : std::span(runs).first(part.run_count)) {
      for (std::uint64_t i = 0; i < run.page_count; ++i) out.insert(run.begin.value / kPageBytes + i);
    }
  } while (!part.is_end);
  return out;
}

MemoryAudit::Pages MemoryAudit::report(Guest& guest) {
  const std::uint64_t bytes = guest.ram.size_bytes();
  std::vector<std::byte> bitmap(guestmem::AddressSpace::bitmap_bytes(bytes, kPageBytes));
  must(guest.memory.report_log(guestmem::GuestPhys(guest.ram.base().value), bytes, kPageBytes, bitmap));
  Pages out;
  for (std::uint64_t page = 0; page < bytes / kPageBytes; ++page) {
    if ((bitmap[page / 8] >> (page % 8) & std::byte{1}) != std::byte{0})
      out.insert(guest.ram.base().value / kPageBytes + page);
  }
  return out;
}

std::size_t MemoryAudit::logged_pages() const {
  std::size_t sum = 0;
  for (const auto& guest : guests_) sum += guest->logged.size();
  return sum;
}

std::size_t MemoryAudit::pages_in_use() const {
  std::size_t sum = 0;
  for (const auto& guest : guests_) sum += guest->remembered.size();
  return sum;
}

}  // namespace pvrdma::test
