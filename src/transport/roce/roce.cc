#include "transport/roce/roce.h"

#include <algorithm>
#include <fmt/core.h>
#include <new>
#include <utility>

#include "roce/frame.h"
#include "transport/nowhere.h"
#include "transport/roce/connection_pool.h"

namespace pvrdma::transport {
namespace {

using pvrdma::roce::Envelope;
using pvrdma::roce::Frame;
using pvrdma::roce::Packet;
using roce::ConnectionPool;

constexpr std::uint8_t kEcnMask = 3;
constexpr std::uint8_t kCongestionExperienced = 3;
constexpr std::uint32_t kFramesPerTurn = 16;  // answers of one connection
constexpr std::uint32_t kFramesPerRun = 256;  // answers of all connections on a link
constexpr std::uint32_t kMtuLogBurst = 5;
constexpr Duration kMtuLogInterval = std::chrono::seconds(10);

bool is_datagram(pvrdma::roce::Opcode opcode) {
  return pvrdma::roce::has(opcode, pvrdma::roce::kDeth);
}

verbs::Datagram to_datagram(const Frame& frame) {
  const Envelope& envelope = frame.envelope;
  const Packet& packet = frame.packet;
  const bool immediate = pvrdma::roce::has(packet.opcode, pvrdma::roce::kImmediate);
  verbs::Datagram datagram;
  datagram.from = {envelope.source, packet.source};
  datagram.to = {envelope.destination, packet.destination};
  datagram.qkey = packet.qkey;
  datagram.extra = immediate ? verbs::Extra::kImmediate : verbs::Extra::kNone;
  datagram.extra_value = packet.immediate;
  datagram.solicited = packet.solicited;
  datagram.bytes = static_cast<std::uint32_t>(packet.payload.size());
  datagram.flow_label = envelope.flow_label;
  datagram.traffic_class = envelope.traffic_class;
  datagram.hop_limit = envelope.hop_limit;
  datagram.roce = envelope.version;
  return datagram;
}

Frame to_frame(const verbs::Datagram& datagram, const Mac& source_mac, verbs::Psn psn) {
  Frame frame;
  Envelope& envelope = frame.envelope;
  envelope.source_mac = source_mac;
  envelope.destination_mac = datagram.next_hop;
  envelope.version = datagram.roce;
  envelope.source = datagram.from.gid;
  envelope.destination = datagram.to.gid;
  envelope.traffic_class = datagram.traffic_class;
  envelope.flow_label = datagram.flow_label;
  envelope.hop_limit = datagram.hop_limit != 0 ? datagram.hop_limit : pvrdma::roce::kHopLimit;
  envelope.source_port = pvrdma::roce::source_port(datagram.flow_label, datagram.from.qpn, datagram.to.qpn);
  Packet& packet = frame.packet;
  packet.opcode = datagram.extra == verbs::Extra::kImmediate ? pvrdma::roce::Opcode::kUdSendOnlyImmediate
                                                             : pvrdma::roce::Opcode::kUdSendOnly;
  packet.solicited = datagram.solicited;
  packet.destination = datagram.to.qpn;
  packet.psn = psn;
  packet.immediate = datagram.extra_value;
  packet.qkey = datagram.qkey;
  packet.source = datagram.from.qpn;
  return frame;
}

}  // namespace

// One link, the segment that it leads to, and the connections that have answers to send there.
class Roce::Segment final : public roce::FrameHandler {
 public:
  explicit Segment(Roce& roce) : roce_(roce) {}
  ~Segment() override {
    while (busy_.take() != nullptr) {
    }
  }

  void use(std::unique_ptr<roce::Link> link) { link_ = std::move(link); }
  roce::Link& link() const { return *link_; }
  void assign(std::optional<SegmentId> id) { id_ = id; }
  bool is(SegmentId id) const { return id_ == id; }

  // FrameHandler.
  void on_frame(std::span<const std::byte> bytes, Instant now) override;
  void on_burst_end(Instant now) override {
    answer();
    link_->flush(now);
  }
  void on_room(Instant now) override {
    answer();
    if (id_) roce_.inbound_.on_room(*id_);
    link_->flush(now);
  }

  void send(const verbs::Datagram& datagram, const Place& from, const guestmem::SpanList& payload);
  // Sends some of the pending answers. True: there are more, and room for them.
  bool answer();

 private:
  void on_packet(verbs::Engine& engine, const Frame& frame, Instant now);

  Roce& roce_;
  std::optional<SegmentId> id_;
  std::unique_ptr<roce::Link> link_;
  verbs::LinkedQueue<ConnectionPool::Entry, &ConnectionPool::Entry::busy_link> busy_;
  verbs::Psn datagram_psn_;
};

void Roce::Segment::on_frame(std::span<const std::byte> bytes, Instant now) {
  const auto frame = pvrdma::roce::parse(bytes);
  if (!frame) {
    ++roce_.errors_.bad_frames[static_cast<std::size_t>(frame.error())];
    return;
  }
  const Envelope& envelope = frame->envelope;
  // The link is a member of one VLAN and gets its frames without a tag. VLAN 0 is a tag for the priority.
  if (envelope.vlan.value_or(0) != 0 && (!id_ || *envelope.vlan != id_->vlan)) {
    ++roce_.errors_.foreign_vlan;
    return;
  }
  const NativeInbound::Admission admission =
      id_ ? roce_.inbound_.admit(*id_, envelope.source, envelope.destination, envelope.destination_mac)
          : NativeInbound::Admission{Entry::kUnknownGid, nullptr};
  if (admission.verdict != Entry::kAdmitted) {
    ++roce_.errors_.refused[static_cast<std::size_t>(admission.verdict)];
  } else if (admission.engine == nullptr) {
    ++roce_.errors_.port_down;
  } else if (is_datagram(frame->packet.opcode)) {
    admission.engine->on_datagram(to_datagram(*frame), pvrdma::roce::to_source(frame->packet.payload), now);
  } else {
    on_packet(*admission.engine, *frame, now);
  }
}

void Roce::Segment::on_packet(verbs::Engine& engine, const Frame& frame, Instant now) {
  ConnectionPool::Entry* entry = roce_.pool_->find(engine, frame.packet.destination);
  if (entry == nullptr) {
    ++roce_.errors_.no_qp;
    return;
  }
  pvrdma::roce::ConnectionState& connection = *entry->connection;
  const verbs::Connection& ends = connection.ends.connection;
  if (ends.remote.gid != frame.envelope.source || ends.local.gid != frame.envelope.destination) {
    ++roce_.errors_.bad_address;
    return;
  }
  ConnectionPool::hold(*entry);
  const bool marked = (frame.envelope.traffic_class & kEcnMask) == kCongestionExperienced;
  connection.on_packet(frame.packet, marked, now);
  if (connection.answerer.owes()) busy_.append(*entry);
  roce_.pool_->let_go(*entry);
}

bool Roce::Segment::answer() {
  for (std::uint32_t frames = 0; frames < kFramesPerRun;) {
    ConnectionPool::Entry* entry = busy_.take();
    if (entry == nullptr) return false;
    pvrdma::roce::ConnectionState& connection = *entry->connection;
    const std::uint32_t sent = connection.answerer.answer(
        connection.ends, roce_.way_out(&connection.ends.engine, *link_), kFramesPerTurn);
    if (connection.answerer.owes()) busy_.append(*entry);
    if (link_->room() == 0) return false;  // on_room() continues
    frames += sent != 0 ? sent : 1;
  }
  return !busy_.empty();
}

void Roce::Segment::send(const verbs::Datagram& datagram, const Place& from,
                         const guestmem::SpanList& payload) {
  pvrdma::roce::FrameSink& sink = roce_.way_out(from.sender, *link_);
  std::byte* const place = sink.place();
  if (place == nullptr) {
    ++roce_.errors_.datagrams_dropped;
    return;
  }
  datagram_psn_ = datagram_psn_.next();
  const Frame frame = to_frame(datagram, from.sender_mac, datagram_psn_);
  const std::size_t head = pvrdma::roce::build_head(frame, datagram.bytes, place);
  guestmem::SpanReader(payload).read(place + head, datagram.bytes);
  sink.send(pvrdma::roce::finish(frame, head, datagram.bytes, place));
}

class Roce::RocePath final : public verbs::Path {
 public:
  RocePath(Roce& roce, roce::Link& link, ConnectionPool::Entry& entry, Traffic& traffic)
      : Path(true), pool_(roce.pool_), roce_(roce), link_(link), entry_(entry), traffic_(traffic) {}
  ~RocePath() override { pool_->let_go(entry_); }

  std::string trouble() const override {
    if (std::string down = link_.trouble(); !down.empty()) return "its RoCE link is down: " + down;
    const pvrdma::roce::Ends& ends = entry_.connection->ends;
    return mtu_trouble(ends.engine, ends.connection, link_);
  }
  std::uint32_t room(std::uint32_t wanted, Instant /*now*/) override {
    return connection().sender.room(connection().ends, wanted, way_out());
  }
  std::uint32_t room_to_ask(std::uint32_t wanted, Instant /*now*/) override {
    return connection().sender.room_to_ask(connection().ends, wanted, way_out());
  }
  Duration repeat_after() const override { return entry_.connection->sender.repeat_after(); }
  void send_request(const verbs::Request& request, const guestmem::SpanList& payload, Instant now) override {
    ++roce_.counters_.requests;
    roce_.counters_.payload_bytes += payload.bytes();
    traffic_.count(payload);
    connection().sender.send_request(connection().ends, request, payload, way_out(), now);
  }
  void send_response(const verbs::Response& response, const guestmem::SpanList& payload,
                     Instant /*now*/) override {
    ++roce_.counters_.responses;
    traffic_.count(payload);
    connection().answerer.on_verdict(response);
  }

 private:
  pvrdma::roce::ConnectionState& connection() { return *entry_.connection; }
  pvrdma::roce::FrameSink& way_out() { return roce_.way_out(&connection().ends.engine, link_); }

  const std::shared_ptr<ConnectionPool> pool_;
  Roce& roce_;  // borrowed, as the next
  roce::Link& link_;
  ConnectionPool::Entry& entry_;  // owned by the pool
  Traffic& traffic_;
};

Roce::Roce(NativeInbound& inbound, const RoceOptions& options)
    : inbound_(inbound),
      pool_(std::make_shared<ConnectionPool>(options.connections_max)),
      mtu_log_(kMtuLogBurst, kMtuLogInterval) {}

Roce::~Roce() = default;

Result<std::size_t> Roce::add_link(
    const std::function<Result<std::unique_ptr<roce::Link>>(roce::FrameHandler&)>& open) {
  auto segment = std::make_unique<Segment>(*this);
  auto link = open(*segment);
  if (!link) return Failure(std::move(link).error());
  segment->use(*std::move(link));
  segments_.push_back(std::move(segment));
  return segments_.size() - 1;
}

void Roce::assign(std::size_t link, std::optional<SegmentId> segment) {
  segments_.at(link)->assign(segment);
}

std::string Roce::link_trouble(SegmentId segment) const {
  const Segment* found = find(segment);
  return found == nullptr ? std::string() : found->link().trouble();
}

roce::LinkCounters Roce::link_counters() const {
  roce::LinkCounters sum;
  for (const auto& segment : segments_) sum += segment->link().counters();
  return sum;
}

void Roce::set_filter(const verbs::Engine& sender, pvrdma::roce::FrameFilter* filter) {
  std::erase_if(filtered_, [&sender](const Filtered& each) { return each.sender == &sender; });
  if (filter != nullptr) filtered_.push_back({&sender, filter});
}

pvrdma::roce::FrameSink& Roce::way_out(const verbs::Engine* sender, roce::Link& link) const {
  if (filtered_.empty()) [[likely]]
    return link;
  const auto found = std::ranges::find(filtered_, sender, &Filtered::sender);
  return found != filtered_.end() ? found->filter->before(link) : link;
}

Roce::Segment* Roce::find(SegmentId segment) const {
  const auto found = std::find_if(segments_.begin(), segments_.end(),
                                  [segment](const auto& each) { return each->is(segment); });
  return found != segments_.end() ? found->get() : nullptr;
}

void Roce::open(const Place& place, const verbs::Connection& connection, Traffic& traffic,
                verbs::PathSlot& slot) {
  ConnectionPool::Entry* entry = pool_->hold(*place.sender, connection, place.sender_mac, packets_);
  if (entry == nullptr) {
    slot.open<Nowhere>(errors_.no_connection,
                       "it has no part of the budget of connections to native endpoints "
                       "(budgets.native_connections)");
    return;
  }
  roce::Link& link = find(place.segment)->link();
  if (entry->holders == 1) note_mtu(place, connection, link);
  slot.open<RocePath>(*this, link, *entry, traffic);
}

std::string Roce::mtu_trouble(const verbs::Engine& sender, const verbs::Connection& connection,
                              const roce::Link& link) {
  const auto state = sender.packets_received(connection);
  const auto link_bytes = state ? link.mtu_bytes() : std::nullopt;
  if (!link_bytes) return {};
  const std::size_t path_bytes = abi::mtu_bytes(state->mtu);
  const std::size_t needed = path_bytes + pvrdma::roce::kOverheadBytesMax;
  if (needed <= *link_bytes) return {};
  return fmt::format(
      "its path MTU is {}, which takes packets of up to {} bytes, and the MTU of its RoCE link {} is {}",
      path_bytes, needed, link.what(), *link_bytes);
}

void Roce::note_mtu(const Place& place, const verbs::Connection& connection, const roce::Link& link) {
  try {
    const std::string trouble = mtu_trouble(*place.sender, connection, link);
    if (trouble.empty()) return;
    ++errors_.path_mtu_above_link;
    mtu_note_ = fmt::format("QP {} of the adapter with MAC {}: {}: longer messages are lost",
                            connection.local.qpn.value, place.sender_mac.to_string(), trouble);
  } catch (const std::bad_alloc&) {  // only a log line is lost
  }
}

bool Roce::send_datagram(const Place& place, const verbs::Datagram& datagram,
                         const guestmem::SpanList& payload, Traffic& traffic, Instant /*now*/) {
  ++counters_.datagrams;
  counters_.payload_bytes += payload.bytes();
  traffic.count(payload);
  find(place.segment)->send(datagram, place, payload);
  return true;  // the link reports only to connections when it has room
}

void Roce::flush(Instant now) {
  if (!mtu_note_.empty()) [[unlikely]] {
    if (mtu_log_.allow(now)) log::warn("roce: {}{}", mtu_note_, log::held_back(mtu_log_));
    mtu_note_.clear();
  }
  for (const auto& segment : segments_) segment->link().flush(now);
}

bool Roce::run(Instant now) {
  bool more = false;
  for (const auto& segment : segments_) {
    more = segment->answer() || more;
    segment->link().flush(now);
  }
  return more;
}

}  // namespace pvrdma::transport
