// NetDevice: what the kernel knows about a network device, by its name. Thread: a value; not shared.
#pragma once

#include <cstdint>
#include <net/if.h>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace pvrdma::transport::roce {

// The trouble of a link whose device is down.
inline constexpr std::string_view kDeviceOff = "the device is switched off: switch it on";

class NetDevice {
 public:
  enum class State : std::uint8_t { kMissing, kOff, kOn };

  // The device need not exist. Error: no socket is available.
  static Result<NetDevice> named(const std::string& name);

  const std::string& name() const { return name_; }
  // Uses SIOCGIFFLAGS only.
  State state() const;
  // The device must exist. Errors: errno.
  Result<unsigned> index() const;
  Result<std::size_t> mtu_bytes() const;
  // Like mtu_bytes(), for a device that may be missing. Does not allocate; uses SIOCGIFMTU only.
  std::optional<std::size_t> mtu_if_known() const;
  // The number of receive queues; 1 if the driver does not say.
  std::size_t receive_queues() const;

  // A request with the device's name, for ioctls.
  ifreq request() const;

 private:
  NetDevice(std::string name, Fd asker) : name_(std::move(name)), asker_(std::move(asker)) {}

  std::string name_;
  Fd asker_;
};

}  // namespace pvrdma::transport::roce
