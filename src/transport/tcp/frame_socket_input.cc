// The receiving half of FrameSocket.
#include <algorithm>
#include <fmt/core.h>
#include <new>

#include "transport/tcp/frame_socket.h"

namespace pvrdma::transport::tcp {
namespace {

// The most that one readiness event delivers, so that other descriptors get their turn.
constexpr std::uint64_t kBatchBytes = 1024 * 1024;
constexpr std::uint64_t kFrameCost = 512;  // the cost of a frame besides its payload: an engine's call
// How much TLS decrypts before a piece is handed on. Plain streams hand on whatever the kernel has.
constexpr std::size_t kPieceBytes = 64 * 1024;

constexpr std::string_view kNotDue = "a frame was refused: its kind is not expected here";

// The next `bytes` of a stream, which are ready to be read.
class StreamPayload final : public verbs::Payload {
 public:
  StreamPayload(Stream& stream, std::uint32_t bytes) : stream_(stream), bytes_(bytes) {}

  std::uint64_t bytes() const override { return bytes_; }
  bool copy_to(const guestmem::SpanList& target) override {
    if (used_ || target.bytes() > bytes_) return false;
    used_ = true;
    if (target.bytes() == 0) return true;
    moved_ = static_cast<std::uint32_t>(stream_.read_into(target));
    failed_ = moved_ != target.bytes();
    return !failed_;
  }
  // How far the stream has advanced.
  std::uint32_t moved() const { return moved_; }
  bool failed() const { return failed_; }

 private:
  Stream& stream_;
  const std::uint32_t bytes_;
  std::uint32_t moved_ = 0;
  bool used_ = false;
  bool failed_ = false;
};

// While this exists, output is gathered.
class Batch {
 public:
  explicit Batch(TcpShared& shared) : shared_(shared) { shared_.in_batch = true; }
  ~Batch() { shared_.in_batch = false; }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

 private:
  TcpShared& shared_;
};

}  // namespace

void FrameSocket::go_on(Instant now) {
  unfinished_ = false;
  try {
    if (state_ == State::kGreeting || state_ == State::kUp) receive(now);
  } catch (const std::bad_alloc&) {
    break_off("no memory");
  }
}

void FrameSocket::receive(Instant now) {
  batch_bytes_ = 0;
  drained_ = false;
  {
    const Batch batch(shared_);
    read_batch(now);
  }
  flush_all(shared_, now);
  if (!broken()) update_interest();
}

void FrameSocket::read_batch(Instant now) {
  while (!broken() && !paused_) {
    if (batch_bytes_ >= kBatchBytes) {
      if (!unfinished_) {
        unfinished_ = true;
        shared_.unfinished.push_back(this);
      }
      break;
    }
    const Step step = in_payload_ ? take_payload(now) : take_head(now);
    if (step == Step::kMore) continue;
    if (step == Step::kBlocked || !fill(now)) break;
  }
}

// Reads into the staging buffer, which is never full when more input is needed. False: there is no input now.
bool FrameSocket::fill(Instant now) {
  if (drained_) return false;
  if (staged_begin_ != 0) {
    std::copy(staging_.begin() + static_cast<std::ptrdiff_t>(staged_begin_),
              staging_.begin() + static_cast<std::ptrdiff_t>(staged_end_), staging_.begin());
    staged_end_ -= staged_begin_;
    staged_begin_ = 0;
  }
  const std::span<std::byte> room = std::span(staging_).subspan(staged_end_);
  const Transfer transfer = stream_->read_some(room);
  if (transfer.io == Io::kWouldBlock) return false;
  if (transfer.io != Io::kDone) {
    stream_ended(transfer.io);
    return false;
  }
  staged_end_ += transfer.bytes;
  batch_bytes_ += transfer.bytes;
  last_heard_ = now;
  // After a short read the kernel announces new input. TLS may hold input that nobody announces.
  drained_ = shared_.options.tls == nullptr && transfer.bytes < room.size();
  return true;
}

FrameSocket::Step FrameSocket::take_head(Instant now) {
  if (staged_end_ - staged_begin_ < head_wanted_) return Step::kFill;
  const wire::Decoded decoded = wire::decode(staged(), incoming_);
  switch (decoded.state) {
    case wire::Decoded::State::kNeedMore:
      head_wanted_ = decoded.head_bytes;
      return Step::kFill;
    case wire::Decoded::State::kBad:
      refuse(decoded, now);
      return Step::kBlocked;
    case wire::Decoded::State::kComplete:
      break;
  }
  head_wanted_ = wire::kHeaderBytes;
  staged_begin_ += decoded.head_bytes;
  batch_bytes_ += kFrameCost;
  if (incoming_.sequence != next_receive_) {
    ++shared_.errors.bad_sequence;
    close(wire::GoodbyeReason::kBadSequence,
          fmt::format("frame {} arrived where frame {} was expected", incoming_.sequence, next_receive_),
          now);
    return Step::kBlocked;
  }
  ++next_receive_;
  payload_total_ = decoded.payload_bytes;
  payload_done_ = 0;
  skipping_ = false;
  return take_frame(now);
}

FrameSocket::Step FrameSocket::take_frame(Instant now) {
  const wire::Body& body = incoming_.body;
  const bool dialler = role_ == Role::kDialler;
  if (state_ == State::kGreeting) {
    const bool expected =
        dialler ? std::holds_alternative<wire::Welcome>(body) || std::holds_alternative<wire::Reject>(body)
                : std::holds_alternative<wire::Hello>(body);
    if (!expected) {
      refuse(kNotDue, now);
      return Step::kBlocked;
    }
    user_.on_greeting(incoming_, now);
    // If the user neither established nor closed the connection, it would wait for a second greeting for
    // ever.
    if (state_ == State::kGreeting) refuse(kNotDue, now);
    return Step::kMore;
  }
  const bool request =
      std::holds_alternative<verbs::Request>(body) || std::holds_alternative<verbs::Datagram>(body);
  const bool response = std::holds_alternative<verbs::Response>(body);
  if (dialler ? response : request) {
    in_payload_ = true;
    return Step::kMore;
  }
  if (std::holds_alternative<wire::Ping>(body)) return Step::kMore;
  if (const auto* goodbye = std::get_if<wire::Goodbye>(&body)) {
    in_order_ = is_in_order(goodbye->reason);
    peer_stops_ = goodbye->reason == wire::GoodbyeReason::kStopping;
    drop(fmt::format("the peer closed it: {}", goodbye->sentence.view()));
    return Step::kBlocked;
  }
  refuse(kNotDue, now);
  return Step::kBlocked;
}

FrameSocket::Step FrameSocket::take_payload(Instant now) {
  const std::size_t here = staged_end_ - staged_begin_;
  const bool whole = payload_total_ <= staging_.size();
  if (whole && here < payload_total_) return Step::kFill;
  const std::uint32_t left = payload_total_ - payload_done_;
  if (!whole && here == 0) return take_from_stream(now);
  const auto bytes = static_cast<std::uint32_t>(std::min<std::size_t>(here, left));
  guestmem::SpanList spans;
  // One piece always fits.
  static_cast<void>(spans.append(staging_.data() + staged_begin_, bytes));
  verbs::SpanPayload payload(spans);
  deliver(bytes, payload, now);
  staged_begin_ += bytes;
  finish_payload(bytes);
  return Step::kMore;
}

FrameSocket::Step FrameSocket::take_from_stream(Instant now) {
  if (drained_) return Step::kBlocked;
  const std::uint32_t left = payload_total_ - payload_done_;
  const Transfer ready =
      stream_->ready(shared_.options.tls == nullptr ? 1 : std::min<std::size_t>(left, kPieceBytes));
  if (ready.bytes == 0) {
    if (ready.io != Io::kWouldBlock) stream_ended(ready.io);
    return Step::kBlocked;
  }
  const auto bytes = static_cast<std::uint32_t>(std::min<std::size_t>(ready.bytes, left));
  last_heard_ = now;
  StreamPayload payload(*stream_, bytes);
  deliver(bytes, payload, now);
  if (payload.failed()) {
    stream_ended(Io::kBroken);
    return Step::kBlocked;
  }
  // The rest of the payload that nobody took is read and discarded. The staging buffer is empty, so it can
  // hold the discarded bytes.
  for (std::uint32_t moved = payload.moved(); moved < bytes;) {
    if (broken()) return Step::kBlocked;
    const Transfer skipped =
        stream_->read_some(std::span(staging_).first(std::min<std::size_t>(bytes - moved, staging_.size())));
    if (skipped.io != Io::kDone) {
      stream_ended(skipped.io);
      return Step::kBlocked;
    }
    moved += static_cast<std::uint32_t>(skipped.bytes);
  }
  batch_bytes_ += bytes + kFrameCost;
  finish_payload(bytes);
  return Step::kMore;
}

// Hands on the next `bytes` of the payload, with a message that has only these bytes.
void FrameSocket::deliver(std::uint32_t bytes, verbs::Payload& payload, Instant now) {
  if (skipping_) return;
  const auto piece_of = [this, bytes](auto message) {
    if (payload_total_ != 0) {
      message.offset += payload_done_;
      message.bytes = bytes;
    }
    return message;
  };
  Delivery delivery{};
  if (const auto* request = std::get_if<verbs::Request>(&incoming_.body)) {
    delivery = shared_.inbound.on_request(peer_, PathKind::kTcp, incoming_.segment, piece_of(*request),
                                          payload, now);
  } else if (const auto* response = std::get_if<verbs::Response>(&incoming_.body)) {
    delivery = shared_.inbound.on_response(peer_, incoming_.segment, piece_of(*response), payload, now);
  } else if (const auto* datagram = std::get_if<verbs::Datagram>(&incoming_.body)) {
    guestmem::SpanList spans;
    static_cast<void>(spans.append(staging_.data() + staged_begin_, bytes));
    delivery = shared_.inbound.on_datagram(peer_, incoming_.segment, *datagram, spans, now);
  }
  switch (delivery) {
    case Delivery::kDelivered:
      return;
    case Delivery::kUnknownGid:
      ++shared_.errors.unknown_gids;
      break;
    case Delivery::kForeignSource:
      ++shared_.errors.foreign_sources;
      break;
  }
  skipping_ = true;
}

void FrameSocket::finish_payload(std::uint32_t bytes) {
  payload_done_ += bytes;
  if (payload_done_ == payload_total_) in_payload_ = false;
  if (role_ == Role::kAcceptor && output_.unsent() > kPauseBytes) paused_ = true;
}

void FrameSocket::refuse(const wire::Decoded& decoded, Instant now) {
  if (decoded.defect != wire::Defect::kVersion) {
    refuse(fmt::format("a frame was refused: {}", describe(decoded.defect)), now);
    return;
  }
  ++shared_.errors.wrong_version;
  const std::string why =
      fmt::format("host {} speaks protocol version {}, its peer {}: upgrade the older one",
                  shared_.options.host_name, wire::kProtocolVersion, decoded.version);
  if (role_ == Role::kAcceptor) {
    reject(wire::RejectReason::kWrongVersion, why, now);
  } else {
    close(wire::GoodbyeReason::kBadFrame, why, now);
  }
}

void FrameSocket::refuse(std::string_view why, Instant now) {
  ++shared_.errors.bad_frames;
  if (state_ == State::kGreeting && role_ == Role::kAcceptor) {
    reject(wire::RejectReason::kBadHello, why, now);
  } else {
    close(wire::GoodbyeReason::kBadFrame, why, now);
  }
}

void FrameSocket::stream_ended(Io io) {
  if (io == Io::kClosed) {
    break_off("the peer closed the connection");
  } else {
    break_off(stream_->trouble());
  }
}

}  // namespace pvrdma::transport::tcp
