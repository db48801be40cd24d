#include "standin/process.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/core.h>

#include "base/log.h"
#include "base/passed_descriptors.h"
#include "base/peer.h"

namespace pvrdma::standin {
namespace {

// The one thread's buffer: each request is executed before the next one is read.
std::span<std::byte> request_buffer() {
  alignas(8) static std::array<std::byte, kRequestBytesMax> buffer;
  return buffer;
}

}  // namespace

Process::Process(Adapter& adapter, CmService& cm, Fd socket, MemoryFiles allowed, log::LogLimiter& log)
    : adapter_(adapter),
      cm_(cm),
      log_(log),
      socket_(std::move(socket)),
      peer_(peer_of(socket_.get()).value_or(ucred{})),
      windows_(adapter.device(), allowed),
      program_(cm.add_program()) {}

bool Process::serve_one() {
  const std::span<std::byte> buffer = request_buffer();
  DescriptorRoom<PVRDMA_WIRE_MAX_FDS> room;
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  room.receive_with(message);
  const ssize_t received = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (received < 0) return errno == EAGAIN || errno == EINTR;
  if (received == 0) return false;
  Descriptors descriptors;
  std::size_t count = 0;
  take_descriptors(message, [&](int raw) {
    Fd fd(raw);
    if (count < descriptors.size()) descriptors[count++] = std::move(fd);
  });
  const auto request = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0
                           ? parse_request(buffer.first(static_cast<std::size_t>(received)))
                           : std::nullopt;
  if (!request) {
    if (log_.allow(Instant::now()))
      log::warn("standin: process {} broke the protocol: its connection is closed", peer_.pid);
    return false;
  }
  Answer answer;
  answer.header.fd_field = PVRDMA_WIRE_NO_FIELD;
  if (auto done = execute(*request, descriptors, answer); !done) {
    const std::uint64_t version = answer.header.value;
    answer = Answer{};
    answer.header.error = adapter_.errno_of(done.error());
    answer.header.fd_field = PVRDMA_WIRE_NO_FIELD;
    answer.header.value = version;
    log::debug("standin: process {}: refused with {}: {}", peer_.pid, answer.header.error,
               done.error().message);
  }
  return send(answer);
}

Result<> Process::execute(const Request& request, const Descriptors& descriptors, Answer& answer) {
  if (!greeted_) return hello(request, answer);
  const bool closes =
      request.header.type == PVRDMA_WIRE_CLOSE_FILE || request.header.type == PVRDMA_WIRE_CLOSE_CM_FILE;
  if (adapter_.is_lost() && !closes) return fail(EIO, "the adapter is gone");
  switch (request.header.type) {
    case PVRDMA_WIRE_OPEN_FILE:
      return open_file(answer);
    case PVRDMA_WIRE_CLOSE_FILE:
      return close_file(request);
    case PVRDMA_WIRE_ADD_WINDOW: {
      const auto added = windows_.add(descriptors[0].get(), request.header.value0, request.header.value1);
      if (!added) return Failure(added.error());
      answer.header.value = *added;
      return {};
    }
    case PVRDMA_WIRE_COMMAND:
      return command(request, answer);
    case PVRDMA_WIRE_DOORBELL: {
      const auto file = file_of(request);
      if (!file) return Failure(file.error());
      return (*file)->ring(request.header.value0, request.header.value1);
    }
    case PVRDMA_WIRE_RESOLVE_GID: {
      abi::Gid gid;
      std::memcpy(gid.raw.data(), &request.header.value0, 8);
      std::memcpy(gid.raw.data() + 8, &request.header.value1, 8);
      const Neighbors::Found found = adapter_.neighbors().find(gid, Instant::now());
      if (found.is_asked) return fail(EAGAIN, "the network is asked for the MAC address");
      std::memcpy(&answer.header.value, found.mac.raw.data(), found.mac.raw.size());
      return {};
    }
    case PVRDMA_WIRE_OPEN_CM_FILE:
      return open_cm_file(answer);
    case PVRDMA_WIRE_CLOSE_CM_FILE:
      return close_cm_file(request);
    case PVRDMA_WIRE_CM_COMMAND:
      return cm_command(request, answer);
    case PVRDMA_WIRE_HELLO:
      return fail(EINVAL, "a second HELLO");
    default:
      return fail(EINVAL, fmt::format("there is no request of type {}", request.header.type));
  }
}

Result<> Process::hello(const Request& request, Answer& answer) {
  const pvrdma_wire_request& header = request.header;
  if (header.type != PVRDMA_WIRE_HELLO || header.value0 != PVRDMA_WIRE_MAGIC)
    return fail(EINVAL, "the first request is not HELLO");
  if (header.value1 != PVRDMA_WIRE_VERSION) {
    if (log_.allow(Instant::now())) {
      log::warn(
          "standin: process {} has a library of protocol version {}, not {}: install the same version of "
          "both",
          peer_.pid, header.value1, static_cast<int>(PVRDMA_WIRE_VERSION));
    }
    answer.header.value = PVRDMA_WIRE_VERSION;
    return fail(EPROTONOSUPPORT, "the versions differ");
  }
  greeted_ = true;
  return {};
}

Result<> Process::open_file(Answer& answer) {
  auto place = std::find(files_.begin(), files_.end(), nullptr);
  if (place == files_.end()) {
    if (files_.size() == PVRDMA_WIRE_MAX_FILES)
      return fail(EMFILE, fmt::format("the process has {} uverbs files open", files_.size()));
    place = files_.emplace(files_.end());
  }
  *place = std::make_unique<OpenFile>(adapter_, windows_, qpns_);
  answer.header.file = static_cast<std::uint32_t>(place - files_.begin());
  return {};
}

Result<OpenFile*> Process::file_of(const Request& request) const {
  const std::uint32_t number = request.header.file;
  if (number >= files_.size() || !files_[number])
    return fail(EBADF, fmt::format("the process has no uverbs file {}", number));
  return files_[number].get();
}

Result<> Process::close_file(const Request& request) {
  if (auto file = file_of(request); !file) return Failure(std::move(file.error()));
  files_[request.header.file].reset();
  return {};
}

Result<> Process::command(const Request& request, Answer& answer) {
  const auto file = file_of(request);
  if (!file) return Failure(file.error());
  const auto parsed = parse_uverbs_command(request.command);
  if (!parsed) return fail(EINVAL, "a uverbs command whose lengths contradict each other");
  if (auto done = (*file)->execute(*parsed, request.runs, answer.uverbs); !done) return done;
  answer.header.value = answer.uverbs.value;
  answer.header.response_address = answer.uverbs.response_address;
  answer.header.user_handle = answer.uverbs.user_handle;
  answer.header.response_bytes = answer.uverbs.response_bytes;
  answer.header.fd_field = answer.uverbs.fd_field;
  return {};
}

Result<> Process::open_cm_file(Answer& answer) {
  auto place = std::find(cm_files_.begin(), cm_files_.end(), nullptr);
  if (place == cm_files_.end()) {
    if (cm_files_.size() == PVRDMA_WIRE_MAX_CM_FILES)
      return fail(EMFILE, fmt::format("the process has {} rdma_cm files open", cm_files_.size()));
    place = cm_files_.emplace(cm_files_.end());
  }
  auto file = CmFile::create(cm_, {program_, cm_files_, qpns_});
  if (!file) return Failure(std::move(file.error()));
  *place = std::move(*file);
  answer.uverbs.borrowed_file = (*place)->program_end();
  answer.header.file = static_cast<std::uint32_t>(place - cm_files_.begin());
  return {};
}

Result<CmFile*> Process::cm_file_of(const Request& request) const {
  const std::uint32_t number = request.header.file;
  if (number >= cm_files_.size() || !cm_files_[number])
    return fail(EBADF, fmt::format("the process has no rdma_cm file {}", number));
  return cm_files_[number].get();
}

Result<> Process::close_cm_file(const Request& request) {
  if (auto file = cm_file_of(request); !file) return Failure(std::move(file.error()));
  cm_files_[request.header.file].reset();
  return {};
}

Result<> Process::cm_command(const Request& request, Answer& answer) {
  const auto file = cm_file_of(request);
  if (!file) return Failure(file.error());
  const auto parsed = parse_cm_command(request.command);
  if (!parsed) return fail(EINVAL, "an rdma_cm command whose lengths contradict each other");
  if (auto done = (*file)->execute(*parsed, answer.uverbs); !done) return done;
  answer.header.response_address = answer.uverbs.response_address;
  answer.header.response_bytes = answer.uverbs.response_bytes;
  return {};
}

void Process::wake() {
  for (const auto& file : cm_files_) {
    if (file) file->wake();
  }
}

// False: the program does not read its answers, or has ended.
bool Process::send(const Answer& answer) const {
  pvrdma_wire_answer header = answer.header;
  std::array<iovec, 2> parts{
      iovec{&header, sizeof(header)},
      iovec{const_cast<std::byte*>(answer.uverbs.response.data()), answer.uverbs.response_bytes}};
  std::array<int, PVRDMA_WIRE_MAX_FDS> fds{};
  std::size_t count = 0;
  if (answer.uverbs.channel) fds[count++] = answer.uverbs.channel.get();
  if (answer.uverbs.borrowed_file >= 0) fds[count++] = answer.uverbs.borrowed_file;
  DescriptorRoom<PVRDMA_WIRE_MAX_FDS> room;
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  room.send_with(message, std::span(fds).first(count));
  return ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

}  // namespace pvrdma::standin
