// Pump: carries a QEMU's migration stream between a socket to QEMU and a channel to the other host, on a
// thread of its own. When one of the two ends, the pump ends the other.
//
// Thread: one thread makes and destroys it.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>

#include "base/byte_channel.h"
#include "base/fd.h"
#include "base/result.h"
#include "vmm/monitor.h"

namespace pvrdma::motion {

class Pump {
 public:
  enum class Direction : std::uint8_t { kToChannel, kToQemu };
  // Gives QEMU its end of the socket, which QEMU then knows as kUri. Errors: those of the monitor;
  // kUnavailable: the system has no thread to give.
  static Result<std::unique_ptr<Pump>> start(vmm::Monitor& monitor, std::unique_ptr<ByteChannel> channel,
                                             Direction direction);
  static constexpr const char* kUri = "fd:pvrdma-motion";
  ~Pump();  // ends the socket and the channel
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;

 private:
  Pump(Fd socket, std::unique_ptr<ByteChannel> channel)
      : socket_(std::move(socket)), channel_(std::move(channel)) {}
  void send();
  void receive();
  void end();

  const Fd socket_;
  const std::unique_ptr<ByteChannel> channel_;
  std::thread thread_;
};

}  // namespace pvrdma::motion
