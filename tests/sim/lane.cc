#include "sim/lane.h"

#include <algorithm>

#include "sim/arrived_bytes.h"

namespace pvrdma::sim {

void LaneStream::send(transport::SegmentId segment, const Content& content, const guestmem::SpanList& payload,
                      Instant at) {
  if (!messages_.empty()) at = std::max(at, messages_.back().at);
  Message& message = messages_.emplace_back(Message{.at = at, .segment = segment, .content = content});
  for (const guestmem::HostSpan& piece : payload) {
    message.payload.insert(message.payload.end(), piece.data, piece.data + piece.size);
  }
  bytes_ += payload.bytes();
}

void LaneStream::hand_over(Message& message, transport::HostId from, transport::Inbound& to,
                           std::uint32_t bytes, bool torn, Instant now) {
  const std::uint32_t at = message.done;
  message.done += bytes;
  if (message.skipping) return;
  guestmem::SpanList spans;
  static_cast<void>(spans.append(message.payload.data() + at, bytes));
  ArrivedBytes payload(spans, torn);
  const auto piece_of = [&](auto content) {
    if (bytes == 0) return content;
    content.offset += at;
    content.bytes = bytes;
    return content;
  };
  transport::Delivery delivery{};
  if (const auto* request = std::get_if<verbs::Request>(&message.content)) {
    delivery =
        to.on_request(from, transport::PathKind::kTcp, message.segment, piece_of(*request), payload, now);
  } else if (const auto* response = std::get_if<verbs::Response>(&message.content)) {
    delivery = to.on_response(from, message.segment, piece_of(*response), payload, now);
  } else {
    delivery = to.on_datagram(from, message.segment, std::get<verbs::Datagram>(message.content), spans, now);
  }
  message.skipping = delivery != transport::Delivery::kDelivered;
}

void LaneStream::deliver(transport::HostId from, transport::Inbound& to, Random& random,
                         const LaneWeather& weather, Instant now) {
  Message& front = messages_.front();
  const auto left = static_cast<std::uint32_t>(front.payload.size()) - front.done;
  const bool whole = left == 0 || std::holds_alternative<verbs::Datagram>(front.content) ||
                     !random.chance(weather.pieces_per_mille);
  const std::uint32_t bytes = whole ? left : random.between(1, left);
  bytes_ -= bytes;
  if (bytes != left) {
    front.at = now + random.up_to(weather.delay_max / 4);
    hand_over(front, from, to, bytes, false, now);
    return;
  }
  Message last = std::move(front);  // it must not be in the queue while new messages are sent
  messages_.pop_front();
  hand_over(last, from, to, bytes, false, now);
}

void LaneStream::tear(transport::HostId from, transport::Inbound& to, Instant now) {
  if (messages_.empty() || std::holds_alternative<verbs::Datagram>(messages_.front().content)) return;
  Message front = std::move(messages_.front());
  clear();
  const auto left = static_cast<std::uint32_t>(front.payload.size()) - front.done;
  if (left != 0) hand_over(front, from, to, left, true, now);
}

std::size_t LaneStream::clear() {
  bytes_ = 0;
  const std::size_t lost = messages_.size();
  messages_.clear();
  return lost;
}

void LaneStream::stall(Instant until) {
  for (Message& message : messages_) message.at = std::max(message.at, until);
}

}  // namespace pvrdma::sim
