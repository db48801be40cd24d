// The start state of packet scripts for a connection: an RC QP in RTS, over RoCE, whose peer is the test. The
// test parses the QP's packets from whole frames. Thread: a test's.
#pragma once

#include <array>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include "roce/connection_state.h"
#include "verbs/connected_qp_fixture.h"

namespace pvrdma::roce {

using Bytes = std::vector<std::byte>;

inline constexpr std::uint32_t kMtu = 1024;
inline constexpr Mac kOurMac{{0x52, 0x54, 0, 0x12, 0x34, 0x51}};

// Keeps the frames, as long as there is room.
class KeptFrames final : public FrameSink {
 public:
  std::byte* place() override { return free == 0 ? nullptr : place_.data(); }
  void send(std::size_t bytes) override {
    --free;
    frames.emplace_back(place_.begin(), place_.begin() + static_cast<std::ptrdiff_t>(bytes));
  }
  std::size_t room() const override { return free; }

  std::size_t free = 100'000;
  std::vector<Bytes> frames;

 private:
  std::array<std::byte, kFrameBytesMax> place_{};
};

// The fields of a packet that most expectations are about.
struct Seen {
  Opcode opcode;
  std::uint32_t psn;
  std::uint8_t syndrome = 0;  // 0 if the packet has none
  friend bool operator==(const Seen&, const Seen&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Seen& seen) {
    return out << std::hex << "{opcode " << +static_cast<std::uint8_t>(seen.opcode) << ", syndrome "
               << +seen.syndrome << std::dec << ", psn " << seen.psn << "}";
  }
};
inline Seen acknowledged(std::uint32_t psn) {
  return {Opcode::kAcknowledge, psn, kSyndromeAck};
}
inline Seen refused(std::uint32_t psn, std::uint8_t syndrome) {
  return {Opcode::kAcknowledge, psn, syndrome};
}
inline Seen seen(const Packet& packet) {
  return {packet.opcode, packet.psn.value, has(packet.opcode, kAeth) ? packet.syndrome : std::uint8_t{0}};
}
inline std::vector<Seen> seen(const std::vector<Packet>& packets) {
  std::vector<Seen> all;
  for (const Packet& packet : packets) all.push_back(seen(packet));
  return all;
}
inline Bytes payload_of(const Packet& packet) {
  return {packet.payload.begin(), packet.payload.end()};
}

class ConnectionTest : public verbs::ConnectedQp {
 protected:
  ConnectionTest() {
    a.wire.open_other = [this](const verbs::Connection& ends, verbs::PathSlot& slot) {
      slot.close();
      made_.emplace(a.engine, ends, kOurMac, counters);
      slot.open<OverRoce>(*this);
    };
  }

  // --- The peer sends. ---

  void arrive(Packet packet, const Bytes& payload = {}, bool marked = false) {
    packet.destination = qp.qpn;
    packet.payload = payload;
    made_->on_packet(packet, marked, a.now);
    a.settle();
  }
  // A request for the first bytes of the memory region that asks for an answer.
  Packet asking(Opcode opcode, std::uint32_t psn) const {
    Packet packet;
    packet.opcode = opcode;
    packet.psn = verbs::Psn(psn);
    packet.ack_request = true;
    packet.remote_addr = mr.start;
    packet.rkey = mr.key;
    return packet;
  }
  Packet reading(std::uint32_t psn, std::uint32_t bytes, std::uint64_t offset = 0) const {
    Packet packet = asking(Opcode::kReadRequest, psn);
    packet.remote_addr += offset;
    packet.dma_bytes = bytes;
    return packet;
  }
  Packet adding(std::uint32_t psn, std::uint64_t value) const {
    Packet packet = asking(Opcode::kFetchAdd, psn);
    packet.swap_or_add = value;
    return packet;
  }
  void arrive_write(std::uint32_t psn, std::uint32_t bytes = 8) {
    Packet packet = asking(Opcode::kWriteOnly, psn);
    packet.dma_bytes = bytes;
    arrive(packet, filled(bytes));
  }
  void arrive_answer(Opcode opcode, std::uint32_t psn, std::uint8_t syndrome, const Bytes& payload = {}) {
    Packet packet;
    packet.opcode = opcode;
    packet.psn = verbs::Psn(psn);
    packet.syndrome = syndrome;
    arrive(packet, payload);
  }
  void arrive_ack(std::uint32_t psn, std::uint8_t syndrome = kSyndromeAck) {
    arrive_answer(Opcode::kAcknowledge, psn, syndrome);
  }
  static Bytes filled(std::size_t bytes, std::uint8_t seed = 1) {
    return verbs::TestAdapter::pattern_bytes(bytes, seed);
  }

  // --- The QP sends. ---

  // The packets that were sent since the last call. Their payloads are valid until the next call.
  std::vector<Packet> packets() {
    read_ = std::exchange(sink.frames, {});
    std::vector<Packet> out;
    for (const Bytes& frame : read_) {
      const auto parsed = parse(frame);
      EXPECT_TRUE(parsed);
      if (parsed) out.push_back(parsed->packet);
      EXPECT_EQ(out.back().destination, verbs::kPeer.qpn);
    }
    return out;
  }
  // Like packets(), after the owed answers were sent in one turn.
  std::vector<Packet> answered(std::uint32_t frames = 1000) {
    made_->answerer.answer(made_->ends, sink, frames);
    return packets();
  }
  std::vector<Seen> answers() { return seen(answered()); }

  // The path loses all its state, which may happen at any moment.
  void forget() { made_.emplace(a.engine, verbs::Connection(made_->ends.connection), kOurMac, counters); }
  bool failed() const { return a.state(qp) == abi::QpState::kErr; }
  abi::QpAttr query() const { return *a.engine.query_qp(qp.handle); }

  ConnectionState& over() { return *made_; }

  Counters counters;
  KeptFrames sink;

 private:
  class OverRoce final : public verbs::Path {
   public:
    explicit OverRoce(ConnectionTest& test) : Path(true), test_(test) {}
    std::uint32_t room(std::uint32_t wanted, Instant) override {
      return over().sender.room(over().ends, wanted, test_.sink);
    }
    std::uint32_t room_to_ask(std::uint32_t wanted, Instant) override {
      return over().sender.room_to_ask(over().ends, wanted, test_.sink);
    }
    Duration repeat_after() const override { return test_.made_->sender.repeat_after(); }
    void send_request(const verbs::Request& request, const guestmem::SpanList& payload,
                      Instant now) override {
      over().sender.send_request(over().ends, request, payload, test_.sink, now);
    }
    void send_response(const verbs::Response& response, const guestmem::SpanList&, Instant) override {
      over().answerer.on_verdict(response);
    }

   private:
    ConnectionState& over() { return test_.over(); }
    ConnectionTest& test_;
  };

  std::optional<ConnectionState> made_;
  std::vector<Bytes> read_;
};

}  // namespace pvrdma::roce
