// RawPeer: the client's end of a socket, for tests that send what a correct client would not. Calls block for
// 5 s at most.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <span>
#include <string_view>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/fd.h"
#include "vfio_user/protocol.h"

namespace pvrdma::vfio_user {

using Bytes = std::vector<std::byte>;

inline constexpr std::uint32_t kErrorReply = kFlagTypeReply | kFlagError;

// The bytes of several structs, one after the other.
template <typename... Wire>
Bytes bytes_of(const Wire&... parts) {
  Bytes bytes((sizeof(Wire) + ... + 0));
  [[maybe_unused]] std::size_t at = 0;
  ((write(bytes, at, parts), at += sizeof(Wire)), ...);
  return bytes;
}

inline Bytes message(std::uint16_t id, Command command, const Bytes& payload = {}, std::uint32_t flags = 0) {
  Bytes bytes(kHeaderBytes + payload.size());
  write(bytes, 0, wire::Header{id, command, static_cast<std::uint32_t>(bytes.size()), flags, 0});
  std::copy(payload.begin(), payload.end(), bytes.begin() + kHeaderBytes);
  return bytes;
}

inline Bytes version_payload(std::string_view json, wire::Version version = {}) {
  Bytes bytes = bytes_of(version);
  for (const char c : json) bytes.push_back(static_cast<std::byte>(c));
  bytes.push_back(std::byte{0});
  return bytes;
}

// The VERSION message that QEMU 11.1 sends (docs/device.md 8.2).
inline Bytes qemu_version() {
  return message(
      0, Command::kVersion,
      version_payload(R"({"capabilities": {"max_dma_maps": 65535, "max_msg_fds": 16, )"
                      R"("max_data_xfer_size": 1048576, "migration": {"max_bitmap_size": 268435456, )"
                      R"("pgsize": 4096}, "pgsizes": 4096, "write_multiple": true}})"));
}

struct RawReply {
  wire::Header header;
  Bytes payload;
  std::vector<Fd> fds;
};

class RawPeer {
 public:
  static constexpr std::size_t kFdsMax = 256;
  explicit RawPeer(Fd socket) : socket_(std::move(socket)) {
    const timeval limit{5, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  }

  int fd() const { return socket_.get(); }
  void close() { socket_.reset(); }

  // False if the other side has closed the socket.
  bool send(std::span<const std::byte> bytes, const std::vector<int>& fds = {}) {
    iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr head{};
    head.msg_iov = &part;
    head.msg_iovlen = 1;
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kFdsMax * sizeof(int))> control{};
    PVRDMA_CHECK(fds.size() <= kFdsMax, "a test sends no more descriptors at once");
    if (!fds.empty()) {
      head.msg_control = control.data();
      head.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* rights = CMSG_FIRSTHDR(&head);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
    }
    return ::sendmsg(socket_.get(), &head, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }

  // The next reply; nothing at the end of the stream.
  std::optional<RawReply> receive() {
    RawReply reply;
    Bytes head(kHeaderBytes);
    if (!fill(head, reply.fds)) return std::nullopt;
    reply.header = read<wire::Header>(head);
    reply.payload.resize(reply.header.size_bytes - kHeaderBytes);
    if (!fill(reply.payload, reply.fds)) return std::nullopt;
    return reply;
  }

  bool nothing_to_receive() const {
    std::byte byte;
    return ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }

  bool at_end() const {
    std::byte byte;
    const ssize_t got = ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }

 private:
  bool fill(std::span<std::byte> bytes, std::vector<Fd>& fds) {
    while (!bytes.empty()) {
      iovec part{bytes.data(), bytes.size()};
      alignas(cmsghdr) std::byte control[CMSG_SPACE(8 * sizeof(int))];
      msghdr head{};
      head.msg_iov = &part;
      head.msg_iovlen = 1;
      head.msg_control = control;
      head.msg_controllen = sizeof(control);
      const ssize_t got = ::recvmsg(socket_.get(), &head, MSG_CMSG_CLOEXEC);
      if (got <= 0) return false;
      for (cmsghdr* c = CMSG_FIRSTHDR(&head); c != nullptr; c = CMSG_NXTHDR(&head, c)) {
        for (std::size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
          int raw = -1;
          std::memcpy(&raw, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
          fds.emplace_back(raw);
        }
      }
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
    return true;
  }

  Fd socket_;
};

// The two ends of a stream. `ours` does not block.
struct SocketPair {
  Fd ours;
  Fd theirs;

  SocketPair() {
    int fds[2];
    PVRDMA_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
    ours = Fd(fds[0]);
    theirs = Fd(fds[1]);
    PVRDMA_CHECK(::fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0, "O_NONBLOCK");
  }
};

}  // namespace pvrdma::vfio_user
