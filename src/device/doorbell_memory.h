// DoorbellMemory: the memory behind the part of BAR 2 that a client may map.
//
// In trapped mode it is one page after all doorbell pages, which nobody reads. It exists because a mappable
// area makes QEMU acknowledge every write to this device (reference 8.5). In mapped mode it is that page and
// all doorbell pages except the kernel's, page 0. A guest's doorbell is then a store, which the adapter finds
// when it polls. The daemon maps these pages, too, and only pages of contexts use memory.
//
// The memory cannot be resized. A client that punches holes into it loses only its own doorbells. If the host
// has no memory to fill such a hole, the memory is damaged. Thread: shard-owned.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/fd.h"
#include "base/result.h"
#include "guestmem/host_mapping.h"
#include "verbs/engine.h"
#include "vocabulary/doorbell_mode.h"

namespace pvrdma::device {

class DoorbellMemory {
 public:
  // `earlier` is the same memory of another process, to continue with; empty: there is none. Errors: those of
  // the system calls.
  static Result<std::unique_ptr<DoorbellMemory>> create(std::uint32_t uar_pages, DoorbellMode mode,
                                                        Fd earlier = {});

  int fd() const { return memory_.get(); }  // borrowed; offsets in it are offsets in BAR 2
  // Where the mappable part begins, in bytes from the start of BAR 2.
  std::uint64_t offset() const { return offset_; }
  std::uint64_t bytes() const { return end_ - offset_; }

  // Mapped mode only, for uar_index 1 to uar_pages - 1: the context's page, which the guest may change at any
  // time.
  std::byte* page(verbs::UarIndex uar_index) const;
  // The host had no memory for one of its pages, so its content is now invalid.
  bool damaged() const { return damaged_.load(std::memory_order_relaxed); }
  // Maps the memory again. It stays damaged if that also fails.
  void repair();

 private:
  DoorbellMemory(Fd memory, std::uint64_t offset, std::uint64_t end)
      : memory_(std::move(memory)), offset_(offset), end_(end) {}

  Result<> map();

  const Fd memory_;
  const std::uint64_t offset_;
  const std::uint64_t end_;
  std::atomic<bool> damaged_{false};
  std::unique_ptr<guestmem::HostMapping> mapping_;  // of all the memory; only in mapped mode
};

}  // namespace pvrdma::device
