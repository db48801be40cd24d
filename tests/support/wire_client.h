// WireClient: a program as its stand-in sees it: the other end of preload/wire.h. It can also break every
// rule.
//
// Thread: one; each call blocks until the answer has come, at most ten seconds.
#pragma once

#include <array>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_cm.h>
#include <rdma/vmw_pvrdma-abi.h>
#include <span>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "base/fd.h"
#include "base/passed_descriptors.h"
#include "base/unix_listener.h"
#include "preload/wire.h"
#include "support/must.h"

namespace pvrdma::test {

class WireClient {
 public:
  static constexpr std::uint64_t kResponseAddress = 0x1000;  // opaque to the stand-in

  struct Reply {
    bool ended = false;  // the stand-in closed the connection instead
    pvrdma_wire_answer header{};
    std::vector<std::byte> response;
    std::vector<Fd> fds;

    template <typename T>
    T as(std::size_t offset = 0) const {
      T value{};
      if (offset < response.size())
        std::memcpy(static_cast<void*>(&value), response.data() + offset,
                    std::min(sizeof(T), response.size() - offset));
      return value;
    }
  };

  explicit WireClient(const std::string& folder)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    const auto address = must(unix_address("stand-in", folder + "/" + PVRDMA_WIRE_SOCKET_NAME));
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
      throw std::runtime_error("no stand-in at " + folder);
  }

  int fd() const { return socket_.get(); }
  void disconnect() { socket_.reset(); }

  // One datagram as it is, with a descriptor (borrowed; -1: none).
  Reply raw(std::span<const std::byte> datagram, int fd = -1) const {
    iovec part{const_cast<std::byte*>(datagram.data()), datagram.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    DescriptorRoom<1> room;
    if (fd >= 0) room.send_with(message, {&fd, 1});
    if (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) < 0) return {.ended = true};
    return receive();
  }

  Reply call(pvrdma_wire_request request, std::span<const std::byte> command = {},
             std::span<const pvrdma_wire_run> runs = {}, int fd = -1) const {
    request.command_bytes = static_cast<std::uint32_t>(command.size());
    request.run_count = static_cast<std::uint32_t>(runs.size());
    std::vector<std::byte> datagram(sizeof(request) + (command.size() + 7) / 8 * 8 + runs.size_bytes());
    std::memcpy(datagram.data(), &request, sizeof(request));
    if (!command.empty()) std::memcpy(datagram.data() + sizeof(request), command.data(), command.size());
    if (!runs.empty())
      std::memcpy(datagram.data() + datagram.size() - runs.size_bytes(), runs.data(), runs.size_bytes());
    return raw(datagram, fd);
  }

  Reply open_cm_descriptor() const { return call({.type = PVRDMA_WIRE_OPEN_CM_FILE}); }
  std::uint32_t open_cm_file() const { return open_cm_descriptor().header.file; }
  // An rdma_cm command.
  template <typename T>
  Reply cm_command(std::uint32_t file, std::uint32_t number, const T& body) const {
    std::vector<std::byte> bytes(sizeof(rdma_ucm_cmd_hdr));
    append(bytes, body);
    const rdma_ucm_cmd_hdr header{.cmd = number, .in = sizeof(T), .out = PVRDMA_WIRE_MAX_RESPONSE_BYTES};
    std::memcpy(bytes.data(), &header, sizeof(header));
    return call({.type = PVRDMA_WIRE_CM_COMMAND, .file = file}, bytes);
  }

  Reply hello(std::uint64_t version = PVRDMA_WIRE_VERSION) const {
    return call({.type = PVRDMA_WIRE_HELLO, .value0 = PVRDMA_WIRE_MAGIC, .value1 = version});
  }
  std::uint32_t open_file() const { return call({.type = PVRDMA_WIRE_OPEN_FILE}).header.file; }
  Reply close_file(std::uint32_t file) const { return call({.type = PVRDMA_WIRE_CLOSE_FILE, .file = file}); }
  Reply add_window(int fd, std::uint64_t offset, std::uint64_t bytes) const {
    return call({.type = PVRDMA_WIRE_ADD_WINDOW, .value0 = offset, .value1 = bytes}, {}, {}, fd);
  }
  Reply doorbell(std::uint32_t file, std::uint64_t offset, std::uint64_t value) const {
    return call({.type = PVRDMA_WIRE_DOORBELL, .file = file, .value0 = offset, .value1 = value});
  }

  // A plain uverbs command: its struct, then the provider's.
  template <typename Core, typename... Provider>
  Reply command(std::uint32_t file, std::uint32_t number, const Core& core,
                std::span<const pvrdma_wire_run> runs = {}, const Provider&... provider) const {
    std::vector<std::byte> bytes(sizeof(ib_uverbs_cmd_hdr));
    append(bytes, core);
    (append(bytes, provider), ...);
    const ib_uverbs_cmd_hdr header{.command = number,
                                   .in_words = static_cast<std::uint16_t>(bytes.size() / 4),
                                   .out_words = PVRDMA_WIRE_MAX_RESPONSE_BYTES / 4};
    std::memcpy(bytes.data(), &header, sizeof(header));
    return call({.type = PVRDMA_WIRE_COMMAND, .file = file}, bytes, runs);
  }

 private:
  template <typename T>
  static void append(std::vector<std::byte>& bytes, const T& part) {
    const auto view = std::as_bytes(std::span(&part, 1));
    bytes.insert(bytes.end(), view.begin(), view.end());
  }

  Reply receive() const {
    pollfd waiting{socket_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, 10'000) != 1) throw std::runtime_error("the stand-in does not answer");
    Reply reply;
    reply.response.resize(PVRDMA_WIRE_MAX_RESPONSE_BYTES);
    std::array<iovec, 2> parts{iovec{&reply.header, sizeof(reply.header)},
                               iovec{reply.response.data(), reply.response.size()}};
    DescriptorRoom<PVRDMA_WIRE_MAX_FDS> room;
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    room.receive_with(message);
    const ssize_t bytes = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    if (bytes <= 0) return {.ended = true};
    reply.response.resize(static_cast<std::size_t>(bytes) - sizeof(reply.header));
    take_descriptors(message, [&](int fd) { reply.fds.emplace_back(fd); });
    return reply;
  }

  Fd socket_;
};

// A program's memory file, mapped; its pages are taken from the front.
class ProgramMemory {
 public:
  explicit ProgramMemory(std::size_t bytes, unsigned seals = F_SEAL_SHRINK)
      : bytes_(bytes), fd_(::memfd_create("program", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    if (::ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0) throw std::runtime_error("no memory");
    if (seals != 0 && ::fcntl(fd_.get(), F_ADD_SEALS, seals) != 0) throw std::runtime_error("no seals");
    data_ = static_cast<std::byte*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0));
  }
  ~ProgramMemory() { ::munmap(data_, bytes_); }
  ProgramMemory(const ProgramMemory&) = delete;
  ProgramMemory& operator=(const ProgramMemory&) = delete;

  int fd() const { return fd_.get(); }
  std::size_t size() const { return bytes_; }

  struct Piece {
    std::byte* data;
    std::uint32_t bytes;
    pvrdma_wire_run run;

    std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(data); }
  };
  Piece take(std::uint32_t pages) {
    const std::uint64_t offset = taken_;
    taken_ += pages * std::uint64_t{PVRDMA_WIRE_PAGE_BYTES};
    return {data_ + offset, pages * PVRDMA_WIRE_PAGE_BYTES, {.offset = offset, .pages = pages, .window = 0}};
  }

 private:
  std::size_t bytes_;
  Fd fd_;
  std::byte* data_ = nullptr;
  std::uint64_t taken_ = 0;
};

}  // namespace pvrdma::test
