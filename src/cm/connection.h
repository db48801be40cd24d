// What the connection manager knows of one id of a program, and of the connection that it belongs to. Thread:
// values.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>

#include "base/time.h"
#include "cm/mad.h"

namespace pvrdma::cm {

using Handle = std::uint32_t;
using Program = std::uint32_t;  // pays for connections

enum class State : std::uint8_t {
  kIdle,      // at most bound to an address
  kResolved,  // the peer's address is known
  kListening,
  kReqSent,      // active: waits for REP
  kRepReceived,  // active: waits for the program's consent
  kReqReceived,  // passive: waits for the program's consent
  kRepSent,      // passive: waits for RTU
  kEstablished,  // of an id for datagrams: each end knows what it needs
  kDreqSent,     // waits for DREP
  kTimewait,     // disconnected; its packets may still be under way
  kClosed,       // refused or given up; duplicates of the peer's last message are answered for a while
};

// The address has the form of a GID. All zeros: any address of the adapter.
struct Endpoint {
  Gid ip{};
  std::uint16_t port = 0;

  friend auto operator<=>(const Endpoint&, const Endpoint&) = default;
};

// What both ends of a connection tell each other about their QPs, from the view of the end that has it.
struct Parameters {
  std::uint32_t qpn = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 0;  // of the active end
  std::uint8_t rnr_retry = 0;
  bool flow_control = false;
  bool srq = false;
  std::uint32_t qkey = 0;  // of ids for datagrams, which have only this and the QPN
};

struct Connection {
  State state = State::kIdle;
  PortSpace space = PortSpace::kTcp;
  Program program = 0;
  std::uint64_t orphan_number = 0;  // by age, when the program has destroyed the id; else 0
  bool may_share_port = false;

  Endpoint local;
  Endpoint remote;
  bool holds_port = false;

  // --- of a listener ---
  std::uint32_t backlog = 0;
  std::set<Handle> pending;  // connections that the program has not been told of
  // --- of a connection that a listener got and the program has not been told of ---
  std::optional<Handle> listener;

  // --- of a connection ---
  std::uint64_t transaction = 0;
  std::uint32_t local_id = 0;  // 0: none yet
  std::uint32_t remote_id = 0;
  std::uint32_t local_psn = 0;  // the one at which this end receives
  std::uint32_t remote_psn = 0;
  Parameters own;
  Parameters peer;
  std::uint8_t mtu = 0;
  std::uint8_t ack_timeout = 0;
  std::uint8_t retry_count = 0;  // of the QPs: what the active end has asked for

  Mad repeated{};  // the message that the deadline repeats, or that answers duplicates
  bool has_repeated = false;
  std::uint8_t retries = 0;  // at most, by what is agreed
  std::uint8_t retries_left = 0;
  bool was_put_off = false;  // by the peer's MRA
  Duration response_time{0};
  Instant deadline = Instant::never();

  bool is_orphan() const { return orphan_number != 0; }
};

}  // namespace pvrdma::cm
