// XdpSocket: an AF_XDP socket at queue 0 of a network device, with the memory that frames are in.
//
// The memory is cut into chunks of 4 KiB. Some are for frames that arrive: they go to the kernel through the
// fill ring, come back with a frame through the receive ring and are handed in again by done(). Two in a row
// are a slot, for one frame that leaves: through the send ring, and back through the completion ring. A frame
// that is longer than a chunk takes several of them, one descriptor each.
//
// The driver copies, or works on the memory itself where it can (zero-copy). Thread: shard-owned.
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

  // Whether frames may take several chunks: kernel 6.6 or later.
  enum class Frames : std::uint8_t { kOneChunk, kSeveralChunks };

  // May take a second while another one is there. Errors: no rights, too little memory that may be locked,
  // the kernel's errno.
  static Result<std::unique_ptr<XdpSocket>> open(unsigned device_index, Frames frames);
  ~XdpSocket();
  XdpSocket(const XdpSocket&) = delete;
  XdpSocket& operator=(const XdpSocket&) = delete;

  int fd() const { return fd_.get(); }  // readable: something has arrived
  bool is_zero_copy() const;

  // A part of a frame, borrowed until done().
  struct Arrived {
    std::span<const std::byte> bytes;
    bool more;  // of the same frame follows
  };
  std::optional<Arrived> next();
  // All that next() gave may be overwritten.
  void done();

  // Room for a frame of two chunks; null: none is free now. The same until send().
  std::byte* slot();
  // What the slot holds goes to the kernel at kick().
  void send(std::size_t bytes);
  std::size_t free_slots() const { return free_count_; }
  // Takes back slots whose frames are out.
  void reclaim();
  // Makes the kernel send. 0, or errno where it does not: ENETDOWN: the device is off, ENXIO: it has gone.
  int kick();
  // It has not taken all, and waits for another.
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
  std::array<Mapping, kRings + 1> mappings_;  // of the memory, and of each ring
  std::size_t mapped_ = 0;
  std::byte* memory_ = nullptr;
  XdpRing<std::uint64_t> fill_;
  XdpRing<xdp_desc> receive_;
  XdpRing<xdp_desc> send_;
  XdpRing<std::uint64_t> completion_;
  std::array<std::uint32_t, kSlots> free_;  // the first free_count_: slots, the last one next
  std::size_t free_count_ = 0;
  std::array<bool, kSlots> is_long_{};  // its frame takes both chunks
};

}  // namespace pvrdma::transport::roce
