// DoorbellMemory: the memory behind the part of BAR 2 that a client may map.
//
// Trapped: the page behind all doorbell pages, which nobody reads. It is there because a mappable area makes
// QEMU acknowledge every write of this device (reference 8.5). Mapped: that page and all doorbell pages but
// the kernel's, page 0, so that a guest's doorbell is a store, which the adapter finds when it looks. Then
// the daemon has mapped the pages too; only those of contexts take memory.
//
// The memory cannot be resized. A client that punches holes into it loses its own doorbells; one for which
// the host has no memory any more damages it. Thread: shard-owned.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/doorbell_mode.h"
#include "base/fd.h"
#include "base/result.h"
#include "guestmem/host_mapping.h"
#include "verbs/engine.h"

namespace pvrdma::device {

class DoorbellMemory {
 public:
  // Errors: what the system calls said.
  // `earlier`: that of another process, made for the same, to go on with; empty: none.
  static Result<std::unique_ptr<DoorbellMemory>> create(std::uint32_t uar_pages, DoorbellMode mode,
                                                        Fd earlier = {});

  int fd() const { return memory_.get(); }          // borrowed; an offset in BAR 2 is the same offset in it
  std::uint64_t offset() const { return offset_; }  // of what may be mapped, bytes into BAR 2
  std::uint64_t bytes() const { return end_ - offset_; }

  // Mapped mode, uar_index 1 to uar_pages - 1: its page, which the guest changes at any time.
  std::byte* page(verbs::UarIndex uar_index) const;
  // A page of it could not be had: its content means nothing from then on.
  bool damaged() const { return damaged_.load(std::memory_order_relaxed); }
  // Maps it anew; it stays damaged when that fails, too.
  void repair();

 private:
  DoorbellMemory(Fd memory, std::uint64_t offset, std::uint64_t end)
      : memory_(std::move(memory)), offset_(offset), end_(end) {}

  Result<> map();

  const Fd memory_;
  const std::uint64_t offset_;
  const std::uint64_t end_;
  std::atomic<bool> damaged_{false};
  std::unique_ptr<guestmem::HostMapping> mapping_;  // of all of it; mapped mode
};

}  // namespace pvrdma::device
