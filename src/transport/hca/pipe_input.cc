// The receiving half of Pipe.
#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "base/network_order.h"
#include "transport/hca/pipe.h"

namespace pvrdma::transport::hca {
namespace {

// The slots that one frame's answer may take, and some for control frames.
constexpr std::uint32_t kAnswerSlots = kReadBytesMax / kSlotPayload + 2;

}  // namespace

void Pipe::run_soon() {
  if (active_) return;
  active_ = true;
  shared_.active.push_back(this);
}

// The caller has removed it from shared_.active.
bool Pipe::run(Instant now) {
  active_ = false;
  if (broken_) return false;
  std::array<NicCompletion, 32> found;
  std::size_t taken = 0;
  bool armed = false;
  while (taken < kCompletionsPerTurn && !broken_) {
    const auto count = end_->cq().poll(found);
    if (!count) {
      break_off("the device is gone");
      break;
    }
    for (std::size_t i = 0; i < *count && !broken_; ++i) take(found[i], now);
    taken += *count;
    if (*count != 0) continue;
    if (armed) break;
    end_->cq().arm();  // then polls again for completions from before
    armed = true;
  }
  shared_.in_batch = true;
  read_batch(now);
  if (puller_ && !broken_) puller_->run(now);
  if (lender_ && !broken_) lender_->run(now);
  shared_.in_batch = false;
  if (broken_) return false;
  tell_credits(now);
  notice_room();
  const bool waits = received_count_ != 0;
  if (!armed) run_soon();
  return !armed || (taken != 0 && waits);
}

void Pipe::take(const NicCompletion& completion, Instant now) {
  if (!completion.trouble.empty()) return break_off(completion.trouble);
  if ((completion.id & PipeEnd::kSendBit) != 0) {
    retired_ = (completion.id & ~PipeEnd::kSendBit) + 1;
    return;
  }
  last_heard_ = now;
  if (!heard_) {
    heard_ = true;
    shared_.attention = true;
    // The dialler waits for a first message before it uses the pipe.
    if (role_ == Role::kAcceptor && open_slot()) post_open(now);
  }
  take_slot(static_cast<std::uint32_t>(completion.id), completion.bytes, now);
}

void Pipe::take_slot(std::uint32_t slot, std::uint32_t bytes, Instant /*now*/) {
  const auto refuse = [this](const char* why) {
    ++shared_.errors.bad_frames;
    break_off(why);
  };
  if (bytes < kPipeHeadBytes || bytes > kSlotBytes) return refuse("a slot has an invalid size");
  NetworkReader head(end_->receive_slot(slot).first(kPipeHeadBytes));
  const auto told = head.take<std::uint32_t>();
  if (head.take<std::uint32_t>() != 0) return refuse("reserved bits of a slot's head are set");
  // The peer cannot repost more receives than this end has used.
  const std::uint64_t granted = credits_ - end_->peer_slots();
  const std::uint32_t more = told - static_cast<std::uint32_t>(granted);
  if (more > posted_ - granted) return refuse("the peer grants more credits than it can have");
  credits_ += more;
  if (bytes == kPipeHeadBytes) return repost(slot);
  received_[(first_received_ + received_count_) % kSlotsMax] = {slot, kPipeHeadBytes, bytes};
  ++received_count_;
}

void Pipe::read_batch(Instant now) {
  while (received_count_ != 0 && !broken_) {
    Received& front = received_[first_received_];
    if (front.begin != front.end) {
      if (!take_frame(front, now)) break;
      continue;
    }
    const std::uint32_t slot = front.slot;
    first_received_ = (first_received_ + 1) % kSlotsMax;
    --received_count_;
    repost(slot);
  }
}

bool Pipe::may_answer() const {
  return free_slots() >= kAnswerSlots;
}

bool Pipe::is_next(std::uint64_t sequence) {
  if (sequence == next_receive_) {
    ++next_receive_;
    return true;
  }
  ++shared_.errors.bad_sequence;
  break_off("a frame has the wrong sequence number");
  return false;
}

bool Pipe::take_bulk_frame(Received& from, std::span<const std::byte> rest, Instant now) {
  const auto refuse = [this](std::string_view why, std::string_view detail = {}) {
    ++shared_.errors.bad_frames;
    break_off(why, detail);
    return false;
  };
  BulkFrame frame;
  const BulkDecoded decoded = decode_bulk(rest, frame);
  if (decoded.bytes == 0) return refuse("a frame was refused: ", decoded.defect);
  const bool is_answer =
      std::holds_alternative<BulkAnswer>(frame.body) || std::holds_alternative<LentAnswer>(frame.body);
  const bool is_either = std::holds_alternative<BulkStopped>(frame.body);
  if (!is_either && is_answer != lender_.has_value())
    return refuse("a frame was refused: its kind is not expected here");
  if (const auto* lent = std::get_if<Lent>(&frame.body); lent != nullptr && frame.sequence == next_receive_) {
    if (puller_->take(*lent, now) == Puller::Taken::kNoRoom) return false;
  }
  if (broken_ || !is_next(frame.sequence)) return false;
  from.begin += static_cast<std::uint32_t>(decoded.bytes);
  if (const auto* offer = std::get_if<BulkOffer>(&frame.body)) puller_->on_offer(*offer, now);
  if (const auto* answer = std::get_if<BulkAnswer>(&frame.body)) lender_->on_answer(*answer, now);
  if (const auto* lent = std::get_if<LentAnswer>(&frame.body)) lender_->take(*lent, now);
  if (const auto* returned = std::get_if<BulkReturned>(&frame.body)) puller_->on_returned(*returned);
  if (const auto* stopped = std::get_if<BulkStopped>(&frame.body)) {
    if (lender_) lender_->on_stopped(*stopped);
    if (puller_) puller_->on_stopped(*stopped);
  }
  return !broken_;
}

bool Pipe::take_frame(Received& from, Instant now) {
  if (role_ == Role::kAcceptor && !may_answer()) return false;
  const auto refuse = [this](std::string_view why, std::string_view detail = {}) {
    ++shared_.errors.bad_frames;
    break_off(why, detail);
    return false;
  };
  const std::span<std::byte> rest = end_->receive_slot(from.slot).subspan(from.begin, from.end - from.begin);
  if (is_bulk_frame(rest)) return take_bulk_frame(from, rest, now);
  Puller::Taken taken = Puller::Taken::kNo;
  wire::Frame frame;
  const wire::Decoded decoded = wire::decode(rest, frame);
  if (decoded.state == wire::Decoded::State::kBad)
    return refuse("a frame was refused: ", wire::describe(decoded.defect));
  if (decoded.state != wire::Decoded::State::kComplete ||
      rest.size() - decoded.head_bytes < decoded.payload_bytes)
    return refuse("a frame does not fit into its slot");
  const auto payload = rest.subspan(decoded.head_bytes, decoded.payload_bytes);
  if (puller_ && frame.sequence == next_receive_) {
    if (const auto* request = std::get_if<verbs::Request>(&frame.body)) {
      taken = puller_->take(frame.segment, *request, payload);
      if (taken == Puller::Taken::kNoRoom) return false;
    }
  }
  if (!is_next(frame.sequence)) return false;
  from.begin += static_cast<std::uint32_t>(decoded.head_bytes + decoded.payload_bytes);
  if (const auto* goodbye = std::get_if<wire::Goodbye>(&frame.body)) {
    in_order_ = wire::is_in_order(goodbye->reason);
    break_off("the peer closed it: ", goodbye->sentence.view());
    return false;
  }
  const bool is_request = std::holds_alternative<verbs::Request>(frame.body) ||
                          std::holds_alternative<verbs::Datagram>(frame.body);
  const bool is_due =
      role_ == Role::kAcceptor ? is_request : std::holds_alternative<verbs::Response>(frame.body);
  if (!is_due) return refuse("a frame was refused: its kind is not expected here");
  if (taken == Puller::Taken::kNo) deliver(frame, payload, now);
  return true;
}

void Pipe::deliver(const wire::Frame& frame, std::span<std::byte> bytes, Instant now) {
  guestmem::SpanList spans;
  // A list always has room for one span.
  static_cast<void>(spans.append(bytes.data(), bytes.size()));
  verbs::SpanPayload payload(spans);
  Delivery delivery{};
  if (const auto* request = std::get_if<verbs::Request>(&frame.body)) {
    delivery = shared_.inbound.on_request(peer_, PathKind::kHca, frame.segment, *request, payload, now);
  } else if (const auto* response = std::get_if<verbs::Response>(&frame.body)) {
    delivery = shared_.inbound.on_response(peer_, frame.segment, *response, payload, now);
  } else if (const auto* datagram = std::get_if<verbs::Datagram>(&frame.body)) {
    delivery = shared_.inbound.on_datagram(peer_, frame.segment, *datagram, spans, now);
  }
  shared_.count(delivery);
}

void Pipe::repost(std::uint32_t slot) {
  if (!end_->post_receive(slot)) return break_off("the device refuses a receive");
  ++reposted_;
}

}  // namespace pvrdma::transport::hca
