#include "sim/lane_network.h"
#include "transport/tcp/lane_hash.h"

namespace pvrdma::sim {

using transport::HostId;
using transport::tcp::lane_hash;

class HostTransport::LanePath final : public verbs::Path {
 public:
  LanePath(HostTransport& transport, const transport::Place& place, const verbs::Connection& connection,
           transport::Traffic& traffic)
      : transport_(transport),
        traffic_(traffic),
        request_hash_(lane_hash(connection.local, connection.remote)),
        response_hash_(lane_hash(connection.remote, connection.local)),
        host_(place.host),
        segment_(place.segment) {}

  std::uint32_t room(std::uint32_t wanted, Instant /*now*/) override {
    return transport_.network_.has_room(transport_.self_, host_, request_hash_) ? wanted : 0;
  }
  void send_request(const verbs::Request& request, const guestmem::SpanList& payload, Instant now) override {
    ++transport_.counters_.requests;
    traffic_.count(payload);
    transport_.network_.send_out(transport_.self_, host_, request_hash_, segment_, request, payload, now);
  }
  void send_response(const verbs::Response& response, const guestmem::SpanList& payload,
                     Instant now) override {
    ++transport_.counters_.responses;
    traffic_.count(payload);
    transport_.network_.send_back(transport_.self_, host_, response_hash_, segment_, response, payload, now);
  }

 private:
  HostTransport& transport_;  // borrowed, like traffic_
  transport::Traffic& traffic_;
  const std::uint64_t request_hash_;
  const std::uint64_t response_hash_;
  const HostId host_;
  const transport::SegmentId segment_;
};

void HostTransport::open(const transport::Place& place, const verbs::Connection& connection,
                         transport::Traffic& traffic, verbs::PathSlot& slot) {
  slot.open<LanePath>(*this, place, connection, traffic);
}

bool HostTransport::send_datagram(const transport::Place& place, const verbs::Datagram& datagram,
                                  const guestmem::SpanList& payload, transport::Traffic& traffic,
                                  Instant now) {
  ++counters_.datagrams;
  traffic.count(payload);
  network_.send_out(self_, place.host, lane_hash(datagram.from, datagram.to), place.segment, datagram,
                    payload, now);
  return true;
}

}  // namespace pvrdma::sim
