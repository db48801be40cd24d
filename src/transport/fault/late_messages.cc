#include "transport/fault/late_messages.h"

#include <algorithm>

namespace pvrdma::transport::fault {

LateMessages::LateMessages(std::size_t messages_max)
    : stored_(messages_max),
      bytes_(std::make_unique_for_overwrite<std::byte[]>(messages_max * kPayloadBytesMax)) {
  free_.reserve(messages_max);
  waiting_.reserve(messages_max);
  for (std::size_t place = messages_max; place != 0; --place)
    free_.push_back(static_cast<std::uint32_t>(place - 1));
}

bool LateMessages::add(const LateMessage& message, const guestmem::SpanList& payload, Instant due) {
  if (free_.empty() || payload.bytes() > kPayloadBytesMax) return false;
  const std::uint32_t place = free_.back();
  free_.pop_back();
  stored_[place].message = message;
  stored_[place].payload_bytes = static_cast<std::size_t>(payload.bytes());
  guestmem::SpanList copy;
  static_cast<void>(copy.append(bytes_of(place), stored_[place].payload_bytes));
  guestmem::copy(copy, payload, payload.bytes());
  waiting_.push_back({due, ++added_, place});
  std::push_heap(waiting_.begin(), waiting_.end(), is_later);
  return true;
}

std::uint32_t LateMessages::take_first() {
  std::pop_heap(waiting_.begin(), waiting_.end(), is_later);
  const std::uint32_t place = waiting_.back().place;
  waiting_.pop_back();
  return place;
}

std::size_t LateMessages::drop_for(const verbs::Engine& engine) {
  const std::size_t dropped = std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (stored_[waiting.place].message.place.engine != &engine) return false;
    free_.push_back(waiting.place);
    return true;
  });
  std::make_heap(waiting_.begin(), waiting_.end(), is_later);
  return dropped;
}

}  // namespace pvrdma::transport::fault
