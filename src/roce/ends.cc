#include "roce/ends.h"

namespace pvrdma::roce {
namespace {

Envelope envelope_of(const verbs::Connection& ends, const Mac& mac) {
  const verbs::Route& route = ends.route;
  return {.source_mac = mac,
          .destination_mac = route.next_hop,
          .version = route.roce,
          .source = ends.local.gid,
          .destination = ends.remote.gid,
          .traffic_class = route.traffic_class,
          .flow_label = route.flow_label,
          .hop_limit = route.hop_limit != 0 ? route.hop_limit : kHopLimit,
          .source_port = source_port(route.flow_label, ends.local.qpn, ends.remote.qpn)};
}

}  // namespace

Ends::Ends(verbs::Engine& sending_engine, const verbs::Connection& ends, const Mac& mac, Counters& counted)
    : engine(sending_engine), connection(ends), envelope(envelope_of(ends, mac)), counters(counted) {}

bool Ends::send(Packet packet, std::uint32_t payload_bytes, guestmem::SpanReader& payload,
                FrameSink& sink) const {
  std::byte* const place = sink.place();
  if (place == nullptr) return false;
  packet.destination = connection.remote.qpn;
  const Frame frame{envelope, packet};
  const std::size_t head = build_head(frame, payload_bytes, place);
  payload.read(place + head, payload_bytes);
  sink.send(finish(frame, head, payload_bytes, place));
  return true;
}

bool Ends::send(const Packet& packet, FrameSink& sink) const {
  const guestmem::SpanList nothing;
  guestmem::SpanReader reader(nothing);
  return send(packet, 0, reader, sink);
}

}  // namespace pvrdma::roce
