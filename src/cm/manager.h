// Manager: the connection manager of one adapter (IBTA vol. 1, chapter 12): ids, ports, listeners and
// connections of its programs, and the MADs that it exchanges with the managers of other adapters.
//
// It is a state machine without I/O. Commands, MADs and the time go in; datagrams, events and a deadline come
// out. The caller sends what take_datagrams() gives, hands out what take_events() gives, and calls
// run_timers() at deadline().
//
// A connection outlives its id: what is left of it, a DREQ to repeat or a timewait, is an orphan. It ends by
// itself, by this end's timeouts, and sooner if its place is wanted.
//
// Ids for datagrams (PortSpace::kUdp) ask for a QP and get it, without a connection.
//
// A message's starting PSN is the one at which its sender receives. So an end sends from the peer's, and
// receives from its own.
//
// Peers are hostile. A MAD about a connection counts only if it comes from the connection's peer. What a peer
// can make grow is bounded: requests by the listener's backlog and by kRequested, so that programs have room
// left. A MAD causes at most two.
//
// Thread: one at a time.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cm/connection.h"
#include "cm/parked_requests.h"

namespace pvrdma::cm {

// How many connections there may be, with listeners and orphans, for one more to be made.
struct Limits {
  std::size_t of_all;
  std::size_t of_program;
};
inline constexpr Limits kCreated{16384, 4096};    // by a program
inline constexpr Limits kRequested{12288, 3072};  // by a peer, for the program whose listener it asks
inline constexpr std::uint32_t kBacklogMax = 1024;

// The Q_Key of all QPs whose ids are for datagrams, as in the kernel.
inline constexpr std::uint32_t kUdpQkey = 0x0123'4567;

struct Options {
  std::vector<Gid> addresses;  // of the adapter; those for all networks before link-local ones
  std::uint64_t ca_guid = 0;
  std::function<std::uint64_t()> random;  // gives PSNs and ids, which peers must not guess
  std::uint8_t timeout = 20;              // 4.096 us * 2^n: how soon a peer must answer
  std::uint8_t retries = 15;
  std::uint8_t ack_timeout = 17;  // of the QPs
  std::uint8_t mtu = 3;           // 1024 bytes, which every RoCE peer with ordinary Ethernet frames takes
};

enum class EventType : std::uint8_t {
  kConnectRequest,
  kConnectResponse,
  kEstablished,
  kRejected,
  kUnreachable,
  kDisconnected,
  kTimewaitExit,
};

struct Event {
  EventType type{};
  Handle id = 0;
  Handle listener = 0;  // of kConnectRequest
  PortSpace space{};    // of the id
  // kRejected: the reason; kUnreachable of an id for datagrams: the peer's SidrStatus, if it has refused;
  // else 0 or a negative errno value (-EINVAL: the peer's QP has another Q_Key than kUdpQkey).
  std::int32_t status = 0;
  Parameters peer;  // its responder resources are this end's initiator depth, and the reverse
  std::vector<std::byte> private_data;

  // The one of its ids that the program knows already.
  Handle known_id() const { return type == EventType::kConnectRequest ? listener : id; }
};

struct Datagram {
  Gid from{};
  Gid to{};
  Mad mad{};
};

// What the QP of a connection needs to reach RTR and RTS.
struct QpAttributes {
  Gid local{};
  Gid remote{};
  std::uint32_t remote_qpn = 0;
  std::uint32_t rq_psn = 0;
  std::uint32_t sq_psn = 0;
  std::uint8_t mtu = 0;
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint8_t max_rd_atomic = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;
  std::uint8_t ack_timeout = 0;
};

class Manager {
 public:
  explicit Manager(Options options);

  // --- Commands of programs. Errors carry the errno value that the kernel gives. ---

  // ENOMEM: the program, or all programs together, have as many connections as kCreated allows.
  Result<Handle> create(Program program, PortSpace space = PortSpace::kTcp);
  // Ends the connection, or refuses it, and with a listener all requests that the program was not told of.
  // Events of these ids that the caller has not handed out yet are void.
  Result<> destroy(Handle id, Instant now);
  // Port 0: any that is free. A loopback address means every address, as the kernel has it.
  Result<> bind(Handle id, const Endpoint& local);
  // Lets ids that do not listen share a port.
  Result<> share_port(Handle id, bool shared);
  // All zeros in `source`: the adapter's first address of that kind (IPv4, IPv6, link-local), unless the id
  // is bound.
  Result<> resolve(Handle id, const Endpoint& source, const Endpoint& destination);
  Result<> listen(Handle id, std::uint32_t backlog);
  Result<> connect(Handle id, const Parameters& own, std::span<const std::byte> private_data, Instant now);
  // Of a passive id: consents to the connection.
  Result<> accept(Handle id, const Parameters& own, std::span<const std::byte> private_data, Instant now);
  // Of an active id whose peer has consented: the QP is ready.
  Result<> confirm(Handle id);
  Result<> reject(Handle id, std::uint16_t reason, std::span<const std::byte> private_data, Instant now);
  Result<> disconnect(Handle id, Instant now);
  // A message has come to the QP of a passive id: the RTU may be lost.
  Result<> note_established(Handle id);
  // The program was told of the connection request.
  void note_delivered(Handle id);

  // Null: there is no such id (any more).
  const Connection* find(Handle id) const;
  Result<QpAttributes> qp_attributes(Handle id) const;

  // --- The wire and the time ---

  // `from` and `to` are the GIDs of the datagram that brought the MAD.
  void receive(const Gid& from, const Gid& to, std::span<const std::byte> mad, Instant now);
  void run_timers(Instant now);
  Instant deadline() const;

  std::vector<Datagram> take_datagrams() { return std::exchange(datagrams_, {}); }
  std::vector<Event> take_events() { return std::exchange(events_, {}); }

  std::size_t connection_count() const { return connections_.size(); }  // with orphans
  std::size_t orphan_count() const { return orphans_.size(); }

 private:
  using PeerKey = std::pair<Gid, std::uint32_t>;
  struct Found {
    Handle id;
    Connection* connection;
  };

  // --- manager.cc ---
  Result<Connection*> live(Handle id);
  bool is_own(const Gid& ip) const;
  std::optional<Gid> own_like(const Gid& ip) const;
  bool is_port_free(const Connection& asking, const Endpoint& local, bool listening) const;
  Result<std::uint16_t> free_port(const Connection& asking, const Gid& ip);
  void hold_port(Handle id, Connection& connection, const Endpoint& local);
  Handle add(Connection connection);
  bool make_room(Program program, const Limits& limits);
  void orphan(Handle id, Connection& connection, Instant now);
  void erase(Handle id);
  void forget_wire(Handle id, const Connection& connection);
  void forget_peer_qpn(Handle id, const Connection& connection);
  void drop_pending(Handle id, Connection& connection);
  void release_port(Handle id, Connection& connection);
  void refuse_pending(Connection& listener, Instant now);
  void end(Handle id, Connection& connection, Instant now);
  void end_connection(Handle id, Connection& connection, Instant now);
  void give_comm_id(Handle id, Connection& connection);

  void send(const Connection& connection, const Body& body);
  void repeat(Connection& connection);
  void send_until_answered(Handle id, Connection& connection, const Body& body, Instant now);
  void send_rej(Handle id, Connection& connection, About about, std::uint16_t reason,
                std::span<const std::byte> private_data, Instant now);
  void send_dreq(Handle id, Connection& connection, Instant now);
  void raise(EventType type, Handle id, const Connection& connection, std::int32_t status = 0,
             std::span<const std::byte> private_data = {});
  void set_deadline(Handle id, Connection& connection, Instant when);
  void enter_timewait(Handle id, Connection& connection, Instant now);
  void close(Handle id, Connection& connection, Instant now);
  void give_up(Handle id, Connection& connection, Instant now);

  // --- messages.cc ---
  struct Origin {
    const Gid& from;
    const Gid& to;
    std::uint64_t transaction;
    Instant now;
  };
  void on(const Origin& origin, const Req& req);
  void on(const Origin& origin, const Mra& mra);
  void on(const Origin& origin, const Rej& rej);
  void on(const Origin& origin, const Rep& rep);
  void on(const Origin& origin, const Rtu& rtu);
  void on(const Origin& origin, const Dreq& dreq);
  void on(const Origin& origin, const Drep& drep);
  std::optional<Found> by_local_id(PortSpace space, const Gid& from, std::uint32_t local_id);
  std::optional<Found> by_comm_id(const Gid& from, std::uint32_t local_id, std::uint32_t remote_id);
  std::optional<Found> listener_of(PortSpace space, const Endpoint& local);
  void on_duplicate(const Req& req, Connection& connection);
  // What the requests for connections and for datagrams have in common. Empty: the listener takes no more.
  std::optional<Connection> requested(const Found& listener, const Origin& origin, const IpHeader& header);
  void answer(const Origin& origin, const Body& body);
  void refuse(const Origin& origin, const Req& req, Reason reason);
  void try_parked(std::uint16_t port);
  void refuse_parked(Instant now);

  // --- datagram_ids.cc ---
  Result<> ask_for_qp(Handle id, Connection& connection, std::span<const std::byte> private_data,
                      Instant now);
  Result<> give_qp(Handle id, Connection& connection, std::uint32_t qpn,
                   std::span<const std::byte> private_data, Instant now);
  Result<> refuse_qp(Handle id, Connection& connection, std::span<const std::byte> private_data, Instant now);
  void answer_request(Handle id, Connection& connection, SidrRep rep, State next, Instant now);
  void end_request(Handle id, Connection& connection, State next);
  void end_datagram_id(Handle id, Connection& connection, Instant now);
  void on(const Origin& origin, const SidrReq& req);
  void on(const Origin& origin, const SidrRep& rep);

  Options options_;
  // What a program pays for.
  struct Account {
    std::size_t connections = 0;  // with orphans
    std::map<std::uint64_t, Handle> orphans;
  };

  std::map<Handle, Connection> connections_;
  std::unordered_map<Program, Account> accounts_;  // of those that have connections
  std::map<std::uint64_t, Handle> orphans_;        // the oldest first
  std::uint64_t next_orphan_number_ = 1;
  Handle next_handle_ = 1;
  std::uint16_t next_port_;
  std::multimap<std::uint16_t, Handle> ports_;
  std::map<std::pair<PortSpace, Endpoint>, Handle> listeners_;
  std::unordered_map<std::uint32_t, Handle> by_comm_id_;  // this end's
  std::map<PeerKey, Handle> by_peer_id_;                  // of connections that peers asked for
  std::map<PeerKey, Handle> by_peer_request_;             // of ids for datagrams that peers asked for
  std::map<PeerKey, Handle> by_peer_qpn_;
  std::set<std::pair<Instant, Handle>> timers_;
  ParkedRequests parked_;
  std::vector<Datagram> datagrams_;
  std::vector<Event> events_;
};

}  // namespace pvrdma::cm
