// What the fabric's tests share: a transport that records instead of carrying, and adapters reduced to their
// engines. Thread: one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fabric/port.h"
#include "fabric/switch.h"
#include "guestmem/address_space.h"
#include "transport/transport.h"
#include "verbs/engine.h"

namespace pvrdma::fabric {

class FixedClock final : public Clock {
 public:
  Instant now() const override { return Instant{std::chrono::seconds(100)}; }
};

struct Delivery {
  verbs::Engine* to;
  char kind;  // 'q' request, 'r' response, 'd' datagram
  friend bool operator==(const Delivery&, const Delivery&) = default;
};

class RecordingTransport final : public transport::Transport {
 public:
  std::string_view name() const override { return "recording"; }
  const transport::Counters& counters() const override { return counters_; }
  std::unique_ptr<transport::Channel> open(verbs::Engine& peer) override {
    return std::make_unique<Recorder>(peer, deliveries);
  }

  std::vector<Delivery> deliveries;

 private:
  class Recorder final : public transport::Channel {
   public:
    Recorder(verbs::Engine& peer, std::vector<Delivery>& deliveries) : peer_(peer), deliveries_(deliveries) {}
    verbs::Sent send_request(const verbs::Request&, const guestmem::SpanList&, Instant) override {
      record('q');
      return verbs::Sent::kTaken;
    }
    void send_response(const verbs::Response&, const guestmem::SpanList&, Instant) override { record('r'); }
    void send_datagram(const verbs::Datagram&, const guestmem::SpanList&, Instant) override { record('d'); }

   private:
    void record(char kind) { deliveries_.push_back({&peer_, kind}); }
    verbs::Engine& peer_;
    std::vector<Delivery>& deliveries_;
  };
  transport::Counters counters_;
};

struct NoEvents final : verbs::EventSink {
  void completion_event(verbs::CqHandle) override {}
  void async_event(abi::EventType, std::uint32_t) override {}
  void qp_failed(verbs::Qpn, std::string_view) override {}
};

// One adapter: a port and the engine behind it, attached.
struct Node {
  Node(const std::string& name, Switch& fabric_switch)
      : port(name, fabric_switch), engine(verbs::Limits{}, verbs::Rules{}, memory, events, port) {
    port.attach(engine);
  }
  ~Node() { port.detach(); }

  guestmem::AddressSpace memory;
  NoEvents events;
  Port port;
  verbs::Engine engine;
};

inline verbs::Gid gid(std::uint8_t last) {
  verbs::Gid made;
  made.bytes[0] = 0xfe;
  made.bytes[1] = 0x80;
  made.bytes[15] = last;
  return made;
}

}  // namespace pvrdma::fabric
