#include "transport/hca/pipe.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/network_order.h"

namespace pvrdma::transport::hca {
namespace {

constexpr std::uint32_t pieces_of(std::uint32_t bytes) {
  return bytes == 0 ? 1 : (bytes - 1) / kSlotPayload + 1;
}

template <typename Message>
Message piece_of(Message message, std::uint32_t done, std::uint32_t bytes) {
  message.offset += done;
  message.bytes = bytes;
  return message;
}
// A datagram always fits into one slot.
verbs::Datagram piece_of(const verbs::Datagram& whole, std::uint32_t, std::uint32_t) {
  return whole;
}

}  // namespace

Pipe::Pipe(HcaShared& shared, Role role, HostId peer, std::unique_ptr<PipeEnd>& end, Instant now)
    : shared_(shared),
      role_(role),
      peer_(peer),
      last_heard_(now),
      last_sent_(now),
      credits_(end->peer_slots()) {
  if (role_ == Role::kDialler) {
    lender_.emplace(*this, shared_);
  } else {
    puller_.emplace(*this, shared_);
  }
  end_ = std::move(end);  // nothing below allocates
  end_->set_user(this);
  run_soon();  // completions from before were not reported to this pipe
  if (role_ == Role::kDialler && open_slot()) post_open(now);
  shared_.check_at(next_deadline());
}

Pipe::~Pipe() {
  PVRDMA_CHECK(end_ == nullptr, "what may sleep at its destruction is released before");
  if (active_) std::erase(shared_.active, this);
  if (unflushed_) std::erase(shared_.unflushed, this);
}

std::unique_ptr<PipeEnd> Pipe::release() {
  lender_.reset();
  if (puller_) {
    puller_->stop_everything();
    puller_->give_back();
    puller_.reset();
  }
  if (!broken_) break_off("closed");
  end_->set_user(nullptr);
  return std::move(end_);
}

std::uint32_t Pipe::free_slots() const {
  const std::uint64_t in_ring = end_->slots() - (posted_ - retired_) - (is_open_ ? 1 : 0);
  const std::uint64_t credits = credits_ - posted_ - (is_open_ ? 1 : 0);
  return static_cast<std::uint32_t>(
      std::min(in_ring, credits > kReservedCredits ? credits - kReservedCredits : 0));
}

std::uint32_t Pipe::room(std::uint32_t wanted) {
  const std::uint32_t slots = free_slots();
  if (slots == 0 || frame_waits_) {
    wanted_ = true;
    return 0;
  }
  return std::min(wanted, slots * kSlotPayload);
}

bool Pipe::take_drained() {
  return std::exchange(drained_, false);
}

// Begins the next slot, using a reserved credit if necessary. False: no slot is free, or no credit is left.
bool Pipe::open_slot() {
  if (posted_ - retired_ == end_->slots() || posted_ == credits_) return false;
  is_open_ = true;
  open_bytes_ = kPipeHeadBytes;
  return true;
}

void Pipe::post_open(Instant now) {
  const auto slot = static_cast<std::uint32_t>(posted_ % end_->slots());
  NetworkWriter head(end_->send_slot(slot).first(kPipeHeadBytes));
  head.put(static_cast<std::uint32_t>(reposted_));
  head.put(std::uint32_t{0});
  told_ = reposted_;
  is_open_ = false;
  last_sent_ = now;
  const std::uint64_t number = posted_++;
  if (!end_->post_send(slot, open_bytes_, number, number % kSignalEvery == kSignalEvery - 1))
    break_off("the device accepts no more work requests");
}

// The caller has made sure of room: free_slots(), or an open slot with enough space.
void Pipe::put(std::span<const std::byte> head, guestmem::SpanReader& payload, std::uint32_t bytes,
               Instant now) {
  const std::size_t all = head.size() + bytes;
  if (is_open_ && kSlotBytes - open_bytes_ < all) post_open(now);
  if (broken_ || (!is_open_ && !open_slot())) return;
  const std::span<std::byte> slot =
      end_->send_slot(static_cast<std::uint32_t>(posted_ % end_->slots())).subspan(open_bytes_);
  std::copy(head.begin(), head.end(), slot.begin());
  if (bytes != 0) payload.read(slot.data() + head.size(), bytes);
  open_bytes_ += static_cast<std::uint32_t>(all);
  flush_later();
}

template <typename Message>
bool Pipe::send_pieces(SegmentId segment, const Message& message, const guestmem::SpanList& payload,
                       Instant now) {
  const std::uint32_t total = wire::payload_bytes(message);
  guestmem::SpanReader reader(payload);
  std::uint32_t done = 0;
  do {
    const std::uint32_t bytes = std::min(total - done, kSlotPayload);
    wire::Head room;
    const auto head = total == bytes
                          ? wire::encode(next_send_, segment, message, room)
                          : wire::encode(next_send_, segment, piece_of(message, done, bytes), room);
    if (head.empty()) return true;  // treated as lost
    ++next_send_;
    put(head, reader, bytes, now);
    done += bytes;
  } while (done < total && !broken_);
  shared_.counters.payload_bytes += total;
  return true;
}

void Pipe::send(SegmentId segment, const verbs::Request& request, const guestmem::SpanList& payload,
                Instant now) {
  ++shared_.counters.requests;
  send_pieces(segment, request, payload, now);
}

bool Pipe::send(SegmentId segment, const verbs::Response& response, const guestmem::SpanList& payload,
                Instant now) {
  if (broken_ || free_slots() < pieces_of(response.bytes)) return false;
  ++shared_.counters.responses;
  return send_pieces(segment, response, payload, now);
}

bool Pipe::send(SegmentId segment, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                Instant now) {
  if (broken_ || free_slots() == 0) return false;
  ++shared_.counters.datagrams;
  return send_pieces(segment, datagram, payload, now);
}

bool Pipe::lend(const verbs::Engine& engine, SegmentId segment, const verbs::Request& request,
                const guestmem::SpanList& payload, Instant now) {
  if (broken_ || !lender_ || free_slots() == 0) return false;
  const Stripe stripe = stripe_of(segment, request.from, request.to, request.from);
  Runs runs;
  if (!lender_->lend(engine, stripe, payload, runs, now)) return false;
  BulkRoom room;
  const auto frame = encode_lent(next_send_, segment, request, runs, room);
  if (frame.empty() || !send_frame(frame)) return false;
  ++shared_.counters.requests;
  count_lent(request.bytes);
  return true;
}

bool Pipe::lend(SegmentId segment, const verbs::Response& response, std::uint32_t rkey,
                const guestmem::SpanList& payload) {
  if (broken_ || !puller_ || free_slots() == 0 || !puller_->lend(segment, response, rkey, payload))
    return false;
  ++shared_.counters.responses;
  count_lent(response.bytes);
  return true;
}

void Pipe::count_lent(std::uint32_t bytes) {
  shared_.counters.payload_bytes += bytes;
  ++shared_.bulk.lent;
  shared_.bulk.lent_bytes += bytes;
}

void Pipe::expect_loan(const verbs::Engine& engine, SegmentId segment, const verbs::Request& request,
                       Instant now) {
  if (lender_ && !broken_ && lends_answers())
    lender_->expect(engine, stripe_of(segment, request.from, request.to, request.from), now);
}

bool Pipe::send_frame(std::span<const std::byte> frame) {
  if (broken_ || free_slots() == 0) {
    wanted_ = frame_waits_ = true;
    return false;
  }
  const guestmem::SpanList nothing;
  guestmem::SpanReader reader(nothing);
  ++next_send_;
  put(frame, reader, 0, shared_.clock.now());
  return true;
}

void Pipe::stop(SegmentId segment, const verbs::Connection& connection) {
  if (lender_) lender_->stop(segment, connection);
  if (puller_) puller_->stop(segment, connection);
}

void Pipe::stop_all(const verbs::Engine& engine) {
  if (lender_) lender_->stop_all(engine);
  if (puller_) puller_->stop_all(engine);
}

void Pipe::turn(Instant now) {
  if (broken_ || !heard_) return;
  frame_waits_ = false;
  if (lender_) lender_->turn(now);
  if (puller_) puller_->turn(now);
  if (!frame_waits_) notice_room();
}

// Tells a sender that was refused room to ask again.
void Pipe::notice_room() {
  if (!wanted_ || free_slots() == 0) return;
  wanted_ = false;
  drained_ = true;
  shared_.attention = true;
}

void Pipe::flush_later() {
  if (unflushed_) return;
  unflushed_ = true;
  shared_.unflushed.push_back(this);
}

void Pipe::flush(Instant now) {
  unflushed_ = false;
  if (is_open_ && !broken_) post_open(now);
}

void Pipe::tell_credits(Instant now) {
  if (broken_ || is_open_ || reposted_ - told_ < end_->slots() / 4) return;
  if (open_slot()) post_open(now);
}

void Pipe::on_time(Instant now) {
  if (broken_) return;
  if (now >= last_heard_ + kSilenceMax) {
    ++shared_.errors.silent_peers;
    break_off("nothing arrived for 3 s");
    return;
  }
  // Without a free slot or a credit, the messages in progress already show whether the peer is alive.
  if (now >= last_sent_ + kPingPause && !is_open_ && open_slot()) post_open(now);
}

Instant Pipe::next_deadline() const {
  if (broken_) return Instant::never();
  const Instant next = std::min(last_heard_ + kSilenceMax, last_sent_ + kPingPause);
  return lender_ ? std::min(next, lender_->next_deadline()) : next;
}

void Pipe::close(wire::GoodbyeReason reason, std::string_view sentence, Instant now) {
  if (broken_) return;
  flush(now);
  if (!broken_ && free_slots() != 0) {
    wire::Head room;
    const guestmem::SpanList nothing;
    guestmem::SpanReader reader(nothing);
    put(wire::encode(next_send_++, wire::Goodbye{reason, wire::Sentence(sentence)}, room), reader, 0, now);
    if (is_open_ && !broken_) post_open(now);
  }
  in_order_ = true;
  broken_ = true;  // the QP lives until release(), so the goodbye can still be sent
  trouble_ = wire::Sentence(sentence);
  shared_.attention = true;
}

void Pipe::break_off(std::string_view trouble, std::string_view detail) {
  if (!broken_) trouble_ = wire::Sentence(trouble, detail);
  broken_ = true;
  is_open_ = false;
  if (end_ != nullptr) end_->fail();
  shared_.attention = true;
}

}  // namespace pvrdma::transport::hca
