// XdpProgram: a program of the kernel's at a network device, which hands the RoCE frames that arrive there to
// an AF_XDP socket and leaves all others to the kernel: IPv4 (without options) and IPv6 to UDP port 4791, and
// v1; each with or without an 802.1Q tag.
//
// It is at the device for as long as this lives; when the process ends, the kernel takes it away.
// Thread: a value; not shared.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace pvrdma::transport::roce {

class XdpProgram {
 public:
  // Where it runs: in the driver, or, where that has no such place, in the kernel's own part of receiving.
  enum class Mode : std::uint8_t { kDriver, kGeneric };
  // Whether it is for frames that take several buffers: kernel 6.6 or later.
  enum class Frames : std::uint8_t { kOneBuffer, kSeveralBuffers };

  // `socket` is bound to queue 0 of the device. Errors: no rights (EPERM), another program is there (EBUSY),
  // the kernel's errno.
  static Result<XdpProgram> attach(unsigned device_index, int socket, Frames frames);

  Mode mode() const { return mode_; }

 private:
  XdpProgram(Fd map, Fd at, Mode mode) : map_(std::move(map)), at_(std::move(at)), mode_(mode) {}

  Fd map_;  // from queues to sockets
  Fd at_;   // its place at the device
  Mode mode_;
};

}  // namespace pvrdma::transport::roce
