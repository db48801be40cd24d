// Handler: what a device implements to be served over vfio-user (Server, server.h).
//
// The server decodes and checks every message, and calls the handler only with valid values: region and irq
// indices are below the counts, region accesses lie inside the region and are permitted by its rights,
// vectors are below irq_count(), and DMA ranges are not empty and do not wrap. Calls come one at a time, in
// the order of the messages. The server sends a reply after the call returns, so a call must not wait for
// anything outside this process: QEMU blocks a vCPU meanwhile and gives up after 5 s (docs/device.md 8.9).
//
// A handler must not call back into the Server that calls it, except for dma_read() and dma_write...().
//
// Thread: all calls come from the thread that drives the Server (the shard). Source: QEMU
// docs/interop/vfio-user.rst; docs/device.md section 8.
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

// A range of the client's DMA address space (guest-physical addresses) and where its memory is. `size` is not
// zero; iova, size and fd_offset are multiples of 4096; neither iova + size nor fd_offset + size wraps.
struct DmaMapRequest {
  std::uint64_t iova = 0;
  std::uint64_t size = 0;       // bytes
  std::uint64_t fd_offset = 0;  // bytes into the fd; 0 without an fd
  bool readable = false;        // the device may read
  bool writable = false;        // the device may write
};

// A part of a region that the client may map, relative to the region's start.
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
  bool writes_need_replies =
      false;  // the guest relies on the writes' effects; the log names a client that posts them
  std::vector<MmapArea> mmap_areas;  // at most kMaxMmapAreas (protocol.h)
  int fd = -1;                       // borrowed from the handler while a client is connected; -1 = none
  std::uint64_t fd_offset = 0;       // bytes
};

// Values of the protocol. RUNNING and ERROR are always supported. kMigrationStopCopy adds STOP, STOP_COPY and
// RESUMING; kMigrationPreCopy adds PRE_COPY.
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

// The result of one arc between two states. After an error the device is in its old state, unless it is lost:
// then only a reset helps.
struct StateChange {
  int error = 0;  // errno
  bool device_is_lost = false;
};

// A range of DMA addresses: not empty, whole pages, does not wrap.
struct LogRange {
  std::uint64_t iova = 0;
  std::uint64_t length = 0;  // bytes

  friend bool operator==(const LogRange&, const LogRange&) = default;
};

// Results of type int are errno values for the reply; 0 means success. A `posted` message has the no-reply
// flag, so the client does not learn the result. The handler decides what a failure of such a message means.
class Handler {
 public:
  virtual ~Handler() = default;

  // The number of regions and irq indices: constant, at most 100 and 50 (QEMU refuses more). VFIO's PCI
  // layout has 9 regions (0-5 BARs, 6 ROM, 7 config space, 8 VGA) and 5 irq indices (0 INTx, 1 MSI, 2 MSI-X,
  // 3 ERR, 4 REQ).
  virtual std::uint32_t region_count() const = 0;
  virtual std::uint32_t irq_index_count() const = 0;

  // Constant while a client is connected. The server asks once per session and checks accesses against the
  // answer.
  virtual RegionInfo region_info(std::uint32_t region) const = 0;

  // The number of vectors of irq index `index`; 0 means that it has no interrupts.
  virtual std::uint32_t irq_count(std::uint32_t index) const = 0;

  // Fills all of `out` (1 byte .. 1 MiB) from `offset` bytes into the region.
  virtual int region_read(std::uint32_t region, std::uint64_t offset, std::span<std::byte> out) = 0;

  // `data` (1 byte .. 1 MiB) is valid during the call only.
  virtual int region_write(std::uint32_t region, std::uint64_t offset, std::span<const std::byte> data,
                           bool posted) = 0;

  // From now on the device raises the vector's interrupt by adding 1 to `eventfd`, which replaces an earlier
  // one. An empty `eventfd` unassigns the vector. The handler has to check that the descriptor is an eventfd.
  virtual int set_irq_eventfd(std::uint32_t index, std::uint32_t vector, ClientFd eventfd) = 0;

  // Unassigns all vectors of `index`.
  virtual int disable_irqs(std::uint32_t index) = 0;

  // An empty `fd` means that the range is not RAM (flash, option ROM, another device's BAR): the handler
  // remembers the range and maps nothing. Overlap with an existing range: EEXIST. The handler does not need
  // the fd after mmap().
  virtual int dma_map(const DmaMapRequest& request, ClientFd fd) = 0;

  // The range must be exactly one that was mapped, otherwise ENOENT. When this returns, the device no longer
  // accesses the range's memory.
  virtual int dma_unmap(std::uint64_t iova, std::uint64_t size) = 0;
  virtual void dma_unmap_all() = 0;

  // Returns the device to its power-on state. DMA ranges and eventfds stay: the client manages them
  // separately.
  virtual void reset() = 0;

  // Constant: kMigrationStopCopy, perhaps with kMigrationPreCopy. 0 means that the device cannot migrate;
  // then the server does not call the next three functions.
  virtual std::uint64_t migration_flags() const { return 0; }

  // Takes one arc. The protocol has an arc to `next` from the state of the last successful call (kRunning
  // initially and after a reset). The arc is complete when this returns.
  virtual StateChange set_migration_state(MigrationState) { return {EOPNOTSUPP}; }

  // Reads the next bytes of the device's state in kPreCopy and kStopCopy, up to the size of `out` (1 byte ..
  // 1 MiB). Fewer bytes mean that there are no more now. An error is an errno.
  virtual tl::expected<std::size_t, int> migration_read(std::span<std::byte>) {
    return tl::unexpected(EOPNOTSUPP);
  }

  // Takes, in kResuming, the next bytes (1 byte .. 1 MiB) that were read at the source; valid during the call
  // only.
  virtual int migration_write(std::span<const std::byte>) { return EOPNOTSUPP; }

  // Whether the device can log the pages that it writes. If not, the server does not call the next three
  // functions.
  virtual bool can_log_writes() const { return false; }

  // Called only while no log is running. `page_size` is the client's wish, a power of two and at least 4096;
  // the handler replaces it by the log's page size. `ranges` (at most 256) says what to log; empty means all
  // memory.
  virtual int log_start(std::uint64_t& /*page_size*/, std::span<const LogRange>) { return EOPNOTSUPP; }
  virtual int log_stop() { return EOPNOTSUPP; }

  // Called while a log is running. Sets the bit of each page of `page_size` bytes in `range` that was
  // written, and clears the page's mark in the log. `bitmap` is zero on entry, at most 1 MiB and a multiple
  // of 8 bytes. Within a byte, the lowest bit is the first page.
  virtual int log_report(const LogRange&, std::uint64_t /*page_size*/, std::span<std::byte> /*bitmap*/) {
    return EOPNOTSUPP;
  }

  // Whether the handler still does what an earlier message asked for. Until that is done, the server executes
  // no further message of the client.
  virtual bool is_busy() const { return false; }

  // A client has agreed on the version. Its messages follow.
  virtual void connected() = 0;

  // The client of the last connected() is gone: the handler drops DMA ranges, eventfds, the log and its
  // state. Not called for a client that did not get as far as connected(). `reason` is a sentence for the
  // log, valid during the call.
  virtual void disconnected(std::string_view reason) = 0;
};

}  // namespace pvrdma::vfio_user
