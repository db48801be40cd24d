#include "vfio_user/request_table.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"

namespace pvrdma::vfio_user {
namespace {

// The protocol's text gives the DMA_WRITE reply a count of 4 bytes; QEMU and libvfio-user send 8.
constexpr std::size_t kShortWriteReplyBytes = 12;
constexpr std::uint32_t kMaxErrno = 4095;

// What is wrong with a reply that reports success; empty if it is correct.
std::string_view check_reply(Command command, const wire::DmaAccess& asked,
                             std::span<const std::byte> payload) {
  const bool is_write = command == Command::kDmaWrite;
  if (is_write && payload.size() == kShortWriteReplyBytes) {
    if (read<std::uint64_t>(payload) == asked.address && read<std::uint32_t>(payload, 8) == asked.count)
      return {};
    return "answers for another range than the request's";
  }
  const std::size_t data_bytes = is_write ? 0 : asked.count;
  if (payload.size() != sizeof(wire::DmaAccess) + data_bytes) return "does not have the requested size";
  const auto access = read<wire::DmaAccess>(payload);
  if (access.address != asked.address || access.count != asked.count)
    return "answers for another range than the request's";
  return {};
}

}  // namespace

bool RequestTable::has_room() const {
  return std::ranges::any_of(requests_, [](const Request& request) { return !request.taken; });
}

bool RequestTable::empty() const {
  return std::ranges::none_of(requests_, [](const Request& request) { return request.taken; });
}

std::uint16_t RequestTable::unused_id() {
  do {
    ++last_id_;
  } while (find(last_id_) != nullptr);
  return last_id_;
}

std::uint16_t RequestTable::add(Command command, const wire::DmaAccess& access, Instant deadline,
                                RequestDone done) {
  const auto free = std::ranges::find_if(requests_, [](const Request& request) { return !request.taken; });
  PVRDMA_CHECK(free != requests_.end(), "a request too many");
  const std::uint16_t id = unused_id();
  *free = Request{true, id, command, access, deadline, std::move(done)};
  return id;
}

std::string_view RequestTable::take_reply(const Message& message) {
  Request* const request = find(message.header.id);
  if (request == nullptr || request->command != message.header.command) return "answers no request";
  const bool refused = (message.header.flags & kFlagError) != 0;
  if (!refused) {
    if (const auto wrong = check_reply(request->command, request->access, message.payload); !wrong.empty())
      return wrong;
  }
  const RequestDone done = std::exchange(*request, Request{}).done;
  if (!done) return {};
  if (refused) {
    const std::uint32_t error = message.header.error;
    done(error != 0 && error <= kMaxErrno ? static_cast<int>(error) : EIO, {});
  } else if (message.header.command == Command::kDmaRead) {
    done(0, message.payload.subspan(sizeof(wire::DmaAccess)));
  } else {
    done(0, {});
  }
  return {};
}

Instant RequestTable::next_deadline() const {
  Instant next = Instant::never();
  for (const Request& request : requests_) {
    if (request.taken) next = std::min(next, request.deadline);
  }
  return next;
}

void RequestTable::expire(Instant now) {
  for (Request& request : requests_) {
    if (!request.taken || request.deadline == Instant::never() || request.deadline > now) continue;
    request.deadline = Instant::never();
    if (const RequestDone done = std::exchange(request.done, nullptr)) done(ETIMEDOUT, {});
  }
}

void RequestTable::fail_all(int error) {
  for (Request& request : requests_) {
    if (const RequestDone done = std::exchange(request, Request{}).done) done(error, {});
  }
}

std::vector<SavedRequest> RequestTable::save() const {
  std::vector<SavedRequest> saved;
  for (const auto& [taken, id, command, access, deadline, done] : requests_) {
    if (taken) saved.push_back({id, command, access.address, access.count});
  }
  return saved;
}

bool RequestTable::restore(std::span<const SavedRequest> saved) {
  if (saved.size() > requests_.size()) return false;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    const auto& [id, command, address, count] = saved[i];
    if (find(id) != nullptr) return false;
    requests_[i] = Request{true, id, command, {address, count}, Instant::never(), nullptr};
  }
  return true;
}

RequestTable::Request* RequestTable::find(std::uint16_t id) {
  const auto found = std::ranges::find_if(
      requests_, [id](const Request& request) { return request.taken && request.id == id; });
  return found != requests_.end() ? &*found : nullptr;
}

}  // namespace pvrdma::vfio_user
