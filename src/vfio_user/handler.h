// Handler: what a device implements to be served over vfio-user (Server, server.h).
//
// The server decodes and checks every message and calls the handler with values that are well formed in
// themselves: region and irq indices are below the counts, region accesses lie inside the region's size and
// are permitted by its rights, vectors are below irq_count(), DMA ranges are not empty and do not wrap. Calls
// come one at a time and in the order of arrival; the reply to a message goes out after its call returns, so
// a call must not wait for anything outside this process: QEMU holds a vCPU meanwhile and gives up after 5 s
// (docs/device.md 8.9).
//
// A handler must not call back into the Server that calls it, except for dma_read() and dma_write...().
//
// Thread: all calls come from the thread that drives the Server (the shard).
// Source: QEMU docs/interop/vfio-user.rst; docs/device.md section 8.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "base/client_fd.h"

namespace pvrdma::vfio_user {

// A range of the client's DMA address space (guest-physical addresses) and where its memory is.
// Size is not zero; iova, size and fd_offset are multiples of 4096; neither iova + size nor fd_offset + size
// wraps.
struct DmaMapRequest {
  std::uint64_t iova = 0;
  std::uint64_t size = 0;       // bytes
  std::uint64_t fd_offset = 0;  // bytes into the fd; 0 when no fd came
  bool readable = false;        // the device may read
  bool writable = false;        // the device may write
};

// A part of a region which the client may map, relative to the region's start.
struct MmapArea {
  std::uint64_t offset = 0;  // bytes, page-aligned
  std::uint64_t size = 0;    // bytes, page-aligned

  friend bool operator==(const MmapArea&, const MmapArea&) = default;
};

// A region as the client sees it. Size 0 = absent. A region with mmap_areas is advertised as mappable, with
// exactly these areas and `fd`; area A is found at fd_offset + A.offset of the fd.
struct RegionInfo {
  std::uint64_t size = 0;  // bytes
  bool readable = false;
  bool writable = false;
  bool writes_need_replies = false;  // the guest counts on their effects: the log blames a client that posts
  std::vector<MmapArea> mmap_areas;  // at most kMaxMmapAreas (protocol.h)
  int fd = -1;                       // borrowed from the handler while a client is connected; -1 = none
  std::uint64_t fd_offset = 0;       // bytes
};

// Numbers of the protocol. RUNNING and ERROR are always supported, STOP, STOP_COPY and RESUMING with
// kMigrationStopCopy, PRE_COPY with kMigrationPreCopy.
enum class MigrationState : std::uint32_t {
  kError = 0,
  kStop = 1,
  kRunning = 2,
  kStopCopy = 3,
  kResuming = 4,
  kPreCopy = 6,
};
inline constexpr std::uint64_t kMigrationStopCopy = 1;
inline constexpr std::uint64_t kMigrationPreCopy = 4;

// How an arc between two states ended: with an error the device is where it was, or it is lost, and nothing
// but a reset helps.
struct StateChange {
  int error = 0;  // errno
  bool device_is_lost = false;
};

// Of DMA addresses; not empty, whole pages, without wrap.
struct LogRange {
  std::uint64_t iova = 0;
  std::uint64_t length = 0;  // bytes

  friend bool operator==(const LogRange&, const LogRange&) = default;
};

// Results of type int are errno values that go to the client in the reply; 0 = done. With a `posted` message
// (the client set the no-reply flag) nobody learns the result, and the handler decides what a failure means.
class Handler {
 public:
  virtual ~Handler() = default;

  // How many regions and irq indices exist. Constant, at most 100 and 50 (QEMU refuses more); VFIO's PCI
  // layout has 9 regions (0-5 BARs, 6 ROM, 7 config space, 8 VGA) and 5 irq indices (0 INTx, 1 MSI, 2 MSI-X,
  // 3 ERR, 4 REQ).
  virtual std::uint32_t region_count() const = 0;
  virtual std::uint32_t irq_index_count() const = 0;

  // Constant while a client is connected: the server asks once per session and checks accesses against the
  // answer.
  virtual RegionInfo region_info(std::uint32_t region) const = 0;

  // Number of vectors of irq index `index`; 0 = none.
  virtual std::uint32_t irq_count(std::uint32_t index) const = 0;

  // Fills all of `out` (1 byte .. 1 MiB) from `offset` bytes into the region.
  virtual int region_read(std::uint32_t region, std::uint64_t offset, std::span<std::byte> out) = 0;

  // `data` (1 byte .. 1 MiB) is valid during the call only.
  virtual int region_write(std::uint32_t region, std::uint64_t offset, std::span<const std::byte> data,
                           bool posted) = 0;

  // The vector's interrupt is raised by adding 1 to `eventfd`, which replaces an earlier one. An empty one
  // unassigns the vector. Whether it is an eventfd is the handler's to find out.
  virtual int set_irq_eventfd(std::uint32_t index, std::uint32_t vector, ClientFd eventfd) = 0;

  // Unassigns all vectors of `index`.
  virtual int disable_irqs(std::uint32_t index) = 0;

  // An empty `fd` means "not RAM" (flash, option ROM, another device's BAR): remember the range, map nothing.
  // Overlap with an existing range: EEXIST. The fd is not needed after mmap.
  virtual int dma_map(const DmaMapRequest& request, ClientFd fd) = 0;

  // The range is exactly one that was mapped, otherwise ENOENT. When this returns, nothing touches its memory
  // any more.
  virtual int dma_unmap(std::uint64_t iova, std::uint64_t size) = 0;
  virtual void dma_unmap_all() = 0;

  // Back to power-on. DMA ranges stay (the client manages them separately); so do the eventfds.
  virtual void reset() = 0;

  // Migration. kMigrationStopCopy, perhaps with kMigrationPreCopy; constant. 0: not supported, and the three
  // calls below do not come.
  virtual std::uint64_t migration_flags() const { return 0; }

  // One arc: `next` is where the protocol has an arc to from the state of the last call that succeeded
  // (kRunning at first, and after a reset). It is complete when this returns.
  virtual StateChange set_migration_state(MigrationState) { return {EOPNOTSUPP}; }

  // In kPreCopy and kStopCopy: the next bytes of the device's state, at most `out` (1 byte .. 1 MiB); fewer:
  // there are no more now. Or an errno.
  virtual tl::expected<std::size_t, int> migration_read(std::span<std::byte>) {
    return tl::unexpected(EOPNOTSUPP);
  }

  // In kResuming: the next bytes (1 .. 1 MiB) of what was read at the source, valid during the call only.
  virtual int migration_write(std::span<const std::byte>) { return EOPNOTSUPP; }

  // The log of pages that the device writes. False: not supported, and the three calls below do not come.
  virtual bool can_log_writes() const { return false; }

  // Not while a log is on. `page_size`: what the client would like, a power of two and at least 4096; becomes
  // what the log has. `ranges`: at most 256, what is to be logged; empty: all.
  virtual int log_start(std::uint64_t& /*page_size*/, std::span<const LogRange>) { return EOPNOTSUPP; }
  virtual int log_stop() { return EOPNOTSUPP; }

  // While a log is on: sets the bit (0 at first, the lowest of each byte first) of each page of `page_size`
  // bytes of `range` that was written, and forgets it. `bitmap` is zero, at most 1 MiB, whole words of 8
  // bytes.
  virtual int log_report(const LogRange&, std::uint64_t /*page_size*/, std::span<std::byte> /*bitmap*/) {
    return EOPNOTSUPP;
  }

  // A client has agreed on the version; its messages follow.
  virtual void connected() = 0;

  // The client of the last connected() is gone: drop DMA ranges, eventfds, the log and state. Not called for
  // a client that never got as far as connected(). `reason` is a sentence for the log, valid during the call.
  virtual void disconnected(std::string_view reason) = 0;
};

}  // namespace pvrdma::vfio_user
