#include "transport/siblings/siblings.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/nowhere.h"
#include "transport/siblings/sibling.h"

namespace pvrdma::transport {

using siblings::AdapterShare;
using siblings::kCopyBytesMax;
using siblings::MessageKind;
using siblings::RingReader;
using siblings::RingWriter;
using siblings::Sibling;
using siblings::Slot;
using siblings::SlotPayload;
using siblings::Where;

namespace {

// What is read of one ring in a turn.
constexpr std::uint32_t kMessagesPerTurn = 128;
constexpr std::uint64_t kBytesPerTurn = 512 * 1024;
// Of all connections to one sibling, which takes a look at each QP.
constexpr Duration kRepetitionsApart = std::chrono::milliseconds(1);

bool is_from(const Slot& slot, SegmentId segment, const verbs::Connection& connection) {
  if (slot.segment() != segment) return false;
  switch (slot.kind) {
    case MessageKind::kRequest:
      return slot.message.request.from == connection.local && slot.message.request.to == connection.remote;
    case MessageKind::kResponse:
      return slot.message.response.from == connection.local && slot.message.response.to == connection.remote;
    case MessageKind::kDatagram:
      return false;
  }
  return false;
}

guestmem::SpanList part_of(const guestmem::SpanList& payload, std::uint64_t offset, std::uint64_t bytes) {
  guestmem::SpanList part;
  for (const guestmem::HostSpan& piece : payload) {
    if (offset >= piece.size) {
      offset -= piece.size;
      continue;
    }
    const std::uint64_t taken = std::min<std::uint64_t>(piece.size - offset, bytes - part.bytes());
    if (taken == 0 || !part.append(piece.data + offset, static_cast<std::size_t>(taken))) break;
    offset = 0;
  }
  return part;
}

}  // namespace

// Everything that a path may still use after the transport has ended.
struct Siblings::Core {
  Core(std::shared_ptr<siblings::HostRings> all_rings, ShardNumber number)
      : rings(std::move(all_rings)), own(number) {
    for (std::uint16_t i = 0; i < rings->shards(); ++i) {
      if (ShardNumber(i) != own) others.push_back(std::make_unique<Sibling>(*rings, own, ShardNumber(i)));
    }
  }

  // The sibling's place among `others`, and in an adapter's shares.
  std::size_t index_of(ShardNumber shard) const { return shard < own ? shard.value : shard.value - 1U; }
  template <typename IsOne>
  void revoke(IsOne is_one) {
    for (const auto& other : others) other->revoke(is_one);
  }

  const std::shared_ptr<siblings::HostRings> rings;
  const ShardNumber own;
  std::vector<std::unique_ptr<Sibling>> others;  // without this shard
  std::unordered_map<const verbs::Engine*, std::vector<AdapterShare>> shares;
  Counters counters;  // of messages to siblings
  std::uint64_t lost = 0;
};

class Siblings::SiblingPath final : public verbs::Path {
 public:
  SiblingPath(std::shared_ptr<Core> core, const Place& place, AdapterShare& share, Traffic& traffic)
      : Path(false, place.copies ? ~0U : RingWriter::kBesideBytesMax + 1),
        core_(std::move(core)),
        share_(share),
        traffic_(traffic),
        dvs_(place.segment.dvs),
        vlan_(place.segment.vlan),
        index_(static_cast<std::uint8_t>(core_->index_of(place.shard))) {}
  // What was copied may still arrive, as over a network: it is no guest's memory. But of a connection whose
  // memory is lent, nothing is executed after a gap, and so nothing at all.
  ~SiblingPath() override {
    if (copies()) return;
    sibling().revoke([this](const RingWriter::Sent& sent, const Slot&) { return sent.path == this; });
  }

  // Whether it leads to the same place by the same rings.
  bool is_same(const Core& core, const Place& place, const AdapterShare& share) const {
    return core_.get() == &core && core_->index_of(place.shard) == index_ && segment() == place.segment &&
           &share_ == &share && copies() == place.copies;
  }

  std::uint32_t room(std::uint32_t wanted, Instant /*now*/) override {
    if (!sibling().requests.has_room(share_)) return 0;
    return copies() ? std::min(wanted, kCopyBytesMax) : wanted;
  }
  std::uint32_t room_to_ask(std::uint32_t wanted, Instant now) override { return room(wanted, now); }

  void send_request(const verbs::Request& request, const guestmem::SpanList& payload,
                    Instant /*now*/) override {
    count(core_->counters.requests, payload);
    begin(request);
    if (payload.bytes() > kCopyBytesMax ||
        !sibling().requests.send(request, segment(), {share_, this, request.from.qpn}, payload))
      return void(++core_->lost);
    note_sent(request);
  }
  bool lend_request(const verbs::Request& request, const guestmem::SpanList& payload,
                    Instant /*now*/) override {
    begin(request);
    if (!sibling().requests.lend(request, segment(), {share_, this, request.from.qpn}, payload)) return false;
    note_sent(request);
    count(core_->counters.requests, payload);
    return true;
  }

  // An answer that is too long to be copied at once, and not lent, goes in parts. The rest is asked for
  // again.
  void send_response(const verbs::Response& response, const guestmem::SpanList& payload,
                     Instant /*now*/) override {
    count(core_->counters.responses, payload);
    const RingWriter::Sender sender{share_, this, response.from.qpn};
    RingWriter& answers = sibling().answers;
    if (payload.bytes() <= kCopyBytesMax) {
      if (!answers.send(response, segment(), sender, payload)) ++core_->lost;
      return;
    }
    verbs::Response part = response;
    for (std::uint64_t at = 0; at < payload.bytes(); at += part.bytes) {
      const guestmem::SpanList bytes = part_of(payload, at, kCopyBytesMax);
      part.offset = response.offset + static_cast<std::uint32_t>(at);
      part.bytes = static_cast<std::uint32_t>(bytes.bytes());
      if (answers.send(part, segment(), sender, bytes)) continue;
      ++core_->lost;
      return;
    }
  }
  bool lend_response(const verbs::Response& response, std::uint32_t rkey, const guestmem::SpanList& payload,
                     Instant /*now*/) override {
    if (!sibling().answers.lend(response, segment(), {share_, this, response.from.qpn, rkey}, payload))
      return false;
    count(core_->counters.responses, payload);
    return true;
  }

 private:
  Sibling& sibling() const { return *core_->others[index_]; }
  SegmentId segment() const { return {dvs_, vlan_}; }
  bool copies() const { return lends_from() == ~0U; }

  void count(std::uint64_t& messages, const guestmem::SpanList& payload) {
    ++messages;
    core_->counters.payload_bytes += payload.bytes();
    traffic_.count(payload);
  }

  void begin(const verbs::Request& request) {
    const std::int32_t ahead = has_sent_ ? verbs::distance(request.number, last_) : 1;
    const bool ascends = ahead > 0 || (ahead == 0 && request.offset >= last_end_);
    if (!ascends) sibling().revoke_repeated(this);
  }
  void note_sent(const verbs::Request& request) {
    has_sent_ = true;
    last_ = request.number;
    last_end_ = request.end();
  }

  const std::shared_ptr<Core> core_;
  AdapterShare& share_;  // borrowed, as the next one
  Traffic& traffic_;
  verbs::MessageNumber last_;
  std::uint32_t last_end_ = 0;
  // A segment, without its padding.
  const std::uint32_t dvs_;
  const std::uint16_t vlan_;
  const std::uint8_t index_;
  bool has_sent_ = false;
};

Result<std::unique_ptr<Siblings>> Siblings::create(std::shared_ptr<siblings::HostRings> rings,
                                                   ShardNumber own, shard::Loop& loop,
                                                   SiblingInbound& inbound) {
  const int bell = rings->bell(own).fd();
  auto core = std::make_shared<Core>(std::move(rings), own);
  std::unique_ptr<Siblings> made(new Siblings(std::move(core), loop, inbound));
  if (auto watched = loop.watch(bell, shard::Interest::kRead, *made); !watched)
    return Failure(watched.error());
  made->is_watched_ = true;
  loop.add(*made);
  return made;
}

Siblings::Siblings(std::shared_ptr<Core> core, shard::Loop& loop, SiblingInbound& inbound)
    : core_(std::move(core)), loop_(loop), inbound_(inbound) {}

Siblings::~Siblings() {
  if (!is_watched_) return;
  loop_.unwatch(core_->rings->bell(core_->own).fd());
  loop_.remove(*this);
}

void Siblings::join(verbs::Engine& engine) {
  std::vector<AdapterShare> shares(core_->others.size());
  for (AdapterShare& each : shares) each.engine = &engine;
  core_->shares.insert_or_assign(&engine, std::move(shares));
}

void Siblings::open(const Place& place, const verbs::Connection& connection, Traffic& traffic,
                    verbs::PathSlot& slot) {
  if (place.engine != nullptr) return Local::open(place, connection, traffic, slot);
  const auto known = core_->shares.find(place.sender);
  if (known == core_->shares.end()) {
    slot.open<Nowhere>(core_->lost, "its adapter has not joined the rings of the shards");
    return;
  }
  AdapterShare& share = known->second[core_->index_of(place.shard)];
  if (slot.is_open()) {
    const auto* const open = dynamic_cast<const SiblingPath*>(&*slot);
    if (open != nullptr && open->is_same(*core_, place, share)) return;
  }
  slot.open<SiblingPath>(core_, place, share, traffic);
}

bool Siblings::send_datagram(const Place& place, const verbs::Datagram& datagram,
                             const guestmem::SpanList& payload, Traffic& traffic, Instant now) {
  if (place.engine != nullptr) return Local::send_datagram(place, datagram, payload, traffic, now);
  ++core_->counters.datagrams;
  core_->counters.payload_bytes += payload.bytes();
  traffic.count(payload);
  const auto known = core_->shares.find(place.sender);
  if (known == core_->shares.end() || payload.bytes() > kCopyBytesMax) {
    ++core_->lost;
    return true;
  }
  const std::size_t index = core_->index_of(place.shard);
  AdapterShare& share = known->second[index];
  RingWriter& requests = core_->others[index]->requests;
  if (!requests.has_room_for_datagram(share) ||
      !requests.send(datagram, place.segment, {share, nullptr, datagram.from.qpn}, payload))
    ++core_->lost;
  return requests.has_room(share);
}

void Siblings::stop(SegmentId segment, const verbs::Connection& connection) {
  core_->revoke(
      [&](const RingWriter::Sent&, const Slot& slot) { return is_from(slot, segment, connection); });
}

void Siblings::stop_all(const verbs::Engine& engine) {
  core_->revoke([&engine](const RingWriter::Sent& sent, const Slot&) {
    return sent.share != nullptr && static_cast<AdapterShare*>(sent.share)->engine == &engine;
  });
}

void Siblings::take_back(const verbs::Engine& engine, std::span<const std::byte> memory) {
  stop_all(engine);
  if (!memory.empty()) return;
  const auto known = core_->shares.find(&engine);
  if (known == core_->shares.end()) return;
  for (std::size_t i = 0; i < core_->others.size(); ++i) core_->others[i]->forget(known->second[i]);
  core_->shares.erase(known);
}

// As if answers to them had been revoked.
void Siblings::have_all_repeated(ShardNumber sibling) {
  core_->others[core_->index_of(sibling)]->answers.tell_restored();
}

const Counters& Siblings::counters() const {
  const Counters& own = Local::counters();
  const Counters& others = core_->counters;
  sum_ = {.requests = own.requests + others.requests,
          .responses = own.responses + others.responses,
          .datagrams = own.datagrams + others.datagrams,
          .payload_bytes = own.payload_bytes + others.payload_bytes};
  return sum_;
}

void Siblings::flush(Instant /*now*/) {
  for (const auto& other : core_->others) other->flush();
}

namespace {

// Hands over what has come, until `is_stopped`, or the turn's share is used up. Returns whether there was
// any.
template <typename MayRead, typename Deliver>
bool read(RingReader& reader, MayRead may_read, Deliver deliver) {
  bool any = false;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < kMessagesPerTurn && bytes < kBytesPerTurn && may_read(); ++i) {
    const Slot* const slot = reader.next();
    if (slot == nullptr) break;
    bytes += slot->payload_bytes();
    deliver(*slot);
    reader.pass();
    any = true;
  }
  return any;
}

}  // namespace

bool Siblings::run(Instant now) {
  if (lies_) wake();
  bool any = false;
  const std::size_t count = core_->others.size();
  if (++first_ >= count) first_ = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t index = first_ + i;
    any |= serve(*core_->others[index < count ? index : index - count], now);
  }
  flush(now);
  if (any) loop_.found_in_memory(now);
  return any;
}

bool Siblings::serve(Sibling& sibling, Instant now) {
  bool any = sibling.announce(inbound_, now);
  if (sibling.answers_in.take_restored()) sibling.wants_repetition = true;
  if (sibling.wants_repetition && now - sibling.repeated_at >= kRepetitionsApart) {
    sibling.wants_repetition = false;
    sibling.repeated_at = now;
    inbound_.on_restored(sibling.number, now);
    any = true;
  }
  if (sibling.requests.has_room_again() || sibling.has_room_again) {
    sibling.has_room_again = false;
    inbound_.on_room();
    any = true;
  }
  RingWriter::Returned returned;
  while (sibling.answers.take_returned(returned)) {
    if (returned.share == nullptr) continue;
    static_cast<AdapterShare*>(returned.share)->engine->on_returned(returned.qpn, returned.rkey);
  }
  any |= read(
      sibling.answers_in, [] { return true; },
      [&](const Slot& slot) {
        const verbs::Response& answer = slot.message.response;
        const auto admission = inbound_.admit(sibling.number, slot.segment(), answer.from.gid, answer.to.gid);
        if (admission.engine == nullptr || admission.is_early) return void(++core_->lost);
        sibling.revoke_answered(slot.segment(), answer);
        SlotPayload payload(sibling.way_in.answers, slot, loop_.blame(), admission.lender);
        admission.engine->on_response(answer, payload, now);
      });
  any |= read(
      sibling.requests_in, [&] { return sibling.answers.has_room_for_answers(); },
      [&](const Slot& slot) { deliver(sibling, slot, now); });
  return any;
}

void Siblings::deliver(Sibling& sibling, const Slot& slot, Instant now) {
  if (slot.kind == MessageKind::kDatagram) {
    const verbs::Datagram& datagram = slot.message.datagram;
    const auto admission = inbound_.admit(sibling.number, slot.segment(), datagram.from.gid, datagram.to.gid);
    if (admission.engine == nullptr || admission.is_early) return void(++core_->lost);
    const SlotPayload payload(sibling.way_in.requests, slot, loop_.blame(), nullptr);
    admission.engine->on_datagram(datagram, payload.copied(), now);
    return;
  }
  const verbs::Request& request = slot.message.request;
  const auto admission = inbound_.admit(sibling.number, slot.segment(), request.from.gid, request.to.gid);
  if (admission.engine == nullptr) return void(++core_->lost);
  if (admission.is_early) return admission.engine->on_early_request(request, verbs::PeerPlace(0), now);
  SlotPayload payload(sibling.way_in.requests, slot, loop_.blame(), admission.lender);
  admission.engine->on_request(request, payload, now);
}

// The order: what commands have sent since the last turn is flushed, the readers say how far they have read,
// the bell says that the shard sleeps, and then everything that the shard waits for is looked at once more.
// What is found now may have come before the bell could ring.
bool Siblings::may_sleep() {
  for (const auto& each : core_->others) {
    each->flush();
    each->requests_in.before_sleep();
    each->answers_in.before_sleep();
  }
  core_->rings->bell(core_->own).lie_down();
  lies_ = true;
  return std::ranges::none_of(core_->others, [](const auto& each) {
    if (each->requests.has_room_again()) each->has_room_again = true;
    if (each->has_room_again || each->owes_news() || each->answers_in.has_something()) return true;
    return each->answers.waits() ? each->answers.has_room_again() : each->requests_in.has_something();
  });
}

// Of a repetition that was put off.
Instant Siblings::next_deadline() const {
  Instant next = Instant::never();
  for (const auto& each : core_->others) {
    if (each->wants_repetition) next = std::min(next, each->repeated_at + kRepetitionsApart);
  }
  return next;
}

void Siblings::on_fd_ready(int /*fd*/, shard::Readiness /*ready*/) {
  wake();
}

void Siblings::wake() {
  core_->rings->bell(core_->own).get_up();
  lies_ = false;
}

Siblings::RingCounters Siblings::ring_counters() const {
  RingCounters sum{.lost = core_->lost};
  for (const auto& each : core_->others) {
    for (const RingWriter* writer : {&each->requests, &each->answers}) {
      sum.revoked += writer->counters().revoked;
      sum.revoke_waits += writer->counters().revoke_waits;
    }
  }
  return sum;
}

}  // namespace pvrdma::transport
