// PacketSocket: the kernel's side of a network device, for tests. It sees what comes out of the device and
// sends into it. It plays the bridge or the host. Thread: the test's.
#pragma once

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <utility>

#include "base/fd.h"
#include "transport/roce/link_fixture.h"

namespace pvrdma::transport::roce {

class PacketSocket {
 public:
  explicit PacketSocket(const std::string& device)
      : fd_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, ::htons(ETH_P_ALL))) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = ::htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(::if_nametoindex(device.c_str()));
    constexpr int kBytes = 4 << 20;
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kBytes, sizeof(kBytes));
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kBytes, sizeof(kBytes));
    // A device that has just got its carrier has a queue that drops frames until a worker of the kernel
    // replaces it.
    constexpr int kBypass = 1;
    ::setsockopt(fd_.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &kBypass, sizeof(kBypass));
    if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error("no packet socket at " + device);
    }
  }

  // The next frame that has come out of the device; empty: no frame.
  Bytes get() const {
    Bytes frame(10'000);
    const ssize_t got = ::recv(fd_.get(), frame.data(), frame.size(), 0);
    frame.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return frame;
  }
  bool put(const Bytes& frame) const {
    return ::send(fd_.get(), frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size());
  }

 private:
  const Fd fd_;
};

}  // namespace pvrdma::transport::roce
