#include "vfio_user/session.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <limits>
#include <optional>

#include "base/log.h"

namespace pvrdma::vfio_user {
namespace {

const SteadyClock kSystemClock;

bool no_reply_wanted(const Message& message) {
  return (message.header.flags & kFlagNoReply) != 0;
}

std::size_t max_fds(Command command) {
  switch (command) {
    case Command::kDmaMap:
      return 1;
    case Command::kSetIrqs:
      return kMaxMessageFds;
    default:
      return 0;
  }
}

Failure protocol_error(const Message& message, std::string_view what) {
  return fail(EPROTO, fmt::format("{} message that {}", name_of(message.header.command), what));
}

}  // namespace

Session::Session(ClientFd socket, Handler& handler, std::string name, const SessionSurroundings& surroundings)
    : socket_(std::move(socket), surroundings.queue),
      handler_(handler),
      name_(std::move(name)),
      clock_(surroundings.clock != nullptr ? *surroundings.clock : kSystemClock),
      log_(surroundings.log),
      request_room_(surroundings.request_room),
      migration_(handler) {}

Result<bool> Session::run() {
  auto worked = send_and_execute();
  if (!worked || !request_pending_ || socket_.output_pending(Exchange::kOfServer)) return worked;
  request_pending_ = false;
  if (request_room_) request_room_();
  return true;
}

Result<bool> Session::send_and_execute() {
  if (socket_.output_pending()) {
    if (auto flushed = socket_.flush(); !flushed) return Failure(std::move(flushed).error());
  }
  if (command_waits_) {
    if (socket_.output_pending(Exchange::kOfClient)) return false;
  } else if (!cut_short_) {
    auto received = socket_.receive();
    if (!received || !*received) return received;
    if (!established_ && socket_.holds_fds())
      return fail(EPROTO, "a message that carries file descriptors before VERSION");
  }
  if (auto verdict = execute_complete_messages(); !verdict) return Failure(std::move(verdict).error());
  return true;
}

Session::Verdict Session::execute_complete_messages() {
  cut_short_ = false;
  command_waits_ = false;
  std::optional<Instant>
      begin;  // set when the time may matter, so that a single message does not read the clock
  while (true) {
    if (socket_.output_pending(Exchange::kOfClient)) [[unlikely]] {
      const auto next = socket_.next_header();
      command_waits_ = requests_.empty() || (next && (next->flags & kFlagTypeMask) != kFlagTypeReply);
      if (command_waits_) break;
    }
    if (handler_.is_busy()) [[unlikely]] {
      cut_short_ = true;
      break;
    }
    auto message = socket_.next_message();
    if (!message) return Failure(std::move(message).error());
    if (!*message) break;
    const bool more = socket_.holds_bytes();
    if (more && !begin) begin = clock_.now();
    if (auto verdict = execute(**message); !verdict) return verdict;
    if (more && !socket_.output_pending(Exchange::kOfClient) && clock_.now() - *begin >= kBurstTime) {
      cut_short_ = true;
      break;
    }
  }
  return {};
}

Session::Verdict Session::execute(Message& message) {
  const wire::Header& header = message.header;
  if ((header.flags & kFlagTypeMask) == kFlagTypeReply && established_ &&
      (header.command == Command::kDmaRead || header.command == Command::kDmaWrite)) {
    return take_reply(message);
  }
  if ((header.flags & kFlagTypeMask) != kFlagTypeCommand) {
    return protocol_error(message, fmt::format("is not a command (flags {:#x})", header.flags));
  }
  if (message.fds.size() > max_fds(header.command)) {
    return protocol_error(message, fmt::format("carries {} file descriptors; {} are possible",
                                               message.fds.size(), max_fds(header.command)));
  }
  if (!established_) return execute_version(message);
  if ((header.flags & ~(kFlagTypeMask | kFlagNoReply)) != 0) return reply_result(message, EINVAL);
  return execute_command(message);
}

Session::Verdict Session::take_reply(const Message& message) {
  if (!message.fds.empty()) return protocol_error(message, "is a reply with file descriptors");
  const auto wrong = requests_.take_reply(message);
  if (!wrong.empty()) return protocol_error(message, wrong);
  return {};
}

Session::Verdict Session::execute_version(const Message& message) {
  if (message.header.command != Command::kVersion) return protocol_error(message, "comes before VERSION");
  const auto version = decode_version(message.payload);
  if (!version) return refuse(message, version.error());
  if (version->major != kVersionMajor) {
    return protocol_error(message, fmt::format("asks for version {}.{}; this server speaks {}.{}",
                                               version->major, version->minor, kVersionMajor, kVersionMinor));
  }
  establish(std::min(version->capabilities.max_data_xfer_size, kMaxDataTransferBytes));
  if (log_ == nullptr || log_->allow(clock_.now())) {
    log::info("vfio-user {}: client connected, it speaks version {}.{}", name_, version->major,
              version->minor);
  }

  // QEMU reserves only as many bytes for the reply as its request has.
  return reply(message, write_version(reply_payload().first(message.payload.size()), kOwnCapabilities));
}

void Session::establish(std::uint32_t max_request_bytes) {
  established_ = true;
  max_request_bytes_ = max_request_bytes;
  handler_.connected();
  for (std::uint32_t i = 0; i < handler_.region_count(); ++i) {
    regions_.push_back(handler_.region_info(i));
    PVRDMA_CHECK(regions_.back().mmap_areas.size() <= kMaxMmapAreas, "a region with too many mappable areas");
  }
  for (std::uint32_t i = 0; i < handler_.irq_index_count(); ++i) irq_counts_.push_back(handler_.irq_count(i));
  PVRDMA_CHECK(regions_.size() <= kMaxRegions && irq_counts_.size() <= kMaxIrqIndices,
               "more than QEMU accepts");
}

Result<SavedSession> Session::save() const {
  if (!established_) return fail(ENOTCONN, "its VMM has only just connected");
  if (!migration_.is_idle()) return fail(EBUSY, "its VMM leads a migration, or has the writes logged");
  SavedSession saved{.max_request_bytes = max_request_bytes_, .unanswered = requests_.save()};
  socket_.save(saved);
  return saved;
}

Result<void> Session::restore(const SavedSession& saved, std::span<ClientFd> held) {
  if (saved.max_request_bytes > kMaxDataTransferBytes || !requests_.restore(saved.unanswered))
    return fail(EINVAL, "impossible requests to the client");
  establish(saved.max_request_bytes);
  const auto shared = std::ranges::find_if(regions_, [](const RegionInfo& region) { return region.fd >= 0; });
  if (!socket_.restore(saved, held, shared != regions_.end() ? shared->fd : -1))
    return fail(EINVAL, "more bytes under way than there can be");
  request_pending_ = socket_.output_pending(Exchange::kOfServer);
  command_waits_ = socket_.output_pending(Exchange::kOfClient);
  cut_short_ = !command_waits_;
  return {};
}

Session::Verdict Session::execute_command(Message& message) {
  switch (message.header.command) {
    case Command::kRegionWrite:
      return region_write(message);
    case Command::kRegionRead:
      return region_read(message);
    case Command::kDmaMap:
      return dma_map(message);
    case Command::kDmaUnmap:
      return dma_unmap(message);
    case Command::kGetInfo:
      return get_info(message);
    case Command::kGetRegionInfo:
      return get_region_info(message);
    case Command::kGetIrqInfo:
      return get_irq_info(message);
    case Command::kSetIrqs:
      return set_irqs(message);
    case Command::kReset:
      return reset(message);
    case Command::kDeviceFeature:
      return reply_bytes(message, migration_.device_feature(message.payload, reply_payload()));
    case Command::kMigDataRead:
      return reply_bytes(message, migration_.data_read(message.payload, reply_payload()));
    case Command::kMigDataWrite:
      return reply_bytes(message, migration_.data_write(message.payload));
    case Command::kVersion:
      return protocol_error(message, "comes a second time");
    case Command::kGetRegionIoFds:
    case Command::kDmaRead:
    case Command::kDmaWrite:
    case Command::kRegionWriteMulti:  // not offered: another form of posted writes
      break;
  }
  return reply_result(message, EOPNOTSUPP);
}

Session::Verdict Session::region_write(const Message& message) {
  const auto request = decode_region_write(message.payload);
  if (!request) return refuse(message, request.error());
  const auto [offset, region, count] = request->access;
  if (region >= regions_.size() || offset + count > regions_[region].size)
    return reply_result(message, EINVAL);
  if (!regions_[region].writable) return reply_result(message, EACCES);

  const bool posted = no_reply_wanted(message);
  if (posted && regions_[region].writes_need_replies && !warned_of_posted_write_) [[unlikely]] {
    warned_of_posted_write_ = true;
    if (log_ == nullptr || log_->allow(clock_.now())) {
      log::error(
          "vfio-user {}: the client posts writes to region {}, so the guest's driver will miss "
          "their effects: start QEMU with \"x-no-posted-writes\":true on the vfio-user-pci device",
          name_, region);
    }
  }
  const int result = handler_.region_write(region, offset, request->data, posted);
  if (!posted && result == 0) write(reply_payload(), 0, wire::RegionAccess{offset, region, count});
  return reply_result(message, result, sizeof(wire::RegionAccess));
}

Session::Verdict Session::region_read(const Message& message) {
  const auto request = decode_region_read(message.payload);
  if (!request) return refuse(message, request.error());
  const auto [offset, region, count] = *request;
  if (region >= regions_.size() || offset + count > regions_[region].size)
    return reply_result(message, EINVAL);
  if (!regions_[region].readable) return reply_result(message, EACCES);

  write(reply_payload(), 0, wire::RegionAccess{offset, region, count});
  const int result =
      handler_.region_read(region, offset, reply_payload().subspan(sizeof(wire::RegionAccess), count));
  return reply_result(message, result, sizeof(wire::RegionAccess) + count);
}

Session::Verdict Session::dma_map(Message& message) {
  const auto request = decode_dma_map(message.payload, message.fds.size());
  if (!request) return refuse(message, request.error());
  return reply_result(
      message, handler_.dma_map(*request, message.fds.empty() ? ClientFd() : std::move(message.fds[0])));
}

Session::Verdict Session::dma_unmap(const Message& message) {
  const auto request = decode_dma_unmap(message.payload);
  if (!request) return refuse(message, request.error());
  int result = 0;
  if (request->all) {
    handler_.dma_unmap_all();
  } else {
    result = handler_.dma_unmap(request->iova, request->size);
  }
  write(reply_payload(), 0, read<wire::DmaUnmap>(message.payload));
  return reply_result(message, result, sizeof(wire::DmaUnmap));
}

Session::Verdict Session::get_info(const Message& message) {
  if (const auto request = decode_get_info(message.payload); !request)
    return refuse(message, request.error());
  write(reply_payload(), 0,
        wire::DeviceInfo{.flags = wire::kDeviceReset | wire::kDevicePci,
                         .region_count = static_cast<std::uint32_t>(regions_.size()),
                         .irq_index_count = static_cast<std::uint32_t>(irq_counts_.size())});
  return reply(message, sizeof(wire::DeviceInfo));
}

Session::Verdict Session::get_region_info(const Message& message) {
  const auto request = decode_get_region_info(message.payload);
  if (!request) return refuse(message, request.error());
  if (request->region >= regions_.size()) return reply_result(message, EINVAL);
  const RegionInfo& info = regions_[request->region];
  const std::size_t bytes = write_region_info(reply_payload(), info, *request);
  // The fd travels only with the complete reply; a client that asks again would otherwise get it twice.
  const bool with_fd = !info.mmap_areas.empty() && bytes == region_info_bytes(info);
  return reply(message, bytes, with_fd ? info.fd : -1);
}

Session::Verdict Session::get_irq_info(const Message& message) {
  const auto index = decode_get_irq_info(message.payload);
  if (!index) return refuse(message, index.error());
  if (*index >= irq_counts_.size()) return reply_result(message, EINVAL);
  const std::uint32_t count = irq_counts_[*index];
  write(reply_payload(), 0,
        wire::IrqInfo{.flags = count == 0 ? 0 : wire::kIrqEventfd, .index = *index, .count = count});
  return reply(message, sizeof(wire::IrqInfo));
}

Session::Verdict Session::set_irqs(Message& message) {
  const auto request = decode_set_irqs(message.payload, message.fds.size());
  if (!request) return refuse(message, request.error());
  if (request->index >= irq_counts_.size() ||
      std::uint64_t{request->start} + request->count > irq_counts_[request->index]) {
    return reply_result(message, EINVAL);
  }
  switch (request->operation) {
    case IrqOperation::kAssign:
      return reply_result(message, assign_irqs(*request, message.fds));
    case IrqOperation::kDisable:
      return reply_result(message, handler_.disable_irqs(request->index));
    case IrqOperation::kUnsupported:
      break;
  }
  return reply_result(message, EOPNOTSUPP);
}

int Session::assign_irqs(const SetIrqsRequest& request, std::span<ClientFd> fds) {
  for (std::uint32_t i = 0; i < request.count; ++i) {
    ClientFd eventfd = fds.empty() ? ClientFd() : std::move(fds[i]);
    if (const int result = handler_.set_irq_eventfd(request.index, request.start + i, std::move(eventfd));
        result != 0) {
      return result;
    }
  }
  return 0;
}

Session::Verdict Session::reset(const Message& message) {
  if (const auto request = decode_reset(message.payload); !request) return refuse(message, request.error());
  handler_.reset();
  migration_.reset();
  return reply_result(message, 0);
}

Session::Verdict Session::reply_bytes(const Message& message, const Decoded<std::size_t>& payload_bytes) {
  if (!payload_bytes) return refuse(message, payload_bytes.error());
  return reply(message, *payload_bytes);
}

Session::Verdict Session::refuse(const Message& message, const Refusal& refusal) {
  if (refusal.answer == 0) return protocol_error(message, refusal.malformed);
  return reply_result(message, refusal.answer);
}

// `result` 0: sends the payload in reply_payload(). Otherwise sends an error reply, which is only a header.
Session::Verdict Session::reply_result(const Message& message, int result, std::size_t payload_bytes) {
  if (result == 0) return reply(message, payload_bytes);
  if (no_reply_wanted(message)) return {};
  write(socket_.output(), 0,
        wire::Header{message.header.id, message.header.command, kHeaderBytes, kFlagTypeReply | kFlagError,
                     static_cast<std::uint32_t>(result)});
  return socket_.send(kHeaderBytes);
}

Session::Verdict Session::reply(const Message& message, std::size_t payload_bytes, int fd) {
  if (no_reply_wanted(message)) return {};
  const auto size = static_cast<std::uint32_t>(kHeaderBytes + payload_bytes);
  write(socket_.output(), 0,
        wire::Header{message.header.id, message.header.command, size, kFlagTypeReply, 0});
  return socket_.send(size, fd);
}

Result<void> Session::dma_read(std::uint64_t address, std::uint32_t size, RequestDone done) {
  if (auto checked = check_request(address, size); !checked) return checked;
  if (!requests_.has_room()) return fail(EAGAIN, "too many requests wait for their replies");
  const wire::DmaAccess access{address, size};
  socket_.output(Exchange::kOfServer);  // allocates, and may throw, before anything is recorded
  const std::uint16_t id =
      requests_.add(Command::kDmaRead, access, clock_.now() + kRequestTimeLimit, std::move(done));
  send_request({.id = id, .command = Command::kDmaRead}, access, {});
  return {};
}

Result<void> Session::dma_write(std::uint64_t address, std::span<const std::byte> data, RequestDone done) {
  if (auto checked = check_request(address, data.size()); !checked) return checked;
  if (!requests_.has_room()) return fail(EAGAIN, "too many requests wait for their replies");
  const wire::DmaAccess access{address, data.size()};
  socket_.output(Exchange::kOfServer);  // allocates, and may throw, before anything is recorded
  const std::uint16_t id =
      requests_.add(Command::kDmaWrite, access, clock_.now() + kRequestTimeLimit, std::move(done));
  send_request({.id = id, .command = Command::kDmaWrite}, access, data);
  return {};
}

Result<void> Session::dma_write_posted(std::uint64_t address, std::span<const std::byte> data) {
  if (auto checked = check_request(address, data.size()); !checked) return checked;
  send_request({.id = requests_.unused_id(), .command = Command::kDmaWrite, .flags = kFlagNoReply},
               {address, data.size()}, data);
  return {};
}

Result<void> Session::check_request(std::uint64_t address, std::size_t size) const {
  if (!established_) return fail(ENOTCONN, "a request before VERSION");
  if (size == 0 || address > std::numeric_limits<std::uint64_t>::max() - size)
    return fail(EINVAL, "a request for no range of memory");
  if (size > max_request_bytes_) {
    return fail(EMSGSIZE,
                fmt::format("a request for {} bytes; the client takes {} at once", size, max_request_bytes_));
  }
  if (!can_request()) return fail(EAGAIN, "the request before is not sent yet");
  return {};
}

// If the socket fails, the message stays pending, and the next run() meets the same error.
void Session::send_request(const wire::Header& header, const wire::DmaAccess& access,
                           std::span<const std::byte> data) {
  const std::span<std::byte> output = socket_.output(Exchange::kOfServer);
  const std::size_t bytes = kHeaderBytes + sizeof(access) + data.size();
  wire::Header sized = header;
  sized.size_bytes = static_cast<std::uint32_t>(bytes);
  write(output, 0, sized);
  write(output, kHeaderBytes, access);
  std::ranges::copy(data, output.begin() + kHeaderBytes + sizeof(access));
  static_cast<void>(socket_.send(Exchange::kOfServer, bytes));
  request_pending_ = socket_.output_pending(Exchange::kOfServer);
}

}  // namespace pvrdma::vfio_user
