// XdpSocket: an AF_XDP socket at queue 0 of a network device, with the memory for its frames.
//
// The memory is divided into chunks of 4 KiB. Some chunks are for arriving frames: they go to the kernel
// through the fill ring, come back with a frame through the receive ring, and are returned by done(). Two
// consecutive chunks form a slot for one frame to send: it goes to the kernel through the send ring and comes
// back through the completion ring. A frame longer than a chunk takes several chunks, with one descriptor
// each.
//
// The driver copies the frames or, if it can, uses the memory itself (zero-copy). Thread: shard-owned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <linux/if_xdp.h>
#include <memory>
#include <optional>
#include <span>

#include "base/fd.h"
#include "base/result.h"
#include "transport/roce/xdp_ring.h"

namespace pvrdma::transport::roce {

class XdpSocket {
 public:
  static constexpr std::size_t kChunkBytes = 4096;
  static constexpr std::uint32_t kReceiveChunks = 2048;
  static constexpr std::uint32_t kSlots = 512;

  // Whether a frame may take several chunks, which needs kernel 6.6 or later.
  enum class Frames : std::uint8_t { kOneChunk, kSeveralChunks };

  // May take a second while another socket is bound. Errors: no privileges, too low a limit of locked memory,
  // the kernel's errno.
  static Result<std::unique_ptr<XdpSocket>> open(unsigned device_index, Frames frames);
  ~XdpSocket();
  XdpSocket(const XdpSocket&) = delete;
  XdpSocket& operator=(const XdpSocket&) = delete;

  int fd() const { return fd_.get(); }  // readable when something has arrived
  bool is_zero_copy() const;

  // A part of a frame, borrowed until done().
  struct Arrived {
    std::span<const std::byte> bytes;
    bool more;  // another part of the same frame follows
  };
  std::optional<Arrived> next();
  // Returns the memory of all parts that next() gave.
  void done();

  // A place for a frame of up to two chunks; null: no slot is free. Returns the same slot until send().
  std::byte* slot();
  // Queues the frame in the slot for the next kick().
  void send(std::size_t bytes);
  std::size_t free_slots() const { return free_count_; }
  // Takes back the slots of frames that were sent.
  void reclaim();
  // Makes the kernel send. Returns 0 or an errno. ENETDOWN: the device is off; ENXIO: it was removed.
  int kick();
  // The kernel has not taken everything and needs another kick.
  bool needs_kick() const;

 private:
  static constexpr std::size_t kSlotBytes = 2 * kChunkBytes;
  static constexpr std::size_t kReceiveBytes = kReceiveChunks * kChunkBytes;
  static constexpr std::size_t kMemoryBytes = kReceiveBytes + kSlots * kSlotBytes;
  static constexpr std::uint32_t kSendEntries = 2 * kSlots;
  static constexpr std::size_t kRings = 4;

  struct Mapping {
    void* at = nullptr;
    std::size_t bytes = 0;
  };

  XdpSocket() = default;
  Result<void> set_up(unsigned device_index, Frames frames);
  Result<void> make_rings();
  template <typename Entry>
  Result<XdpRing<Entry>> map_ring(const xdp_ring_offset& offset, std::uint64_t page, std::uint32_t size);

  Fd fd_;
  std::array<Mapping, kRings + 1> mappings_;  // of the memory and of each ring
  std::size_t mapped_ = 0;
  std::byte* memory_ = nullptr;
  XdpRing<std::uint64_t> fill_;
  XdpRing<xdp_desc> receive_;
  XdpRing<xdp_desc> send_;
  XdpRing<std::uint64_t> completion_;
  // The first free_count_ entries are free slots; the last of these is next.
  std::array<std::uint32_t, kSlots> free_;
  std::size_t free_count_ = 0;
  std::array<bool, kSlots> is_long_{};  // whether the slot's frame takes both chunks
};

}  // namespace pvrdma::transport::roce
