// Synthesis: turns a record's message into the RoCE frames that NICs would exchange over Ethernet. The
// message is cut into packets of the path's MTU, with the PSNs that the guests know, addresses from the GIDs,
// and the ICRC. Some fields do not exist in the messages and are made up: the peer's Ethernet address, the
// MSN (the message's number) and the PSNs of datagrams, which count up.
//
// Every frame is a complete packet. If a path cut a message within a packet, its parts are joined. A packet
// with missing parts is left out. Thread: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "capture/record.h"
#include "roce/frame.h"
#include "vocabulary/mac.h"
#include "vocabulary/roce_version.h"

namespace pvrdma::capture {

// Called with the kept part of a frame and the frame's full length.
using FrameSink = std::function<void(std::span<const std::byte> kept, std::size_t bytes)>;

class Synthesis {
 public:
  // `mac` and `version` are the adapter's own.
  Synthesis(const Mac& mac, RoceVersion version, std::uint32_t snap_bytes)
      : mac_(mac), version_(version), snap_bytes_(snap_bytes) {}

  // `payload` is what the ring kept. NICs send no progress reports, so a progress report becomes the ACK that
  // it implies.
  void frames_of(const Record& record, std::span<const std::byte> payload, const FrameSink& sink);

 private:
  // The most incomplete packets that a capture keeps.
  static constexpr std::size_t kBegunMax = 4096;

  // Part of a packet's payload: its offset in the message, its length, and its kept bytes.
  struct Part {
    std::uint32_t offset = 0;
    std::uint32_t bytes = 0;
    std::span<const std::byte> kept;
  };
  struct Begun {
    verbs::MessageNumber number;
    std::uint32_t offset = 0;
    std::uint32_t bytes = 0;
    std::vector<std::byte> kept;
  };

  void emit_datagram(const verbs::Datagram& datagram, std::span<const std::byte> payload, roce::Frame& frame,
                     const FrameSink& sink);
  void emit(roce::Frame& frame, std::uint32_t payload_bytes, std::span<const std::byte> kept,
            const FrameSink& sink);
  bool join(const Record& record, Part& part);
  void hold(const Record& record, const Part& part);

  const Mac mac_;
  const RoceVersion version_;
  const std::uint32_t snap_bytes_;
  std::uint32_t datagrams_ = 0;
  std::unordered_map<std::uint64_t, Begun> begun_;  // by QP, direction and kind of message
  std::vector<std::byte> joined_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(roce::kFrameBytesMax);
};

}  // namespace pvrdma::capture
