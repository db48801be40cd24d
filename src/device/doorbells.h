// Doorbells: writes to BAR 2, one UAR page per context, decoded into engine calls (reference 5).
//
// BAR 2 holds, in this order: max_uar doorbell pages; one page exported to the client as mappable memory,
// which makes QEMU acknowledge every write of this device (reference 8.5) and in which no doorbell can land,
// as the driver never gives a page from max_uar on to anyone; and nothing, up to the power of two a BAR
// needs.
//
// Hot path: no allocation, lock, log line or exception between the write and the engine. Thread: shard-owned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "abi/registers.h"
#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"
#include "verbs/engine.h"

namespace pvrdma::device {

// Size of BAR 2 for `uar_pages` doorbell pages (a power of two): twice as much, to hold the exported page.
constexpr std::uint64_t uar_bar_bytes(std::uint32_t uar_pages) {
  return std::uint64_t{uar_pages} * 2 * abi::kUarPageBytes;
}

class Doorbells {
 public:
  // `engine` is borrowed and outlives this.
  Doorbells(std::uint32_t uar_pages, verbs::Engine& engine) : uar_pages_(uar_pages), engine_(engine) {}

  struct Written {
    std::uint32_t doorbells = 0;
    std::uint32_t ignored = 0;  // words, or parts of words, that are no doorbell
  };
  // `data` of any width, cut into aligned dwords and rung in order of address; parts of a dword are no
  // doorbell. At most kWriteBytesMax: more is ignored as a whole, as no processor stores that much at once.
  Written write(std::uint64_t offset, std::span<const std::byte> data, Instant now);

  static constexpr std::size_t kWriteBytesMax = 64;

 private:
  bool ring(std::uint64_t offset, std::uint32_t value, Instant now);

  const std::uint32_t uar_pages_;
  verbs::Engine& engine_;
};

// The exported page: memory behind the first page after the doorbells. Nobody reads it.
class ExportedPage {
 public:
  static Result<std::unique_ptr<ExportedPage>> create(std::uint32_t uar_pages);

  int fd() const { return memory_.get(); }          // borrowed; an offset in BAR 2 is the same offset in it
  std::uint64_t offset() const { return offset_; }  // bytes into BAR 2

 private:
  ExportedPage(Fd memory, std::uint64_t offset) : memory_(std::move(memory)), offset_(offset) {}
  Fd memory_;
  std::uint64_t offset_;
};

}  // namespace pvrdma::device
