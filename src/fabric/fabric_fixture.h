// Shared by the fabric's tests: a transport that records instead of sending, and adapters that consist of
// their engines only. Thread: one.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "fabric/port.h"
#include "fabric/switch.h"
#include "guestmem/address_space.h"
#include "transport/transport.h"
#include "verbs/engine.h"

namespace pvrdma::fabric {

// A message that a transport was given: its destination and its kind: 'q' request, 'r' response, 'd'
// datagram.
struct Delivery {
  verbs::Engine* to;
  char kind;
  transport::HostId host{};
  transport::SegmentId segment{};
  transport::ShardNumber shard{};
  bool copies = false;
  friend bool operator==(const Delivery&, const Delivery&) = default;
};

class RecordingTransport final : public transport::Transport {
 public:
  explicit RecordingTransport(PathKind kind) : kind_(kind) {}

  PathKind kind() const override { return kind_; }
  const transport::Counters& counters() const override { return counters_; }
  void open(const transport::Place& place, const verbs::Connection&, transport::Traffic& traffic,
            verbs::PathSlot& slot) override {
    ++opened;
    slot.open<Recorder>(*this, place, traffic);
  }
  bool send_datagram(const transport::Place& place, const verbs::Datagram&, const guestmem::SpanList& payload,
                     transport::Traffic& traffic, Instant) override {
    record({place.engine, ' ', place.host, place.segment, place.shard, place.copies}, 'd', traffic, payload);
    return !busy;
  }
  bool is_up(transport::HostId host) const override { return up.contains(host); }
  void prepare(transport::HostId host) override { prepared.push_back(host); }
  bool is_stopping(transport::HostId host) const override { return stopping.contains(host); }
  bool is_opening(transport::HostId host) const override { return opening.contains(host); }
  std::string trouble(transport::HostId host) const override {
    return is_up(host) ? "" : std::string(kNotConnected);
  }
  bool leaves(transport::SegmentId segment) const override { return linked.contains(segment); }
  void flush(Instant) override { ++flushes; }

  std::vector<Delivery> deliveries;
  std::set<transport::HostId> up;
  std::vector<transport::HostId> prepared;
  std::set<transport::HostId> stopping;
  std::set<transport::HostId> opening;
  std::set<transport::SegmentId> linked;
  bool busy = false;
  int flushes = 0;
  int opened = 0;

 private:
  class Recorder final : public verbs::Path {
   public:
    Recorder(RecordingTransport& transport, const transport::Place& place, transport::Traffic& traffic)
        : transport_(transport),
          to_{place.engine, ' ', place.host, place.segment, place.shard, place.copies},
          traffic_(traffic) {}
    std::uint32_t room(std::uint32_t wanted, Instant) override { return transport_.busy ? 0 : wanted; }
    void send_request(const verbs::Request&, const guestmem::SpanList& payload, Instant) override {
      transport_.record(to_, 'q', traffic_, payload);
    }
    void send_response(const verbs::Response&, const guestmem::SpanList& payload, Instant) override {
      transport_.record(to_, 'r', traffic_, payload);
    }

   private:
    RecordingTransport& transport_;
    const Delivery to_;
    transport::Traffic& traffic_;
  };

  void record(Delivery delivery, char kind, transport::Traffic& traffic, const guestmem::SpanList& payload) {
    traffic.count(payload);
    delivery.kind = kind;
    deliveries.push_back(delivery);
  }

  const PathKind kind_;
  transport::Counters counters_;
};

struct NoEvents final : verbs::EventSink {
  void completion_event(verbs::CqHandle) override {}
  void async_event(abi::EventType, std::uint32_t) override {}
  void qp_failed(verbs::Qpn, std::string_view) override {}
};

// One adapter: a port with an attached engine.
struct Node {
  Node(const std::string& name, Switch& fabric_switch, PortIdentity identity = {})
      : port(name, std::move(identity), fabric_switch),
        engine(verbs::Limits{}, verbs::Rules{}, memory, events, port, account) {
    port.attach(engine);
  }
  ~Node() { port.detach(); }

  guestmem::AddressSpace memory;
  NoEvents events;
  Port port;
  verbs::Account account{Budgets::none()};
  verbs::Engine engine;
};

// One end of a connection, as a QP has it.
struct End {
  verbs::Path& path(Port& port, const verbs::Gid& from, const verbs::Gid& to) {
    return port.path(slot, [&] { return verbs::Connection{{from, {}}, {to, {}}}; });
  }
  // Sends a request. False: there was no room, and nothing was sent.
  bool send_request(Port& port, const verbs::Gid& from, const verbs::Gid& to,
                    const guestmem::SpanList& payload = {}) {
    verbs::Path& now = path(port, from, to);
    if (now.room(1, Instant{}) == 0) return false;
    now.send_request({}, payload, Instant{});
    return true;
  }

  verbs::PathSlot slot;
};

inline verbs::Gid gid(std::uint8_t last) {
  verbs::Gid made;
  made.bytes[0] = 0xfe;
  made.bytes[1] = 0x80;
  made.bytes[15] = last;
  return made;
}

}  // namespace pvrdma::fabric
