// Doorbells: writes to BAR 2, one UAR page per context, decoded into engine calls (reference 5).
//
// BAR 2 holds, in this order: max_uar doorbell pages, one page that the client may map (doorbell_memory.h),
// and nothing up to the power of two that a BAR needs. No doorbell can be written to that one page, because
// the driver never assigns pages from max_uar on.
//
// Hot path: no allocation, lock, log line or exception between the write and the engine. Thread: shard-owned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/registers.h"
#include "base/time.h"
#include "verbs/engine.h"

namespace pvrdma::device {

// Size of BAR 2 for `uar_pages` doorbell pages (a power of two). It is twice their size, to hold the
// additional page.
constexpr std::uint64_t uar_bar_bytes(std::uint32_t uar_pages) {
  return std::uint64_t{uar_pages} * 2 * abi::kUarPageBytes;
}

class Doorbells {
 public:
  // `engine` is borrowed and outlives this object.
  Doorbells(std::uint32_t uar_pages, verbs::Engine& engine) : uar_pages_(uar_pages), engine_(engine) {}

  struct Written {
    std::uint32_t doorbells = 0;
    std::uint32_t ignored = 0;  // words or parts of words that are not doorbells
  };
  // `data` of any width is cut into aligned dwords, which are rung in order of address. Parts of a dword are
  // ignored. If there are more than kWriteBytesMax bytes, all are ignored, because no processor stores that
  // many at once.
  Written write(std::uint64_t offset, std::span<const std::byte> data, Instant now);

  static constexpr std::size_t kWriteBytesMax = 64;

  // `value` was written to `word` of the page.
  void ring(verbs::UarIndex uar, abi::UarWord word, std::uint32_t value, Instant now);

 private:
  const std::uint32_t uar_pages_;
  verbs::Engine& engine_;
};

}  // namespace pvrdma::device
