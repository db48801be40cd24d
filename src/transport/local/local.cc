#include "transport/local/local.h"

namespace pvrdma::transport {
namespace {

class LocalPath final : public verbs::Path {
 public:
  LocalPath(verbs::Engine& peer, Counters& counters, Traffic& traffic)
      : peer_(peer), counters_(counters), traffic_(traffic) {}

  std::uint32_t room(std::uint32_t wanted, Instant /*now*/) override { return wanted; }

  void send_request(const verbs::Request& request, const guestmem::SpanList& payload, Instant now) override {
    ++counters_.requests;
    counters_.payload_bytes += payload.bytes();
    traffic_.count(payload);
    verbs::SpanPayload bytes(payload);
    peer_.on_request(request, bytes, now);
  }

  void send_response(const verbs::Response& response, const guestmem::SpanList& payload,
                     Instant now) override {
    ++counters_.responses;
    counters_.payload_bytes += payload.bytes();
    traffic_.count(payload);
    verbs::SpanPayload bytes(payload);
    peer_.on_response(response, bytes, now);
  }

 private:
  verbs::Engine& peer_;  // borrowed, like the other members
  Counters& counters_;
  Traffic& traffic_;
};

}  // namespace

void Local::open(const Place& place, const verbs::Connection& /*connection*/, Traffic& traffic,
                 verbs::PathSlot& slot) {
  slot.open<LocalPath>(*place.engine, counters_, traffic);
}

bool Local::send_datagram(const Place& place, const verbs::Datagram& datagram,
                          const guestmem::SpanList& payload, Traffic& traffic, Instant now) {
  ++counters_.datagrams;
  counters_.payload_bytes += payload.bytes();
  traffic.count(payload);
  place.engine->on_datagram(datagram, payload, now);
  return true;
}

}  // namespace pvrdma::transport
