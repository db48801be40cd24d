// XdpProgram: an XDP program at a network device. It redirects arriving RoCE frames to an AF_XDP socket and
// passes all others to the kernel. RoCE frames are IPv4 (without options) or IPv6 to UDP port 4791, and RoCE
// v1, each with or without an 802.1Q tag.
//
// The program stays attached while this object exists. When the process ends, the kernel detaches it. Thread:
// a value; not shared.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace pvrdma::transport::roce {

class XdpProgram {
 public:
  // Where it runs: in the driver or, if the driver does not support XDP, in the kernel's generic receive
  // path.
  enum class Mode : std::uint8_t { kDriver, kGeneric };
  // Whether it accepts frames in several buffers, which needs kernel 6.6 or later.
  enum class Frames : std::uint8_t { kOneBuffer, kSeveralBuffers };

  // `socket` is bound to queue 0 of the device. Errors: no privileges (EPERM), another program is attached
  // (EBUSY), the kernel's errno.
  static Result<XdpProgram> attach(unsigned device_index, int socket, Frames frames);

  Mode mode() const { return mode_; }

 private:
  XdpProgram(Fd map, Fd at, Mode mode) : map_(std::move(map)), at_(std::move(at)), mode_(mode) {}

  Fd map_;  // maps queues to sockets
  Fd at_;   // the program's attachment to the device
  Mode mode_;
};

}  // namespace pvrdma::transport::roce
