// NoInbound: an Inbound for tests in which no message arrives, or which overrides what it is told. Thread:
// one at a time.
#pragma once

#include "transport/transport.h"

namespace pvrdma::transport {

struct NoInbound : Inbound {
  Delivery on_request(HostId, PathKind, SegmentId, const verbs::Request&, verbs::Payload&, Instant) override {
    return Delivery::kUnknownGid;
  }
  Delivery on_response(HostId, SegmentId, const verbs::Response&, verbs::Payload&, Instant) override {
    return Delivery::kUnknownGid;
  }
  Delivery on_datagram(HostId, SegmentId, const verbs::Datagram&, const guestmem::SpanList&,
                       Instant) override {
    return Delivery::kUnknownGid;
  }
  void on_ready(HostId, Instant) override {}
  void on_restored(HostId, Instant) override {}
  void on_up_changed(HostId, Instant) override {}
};

}  // namespace pvrdma::transport
