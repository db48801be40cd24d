// Descriptors that travel with a message on a UNIX socket (SCM_RIGHTS). Thread: values.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <sys/socket.h>

namespace pvrdma {

// Room beside a message for at most `kMost` descriptors.
template <std::size_t kMost>
struct DescriptorRoom {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMost * sizeof(int))> bytes{};

  // Lets a message that is received bring descriptors.
  void receive_with(msghdr& message) {
    message.msg_control = bytes.data();
    message.msg_controllen = bytes.size();
  }

  // Lets a message that is sent bring `fds`, kMost at most. The room is used until it is sent.
  void send_with(msghdr& message, std::span<const int> fds) {
    if (fds.empty()) return;
    message.msg_control = bytes.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(head), fds.data(), fds.size_bytes());
  }
};

// Calls take(fd) for each descriptor that a received message has brought. `take` owns it.
template <typename Take>
void take_descriptors(msghdr& message, Take take) {
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr; each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(each) + i * sizeof(int), sizeof(fd));
      take(fd);
    }
  }
}

}  // namespace pvrdma
