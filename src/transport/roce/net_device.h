// NetDevice: what the kernel says of a network device, by its name. Thread: a value; not shared.
#pragma once

#include <cstdint>
#include <net/if.h>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace pvrdma::transport::roce {

// A link's trouble.
inline constexpr std::string_view kDeviceOff = "the device is switched off: set it up";

class NetDevice {
 public:
  enum class State : std::uint8_t { kMissing, kOff, kOn };

  // The device need not be there. Error: out of sockets.
  static Result<NetDevice> named(const std::string& name);

  const std::string& name() const { return name_; }
  // By SIOCGIFFLAGS alone.
  State state() const;
  // Of a device that is there. Errors: errno.
  Result<unsigned> index() const;
  Result<std::size_t> mtu_bytes() const;
  // How many queues frames may arrive at; 1 where the driver does not say.
  std::size_t receive_queues() const;

  // For ioctls on the device, with its name.
  ifreq request() const;

 private:
  NetDevice(std::string name, Fd asker) : name_(std::move(name)), asker_(std::move(asker)) {}

  std::string name_;
  Fd asker_;
};

}  // namespace pvrdma::transport::roce
