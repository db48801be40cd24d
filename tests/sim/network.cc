#include "sim/network.h"

#include "sim/arrived_bytes.h"

namespace pvrdma::sim {
namespace {

void give(verbs::Engine& to, const verbs::Request& m, const guestmem::SpanList& payload, Instant now,
          bool torn = false) {
  ArrivedBytes bytes(payload, torn);
  to.on_request(m, bytes, now);
}
void give(verbs::Engine& to, const verbs::Response& m, const guestmem::SpanList& payload, Instant now,
          bool torn = false) {
  ArrivedBytes bytes(payload, torn);
  to.on_response(m, bytes, now);
}
void give(verbs::Engine& to, const verbs::Datagram& m, const guestmem::SpanList& payload, Instant now) {
  to.on_datagram(m, payload, now);
}

}  // namespace

class Network::SimulatedPath final : public verbs::Path {
 public:
  SimulatedPath(Network& network, verbs::Engine& peer, transport::Traffic& traffic)
      : network_(network), peer_(peer), traffic_(traffic) {}

  std::uint32_t room(std::uint32_t wanted, Instant now) override { return network_.room(wanted, now); }
  void send_request(const verbs::Request& request, const guestmem::SpanList& payload, Instant now) override {
    ++network_.counters_.requests;
    traffic_.count(payload);
    network_.accept(peer_, request, payload, now);
  }
  void send_response(const verbs::Response& response, const guestmem::SpanList& payload,
                     Instant now) override {
    ++network_.counters_.responses;
    traffic_.count(payload);
    network_.accept(peer_, response, payload, now);
  }

 private:
  Network& network_;
  verbs::Engine& peer_;
  transport::Traffic& traffic_;
};

void Network::open(const transport::Place& place, const verbs::Connection& /*connection*/,
                   transport::Traffic& traffic, verbs::PathSlot& slot) {
  slot.open<SimulatedPath>(*this, *place.engine, traffic);
}

bool Network::send_datagram(const transport::Place& place, const verbs::Datagram& datagram,
                            const guestmem::SpanList& payload, transport::Traffic& traffic, Instant now) {
  ++counters_.datagrams;
  traffic.count(payload);
  accept(*place.engine, datagram, payload, now);
  return !is_busy(now);
}

std::uint32_t Network::room(std::uint32_t wanted, Instant now) {
  if (is_busy(now)) return 0;
  return random_.chance(weather.part_per_mille) ? random_.between(1, wanted) : wanted;
}

template <typename Content>
void Network::accept(verbs::Engine& target, const Content& content, const guestmem::SpanList& payload,
                     Instant now) {
  counters_.payload_bytes += payload.bytes();
  if (cuts_.contains(std::minmax(content.from.gid, content.to.gid))) {
    ++dropped_;
    return;
  }
  if (weather.immediate) return give(target, content, payload, now);

  int copies = 1;
  if (random_.chance(weather.duplicate_per_mille)) {
    ++copies;
    ++doubled_;
  }
  for (int copy = 0; copy < copies; ++copy) {
    if (random_.chance(weather.drop_per_mille)) {
      ++dropped_;
      continue;
    }
    const Instant at = now + (weather.delay_min + random_.up_to(weather.delay_max - weather.delay_min));
    Message& message =
        under_way_.emplace(std::pair(at, ++sent_), Message{&target, content, {}}).first->second;
    for (const guestmem::HostSpan& piece : payload) {
      message.payload.insert(message.payload.end(), piece.data, piece.data + piece.size);
    }
  }
}

bool Network::is_busy(Instant now) {
  const bool may_begin = busy_until_ == Instant::never() && taken_since_busy_ >= kTakenBetween;
  if (may_begin && random_.chance(weather.refuse_per_mille)) {
    busy_until_ = now + random_.up_to(weather.busy_max);
    taken_since_busy_ = 0;
  }
  const bool busy = busy_until_ != Instant::never();
  ++(busy ? refused_ : taken_since_busy_);
  return busy;
}

bool Network::take_ready(Instant now) {
  if (busy_until_ > now) return false;
  busy_until_ = Instant::never();
  return true;
}

void Network::lose_all(const verbs::Gid& a, const verbs::Gid& b) {
  dropped_ += std::erase_if(under_way_, [&](const auto& entry) {
    return std::visit(
        [&](const auto& content) {
          return std::minmax(content.from.gid, content.to.gid) == std::minmax(a, b);
        },
        entry.second.content);
  });
}

void Network::redirect(const verbs::Engine* from, verbs::Engine& to) {
  for (auto& [arrival, message] : under_way_) {
    if (message.target == from) message.target = &to;
  }
}

void Network::hand_over(Message& message, Instant now) {
  const bool whole = message.payload.empty() || std::holds_alternative<verbs::Datagram>(message.content);
  if (!whole && random_.chance(weather.pieces_per_mille)) return hand_over_in_pieces(message, now);
  guestmem::SpanList payload;
  static_cast<void>(payload.append(message.payload.data(), message.payload.size()));
  std::visit([&](const auto& content) { give(*message.target, content, payload, now); }, message.content);
}

void Network::hand_over_in_pieces(Message& message, Instant now) {
  const auto total = static_cast<std::uint32_t>(message.payload.size());
  std::uint32_t at = 0;
  while (at != total) {
    const std::uint32_t bytes = random_.between(1, total - at);
    const bool torn = random_.chance(weather.torn_per_mille);
    guestmem::SpanList payload;
    static_cast<void>(payload.append(message.payload.data() + at, bytes));
    const auto give_piece = [&](auto piece) {
      piece.offset += at;
      piece.bytes = bytes;
      give(*message.target, piece, payload, now, torn);
    };
    if (const auto* request = std::get_if<verbs::Request>(&message.content)) give_piece(*request);
    if (const auto* response = std::get_if<verbs::Response>(&message.content)) give_piece(*response);
    if (torn) {
      ++torn_;
      return;
    }
    at += bytes;
  }
}

void Network::deliver(Instant now) {
  while (!under_way_.empty() && under_way_.begin()->first.first <= now) {
    auto arrived = under_way_.extract(under_way_.begin());
    hand_over(arrived.mapped(), now);
  }
}

}  // namespace pvrdma::sim
