// Pump: carries a QEMU's migration stream between its descriptor and a channel to the other host, on a thread
// of its own, until one of them ends; the other is ended then.
//
// Thread: made and destroyed by one.
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
  // Gives QEMU its end, which is at kUri for it from then on. Errors: the monitor's; EAGAIN: the system has
  // no thread.
  static Result<std::unique_ptr<Pump>> start(vmm::Monitor& monitor, std::unique_ptr<ByteChannel> channel,
                                             Direction direction);
  static constexpr const char* kUri = "fd:pvrdma-motion";
  ~Pump();  // ends both
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
