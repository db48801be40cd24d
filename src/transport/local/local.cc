#include "transport/local/local.h"

namespace pvrdma::transport {
namespace {

class LocalChannel final : public Channel {
 public:
  LocalChannel(verbs::Engine& peer, Counters& counters) : peer_(peer), counters_(counters) {}

  verbs::Sent send_request(const verbs::Request& request, const guestmem::SpanList& payload,
                           Instant now) override {
    ++counters_.requests;
    counters_.payload_bytes += payload.bytes();
    verbs::SpanPayload bytes(payload);
    peer_.on_request(request, bytes, now);
    return verbs::Sent::kTaken;
  }

  void send_response(const verbs::Response& response, const guestmem::SpanList& payload,
                     Instant now) override {
    ++counters_.responses;
    counters_.payload_bytes += payload.bytes();
    verbs::SpanPayload bytes(payload);
    peer_.on_response(response, bytes, now);
  }

  void send_datagram(const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                     Instant now) override {
    ++counters_.datagrams;
    counters_.payload_bytes += payload.bytes();
    peer_.on_datagram(datagram, payload, now);
  }

 private:
  verbs::Engine& peer_;  // borrowed
  Counters& counters_;   // borrowed from Local
};

}  // namespace

std::unique_ptr<Channel> Local::open(verbs::Engine& peer) {
  return std::make_unique<LocalChannel>(peer, counters_);
}

}  // namespace pvrdma::transport
