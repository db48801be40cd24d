#include "transport/roce/net_device.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <utility>

namespace pvrdma::transport::roce {

Result<NetDevice> NetDevice::named(const std::string& name) {
  Fd asker(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!asker) return fail_errno(errno, "cannot make a socket");
  return NetDevice(name, std::move(asker));
}

ifreq NetDevice::request() const {
  ifreq request{};
  name_.copy(request.ifr_name, sizeof(request.ifr_name) - 1);
  return request;
}

NetDevice::State NetDevice::state() const {
  ifreq asked = request();
  if (::ioctl(asker_.get(), SIOCGIFFLAGS, &asked) != 0) return State::kMissing;
  return (asked.ifr_flags & IFF_UP) != 0 ? State::kOn : State::kOff;
}

Result<unsigned> NetDevice::index() const {
  ifreq asked = request();
  if (::ioctl(asker_.get(), SIOCGIFINDEX, &asked) != 0) {
    return fail_errno(errno, fmt::format("cannot find network device {}", name_));
  }
  return static_cast<unsigned>(asked.ifr_ifindex);
}

Result<std::size_t> NetDevice::mtu_bytes() const {
  const auto known = mtu_if_known();
  if (!known) return fail_errno(errno, fmt::format("cannot ask for the MTU of network device {}", name_));
  return *known;
}

std::optional<std::size_t> NetDevice::mtu_if_known() const {
  ifreq asked = request();
  if (::ioctl(asker_.get(), SIOCGIFMTU, &asked) != 0) return std::nullopt;
  return static_cast<std::size_t>(asked.ifr_mtu);
}

std::size_t NetDevice::receive_queues() const {
  ifreq asked = request();
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  asked.ifr_data = reinterpret_cast<char*>(&channels);
  if (::ioctl(asker_.get(), SIOCETHTOOL, &asked) != 0) return 1;
  return std::max<std::size_t>(1, std::size_t{channels.rx_count} + channels.combined_count);
}

}  // namespace pvrdma::transport::roce
