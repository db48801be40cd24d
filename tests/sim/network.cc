#include "sim/network.h"

namespace pvrdma::sim {
namespace {

void give(verbs::Engine& to, const verbs::Request& m, const guestmem::SpanList& payload, Instant now) {
  to.on_request(m, payload, now);
}
void give(verbs::Engine& to, const verbs::Response& m, const guestmem::SpanList& payload, Instant now) {
  to.on_response(m, payload, now);
}
void give(verbs::Engine& to, const verbs::Datagram& m, const guestmem::SpanList& payload, Instant now) {
  to.on_datagram(m, payload, now);
}

}  // namespace

class Network::SimulatedChannel final : public transport::Channel {
 public:
  SimulatedChannel(Network& network, verbs::Engine& peer) : network_(network), peer_(peer) {}

  void send_request(const verbs::Request& request, const guestmem::SpanList& payload, Instant now) override {
    ++network_.counters_.requests;
    network_.accept(peer_, request, payload, now);
  }
  void send_response(const verbs::Response& response, const guestmem::SpanList& payload,
                     Instant now) override {
    ++network_.counters_.responses;
    network_.accept(peer_, response, payload, now);
  }
  void send_datagram(const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                     Instant now) override {
    ++network_.counters_.datagrams;
    network_.accept(peer_, datagram, payload, now);
  }

 private:
  Network& network_;
  verbs::Engine& peer_;
};

std::unique_ptr<transport::Channel> Network::open(verbs::Engine& peer) {
  return std::make_unique<SimulatedChannel>(*this, peer);
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

void Network::hand_over(Message& message, Instant now) {
  guestmem::SpanList payload;
  static_cast<void>(payload.append(message.payload.data(), message.payload.size()));
  std::visit([&](const auto& content) { give(*message.target, content, payload, now); }, message.content);
}

void Network::deliver(Instant now) {
  while (next_arrival() <= now) {
    auto arrived = under_way_.extract(under_way_.begin());
    hand_over(arrived.mapped(), now);
  }
}

}  // namespace pvrdma::sim
