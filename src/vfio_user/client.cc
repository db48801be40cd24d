#include "vfio_user/client.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include "base/unix_listener.h"

namespace pvrdma::vfio_user {
namespace {

// Sets the time limit for connect, send and receive of this blocking socket.
bool set_timeout(const Fd& socket, Duration timeout) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(timeout).count();
  const timeval value{us / 1'000'000, us % 1'000'000};
  return ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &value, sizeof(value)) == 0 &&
         ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &value, sizeof(value)) == 0;
}

// Whether input arrives before `timeout` is over. A thread that sleeps in recvmsg() instead would also be
// woken when the server takes the request, and the server's thread would pay for it.
bool comes(int socket, Duration timeout) {
  pollfd waiting{.fd = socket, .events = POLLIN, .revents = 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  return ::poll(&waiting, 1, static_cast<int>(ms)) != 0;  // when interrupted, the receive waits
}

bool is_request(const wire::Header& header) {
  return (header.flags & kFlagTypeMask) == kFlagTypeCommand &&
         (header.command == Command::kDmaRead || header.command == Command::kDmaWrite);
}

}  // namespace

Result<std::unique_ptr<Client>> Client::connect(const std::string& path, Duration reply_timeout) {
  PVRDMA_CHECK(reply_timeout >= std::chrono::milliseconds(1),
               "a reply timeout of nothing would mean for ever");
  const auto address = unix_address("vfio-user socket", path);
  if (!address) return Failure(address.error());
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket || !set_timeout(socket, reply_timeout)) return fail_errno(errno, "vfio-user socket " + path);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
    const int code = errno;
    return fail(code,
                fmt::format("vfio-user socket {}: no server to connect to ({}): start it or correct the path",
                            path, std::generic_category().message(code)));
  }
  std::unique_ptr<Client> client(new Client(std::move(socket), reply_timeout, path));
  const auto agreed = client->negotiate();
  if (agreed) return client;
  const int code = agreed.error().code;
  // A server that takes no client closes the connection at once.
  if (code == EPIPE || code == ECONNRESET) {
    return fail(code, fmt::format("vfio-user socket {}: the device takes no client now: a VM or another "
                                  "program has it, or the daemon's log says why",
                                  path));
  }
  return Failure(agreed.error());
}

Client::Client(Fd socket, Duration reply_timeout, const std::string& path)
    : path_(path), reply_timeout_(reply_timeout), socket_(std::in_place, std::move(socket)) {}

Result<void> Client::negotiate() {
  const auto reply = call(Command::kVersion, write_version(request_payload(), kOwnCapabilities));
  if (!reply) return Failure(reply.error());
  const auto version = decode_version(reply->payload);
  if (!version) return give_up(Command::kVersion, EPROTO, "the reply is malformed");
  if (version->major != kVersionMajor || version->minor > kVersionMinor) {
    return give_up(Command::kVersion, EPROTO,
                   fmt::format("the server chose version {}.{}", version->major, version->minor));
  }
  max_transfer_bytes_ = std::min(max_transfer_bytes_, version->capabilities.max_data_xfer_size);
  return {};
}

Result<DeviceInfo> Client::device_info() {
  const auto info = call_for(Command::kGetInfo, wire::DeviceInfo{});
  if (!info) return Failure(info.error());
  return DeviceInfo{info->region_count, info->irq_index_count, (info->flags & wire::kDeviceReset) != 0};
}

Result<ClientRegion> Client::region_info(std::uint32_t region) {
  std::uint32_t argsz = sizeof(wire::RegionInfo);
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (auto usable = ready(); !usable) return Failure(std::move(usable).error());
    write(request_payload(), 0, wire::RegionInfo{.argsz = argsz, .index = region});
    auto reply = call(Command::kGetRegionInfo, sizeof(wire::RegionInfo));
    if (!reply) return Failure(std::move(reply).error());
    auto decoded = decode_region_info_reply(reply->payload);
    if (!decoded || reply->payload.size() > argsz) {
      return give_up(Command::kGetRegionInfo, EPROTO, "the reply is malformed");
    }
    if (decoded->argsz <= argsz) {
      return ClientRegion{std::move(decoded->info), reply->fds.empty() ? Fd() : reply->fds[0].take()};
    }
    argsz = decoded->argsz;
  }
  return give_up(Command::kGetRegionInfo, EPROTO, "the reply's size changes each time");
}

Result<std::uint32_t> Client::irq_count(std::uint32_t index) {
  const auto info = call_for(Command::kGetIrqInfo, wire::IrqInfo{.index = index});
  if (!info) return Failure(info.error());
  return info->count;
}

Result<void> Client::region_read(std::uint32_t region, std::uint64_t offset, std::span<std::byte> out) {
  if (auto usable = ready(); !usable) return usable;
  if (out.size() > max_transfer_bytes_) {
    return fail(EMSGSIZE, fmt::format("{}: reading {} bytes at once; the server allows {}", path_, out.size(),
                                      max_transfer_bytes_));
  }
  const wire::RegionAccess access{offset, region, static_cast<std::uint32_t>(out.size())};
  write(request_payload(), 0, access);
  const auto reply = call(Command::kRegionRead, sizeof(access));
  if (!reply) return Failure(reply.error());
  if (reply->payload.size() != sizeof(access) + out.size()) {
    return give_up(Command::kRegionRead, EPROTO, "the reply does not have the requested number of bytes");
  }
  std::copy_n(reply->payload.begin() + sizeof(access), out.size(), out.begin());
  return {};
}

Result<void> Client::region_write(std::uint32_t region, std::uint64_t offset, std::span<const std::byte> data,
                                  WriteMode mode) {
  if (auto usable = ready(); !usable) return usable;
  if (data.size() > max_transfer_bytes_) {
    return fail(EMSGSIZE, fmt::format("{}: writing {} bytes at once; the server allows {}", path_,
                                      data.size(), max_transfer_bytes_));
  }
  const wire::RegionAccess access{offset, region, static_cast<std::uint32_t>(data.size())};
  write(request_payload(), 0, access);
  std::copy(data.begin(), data.end(), request_payload().begin() + sizeof(access));
  const std::size_t bytes = sizeof(access) + data.size();
  if (mode == WriteMode::kPosted) return send(Command::kRegionWrite, bytes, kFlagNoReply, -1);
  const auto reply = call(Command::kRegionWrite, bytes);
  if (!reply) return Failure(reply.error());
  return {};
}

Result<void> Client::dma_map(const DmaMapRequest& request, int fd) {
  if (auto usable = ready(); !usable) return usable;
  write(request_payload(), 0,
        wire::DmaMap{.flags = (request.readable ? wire::kDmaMapReadable : 0) |
                              (request.writable ? wire::kDmaMapWritable : 0),
                     .fd_offset = request.fd_offset,
                     .iova = request.iova,
                     .size = request.size});
  return call_without_answer(Command::kDmaMap, sizeof(wire::DmaMap), fd);
}

Result<void> Client::dma_unmap(std::uint64_t iova, std::uint64_t size) {
  const auto reply = call_for(Command::kDmaUnmap, wire::DmaUnmap{.iova = iova, .size = size});
  if (!reply) return Failure(reply.error());
  return {};
}

Result<void> Client::dma_unmap_all() {
  const auto reply = call_for(Command::kDmaUnmap, wire::DmaUnmap{.flags = wire::kDmaUnmapAll});
  if (!reply) return Failure(reply.error());
  return {};
}

Result<void> Client::set_irq_eventfd(std::uint32_t index, std::uint32_t vector, int eventfd) {
  if (auto usable = ready(); !usable) return usable;
  write(request_payload(), 0,
        wire::SetIrqs{.flags = wire::kIrqDataEventfd | wire::kIrqActionTrigger,
                      .index = index,
                      .start = vector,
                      .count = 1});
  return call_without_answer(Command::kSetIrqs, sizeof(wire::SetIrqs), eventfd);
}

Result<void> Client::disable_irqs(std::uint32_t index) {
  if (auto usable = ready(); !usable) return usable;
  write(request_payload(), 0,
        wire::SetIrqs{.flags = wire::kIrqDataNone | wire::kIrqActionTrigger, .index = index});
  return call_without_answer(Command::kSetIrqs, sizeof(wire::SetIrqs));
}

Result<void> Client::reset() {
  if (auto usable = ready(); !usable) return usable;
  return call_without_answer(Command::kReset, 0);
}

// Checks that the connection is usable. Call it before request_payload().
Result<void> Client::ready() const {
  if (socket_) return {};
  return fail(ENOTCONN, "vfio-user socket " + path_ + ": the connection was lost earlier: connect again");
}

Result<void> Client::call_without_answer(Command command, std::size_t payload_bytes, int fd) {
  const auto reply = call(command, payload_bytes, fd);
  if (!reply) return Failure(reply.error());
  return {};
}

// Makes a call whose request and reply have the same structure.
template <typename Wire>
Result<Wire> Client::call_for(Command command, const Wire& request) {
  if (auto usable = ready(); !usable) return Failure(std::move(usable).error());
  write(request_payload(), 0, request);
  const auto reply = call(command, sizeof(Wire));
  if (!reply) return Failure(reply.error());
  if (reply->payload.size() != sizeof(Wire))
    return give_up(command, EPROTO, "the reply does not have its command's size");
  return read<Wire>(reply->payload);
}

Result<Message> Client::call(Command command, std::size_t payload_bytes, int fd) {
  if (auto sent = send(command, payload_bytes, 0, fd); !sent) return Failure(std::move(sent).error());
  return wait(command);
}

Result<void> Client::send(Command command, std::size_t payload_bytes, std::uint32_t flags, int fd) {
  const auto size = static_cast<std::uint32_t>(kHeaderBytes + payload_bytes);
  write(socket_->output(), 0, wire::Header{++last_id_, command, size, flags, 0});
  if (auto sent = socket_->send(size, fd); !sent)
    return give_up(command, sent.error().code, sent.error().message);
  return finish_sending(command);
}

Result<void> Client::finish_sending(Command command) {
  Result<void> sent;
  // The socket blocks, so pending bytes mean that a signal interrupted the send or that it has waited once
  // already.
  if (socket_->output_pending()) {
    const Instant deadline = Instant::now() + reply_timeout_;
    while (sent && socket_->output_pending()) {
      if (Instant::now() > deadline)
        return give_up(command, ETIMEDOUT, "the server does not accept requests");
      sent = socket_->flush();
    }
  }
  if (!sent) return give_up(command, sent.error().code, sent.error().message);
  return {};
}

Result<Message> Client::wait(Command command) {
  // Each receive has its own time limit. Only a reply that comes in pieces needs a deadline, so the usual
  // case does not read the clock.
  std::optional<Instant> deadline;
  for (bool first = true;; first = false) {
    auto next = socket_->next_message();
    if (!next) return give_up(command, next.error().code, next.error().message);
    if (*next) {
      const wire::Header& header = (*next)->header;
      if (is_request(header)) {
        if (auto answered = answer_request(**next); !answered) return Failure(std::move(answered).error());
        continue;
      }
      if (header.id != last_id_ || header.command != command ||
          (header.flags & kFlagTypeMask) != kFlagTypeReply) {
        return give_up(command, EPROTO,
                       fmt::format("the server sent something else ({} message, id {}, flags {:#x})",
                                   name_of(header.command), header.id, header.flags));
      }
      if ((header.flags & kFlagError) != 0) {
        const int code = static_cast<int>(header.error);
        return fail(code, fmt::format("vfio-user socket {}: the server refused {}: {}", path_,
                                      name_of(command), std::generic_category().message(code)));
      }
      return **next;
    }
    if (!first && !deadline) deadline = Instant::now() + reply_timeout_;
    const auto received = comes(socket_->fd(), reply_timeout_) ? socket_->receive() : Result<bool>(false);
    if (!received) {
      const Error& error = received.error();
      return give_up(command, error.code == 0 ? ECONNRESET : error.code, error.message);
    }
    if (!*received || (deadline && Instant::now() > *deadline)) {
      return give_up(
          command, ETIMEDOUT,
          fmt::format("no reply within {} ms",
                      std::chrono::duration_cast<std::chrono::milliseconds>(reply_timeout_).count()));
    }
  }
}

Result<std::size_t> Client::answer_requests(Duration patience) {
  if (auto usable = ready(); !usable) return Failure(std::move(usable).error());
  std::size_t answered = 0;
  for (bool received = false;;) {
    auto next = socket_->next_message();
    if (!next) return give_up(Command::kDmaRead, next.error().code, next.error().message);
    if (*next) {
      if (!is_request((*next)->header))
        return give_up((*next)->header.command, EPROTO, "the server sent a message that was not requested");
      if (auto done = answer_request(**next); !done) return Failure(std::move(done).error());
      ++answered;
      continue;
    }
    if (received || answered != 0 || !comes(socket_->fd(), patience)) return answered;
    if (auto got = socket_->receive(); !got)
      return give_up(Command::kDmaRead, got.error().code == 0 ? ECONNRESET : got.error().code,
                     got.error().message);
    received = true;
  }
}

Result<void> Client::answer_request(const Message& request) {
  const Command command = request.header.command;
  const bool is_write = command == Command::kDmaWrite;
  constexpr std::size_t kHead = sizeof(wire::DmaAccess);
  if (request.payload.size() < kHead) return give_up(command, EPROTO, "the server's request is malformed");
  const auto access = read<wire::DmaAccess>(request.payload);
  const auto data = request.payload.subspan(kHead);
  if (access.count == 0 || access.count > kMaxDataTransferBytes ||
      data.size() != (is_write ? access.count : 0))
    return give_up(command, EPROTO, "the server's request is malformed");

  const std::span<std::byte> output = socket_->output(Exchange::kOfServer);
  int result = EOPNOTSUPP;
  if (memory_ != nullptr) {
    result = is_write ? memory_->write(access.address, data)
                      : memory_->read(access.address, output.subspan(kHeaderBytes + kHead, access.count));
  }
  if ((request.header.flags & kFlagNoReply) != 0) return {};
  const std::size_t bytes = kHeaderBytes + (result != 0 ? 0 : kHead + (is_write ? 0 : access.count));
  write(output, 0,
        wire::Header{request.header.id, command, static_cast<std::uint32_t>(bytes),
                     kFlagTypeReply | (result != 0 ? kFlagError : 0), static_cast<std::uint32_t>(result)});
  if (result == 0) write(output, kHeaderBytes, access);
  if (auto sent = socket_->send(Exchange::kOfServer, bytes); !sent)
    return give_up(command, sent.error().code, sent.error().message);
  return finish_sending(command);
}

// Closes the stream, which cannot be trusted any more.
Failure Client::give_up(Command command, int code, std::string_view why) {
  socket_.reset();
  return fail(code,
              fmt::format("vfio-user socket {}: {} failed: {}: connect again", path_, name_of(command), why));
}

}  // namespace pvrdma::vfio_user
