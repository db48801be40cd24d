// What the engine's tests share: a wire that the test script controls, a recorder of events, and an engine
// with its guest.
//
// A test reads as a packet script: a named start state, what the guest posts, what the peer sends, and what
// must follow in guest memory and on the wire. Thread: a test's.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "support/guest_memory.h"
#include "verbs/engine.h"

namespace pvrdma::verbs {

inline Gid test_gid(std::uint8_t host) {
  return Gid{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 11, host}};
}

template <typename Message>
struct SentMessage {
  Message message;
  std::vector<std::byte> payload;
};

// Keeps what the engine sends. With a peer set, it delivers the messages to that engine on the caller's stack
// instead, as the local path does.
class ScriptedWire final : public SwitchPort {
 public:
  ScriptedWire() : SwitchPort(generation) {}

  bool send_datagram(const Datagram& datagram, const guestmem::SpanList& payload, Instant now) override {
    if (peer != nullptr && !cut) {
      peer->on_datagram(datagram, payload, now);
    } else {
      datagrams.push_back({datagram, flatten(payload)});
    }
    if (room > 0) --room;
    return room != 0;
  }
  void flush(Instant) override { ++flushes; }
  bool bind_gid(const Gid&) override { return true; }
  void unbind_gid(const Gid&) override {}
  bool spares_retries(const Gid&, Instant) const override { return spares; }
  std::optional<PeerPlace> place_of(const Gid&) const override { return place; }
  std::uint64_t set_stopped(bool) override { return 0; }
  void stop(const Connection& connection) override { stopped.push_back(connection); }
  void stop_all() override { ++stopped_all; }

  std::atomic<std::uint64_t> generation = 1;
  Engine* peer = nullptr;  // borrowed
  bool cut = false;        // with a peer: keep the messages instead of delivering them
  int room = -1;           // requests and datagrams that it takes until it is busy; negative: no bound
  std::uint32_t bytes_at_once = ~0U;  // the longest piece that it delivers
  bool spares = false;                // what spares_retries() answers
  PeerPlace place{0};                 // what place_of() answers
  bool leads_somewhere = true;        // what leads_somewhere() answers for paths opened from now on
  std::string trouble;                // what trouble() answers
  std::uint64_t refused = 0;          // how often it had no room
  std::uint64_t flushes = 0;
  std::vector<Connection> opened;  // the connections of the opened paths
  std::vector<Connection> stopped;
  int stopped_all = 0;
  std::function<void(const Connection&, PathSlot&)>
      open_other;  // opens a path that the test provides instead of the wire's own
  std::vector<SentMessage<Request>> requests;
  std::vector<SentMessage<Response>> responses;
  std::vector<SentMessage<Datagram>> datagrams;

 private:
  class ScriptedPath final : public Path {
   public:
    explicit ScriptedPath(ScriptedWire& wire) : wire_(wire), leads_somewhere_(wire.leads_somewhere) {}
    bool leads_somewhere() const override { return leads_somewhere_; }
    std::string trouble() const override { return wire_.trouble; }
    std::uint32_t room(std::uint32_t wanted, Instant) override {
      if (wire_.room == 0) ++wire_.refused;
      return wire_.room == 0 ? 0 : std::min(wanted, wire_.bytes_at_once);
    }
    void send_request(const Request& request, const guestmem::SpanList& payload, Instant now) override {
      if (wire_.room > 0) --wire_.room;
      if (wire_.peer != nullptr && !wire_.cut) {
        SpanPayload bytes(payload);
        return wire_.peer->on_request(request, bytes, now);
      }
      wire_.requests.push_back({request, flatten(payload)});
    }
    void send_response(const Response& response, const guestmem::SpanList& payload, Instant now) override {
      if (wire_.peer != nullptr && !wire_.cut) {
        SpanPayload bytes(payload);
        return wire_.peer->on_response(response, bytes, now);
      }
      wire_.responses.push_back({response, flatten(payload)});
    }

   private:
    ScriptedWire& wire_;
    const bool leads_somewhere_;
  };

  void open_path(const Connection& connection, PathSlot& slot) override {
    opened.push_back(connection);
    if (open_other) return open_other(connection, slot);
    slot.open<ScriptedPath>(*this);
  }
  static std::vector<std::byte> flatten(const guestmem::SpanList& payload) {
    std::vector<std::byte> out;
    for (const guestmem::HostSpan& piece : payload)
      out.insert(out.end(), piece.data, piece.data + piece.size);
    return out;
  }
};

class RecordingEvents final : public EventSink {
 public:
  using Event = std::pair<abi::EventType, std::uint32_t>;
  void completion_event(CqHandle cq) override { completions.push_back(cq); }
  void async_event(abi::EventType type, std::uint32_t info) override { async.emplace_back(type, info); }
  void qp_failed(Qpn, std::string_view why) override { failures.emplace_back(why); }

  std::vector<CqHandle> completions;
  std::vector<Event> async;
  std::vector<std::string> failures;
};

// The fields of a CQE that most expectations are about.
struct Completion {
  std::uint64_t wr_id;
  abi::CompletionStatus status = abi::CompletionStatus::kSuccess;
  friend bool operator==(const Completion&, const Completion&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Completion& c) {
    return out << "{wr_id " << c.wr_id << ", status " << static_cast<std::uint32_t>(c.status) << "}";
  }
};

struct TestCq {
  CqHandle handle;
  test::RingPeer ring;
};

struct TestMr {
  std::uint32_t key;
  MrHandle handle;
  std::uint64_t start;
  std::vector<guestmem::GuestPhys> pages;
  abi::Sge sge(std::uint64_t offset, std::uint32_t bytes) const { return {start + offset, bytes, key}; }
};

struct TestSrq {
  SrqHandle handle;
  test::RingPeer ring;
};

struct TestQp {
  QpHandle handle;
  Qpn qpn;
  UarIndex uar;
  test::RingPeer sends;
  test::RingPeer receives;
  std::vector<guestmem::GuestPhys> pages;
};

struct SendWr {
  std::uint64_t wr_id = 1;
  abi::Opcode opcode = abi::Opcode::kRdmaWrite;
  std::uint32_t flags = abi::kSendSignaled;
  std::vector<abi::Sge> sges{};
  std::uint64_t remote_addr = 0x9000;
  std::uint32_t rkey = 0x777;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  std::uint32_t extra = 0;  // in the byte order of guest memory
  std::optional<abi::FastRegFields> fast_register{};
  std::optional<abi::UdFields> ud{};
};

struct ReceiveWr {
  std::uint64_t wr_id = 1;
  std::vector<abi::Sge> sges{};
};

struct QpOptions {
  abi::QpType type = abi::QpType::kRc;
  std::uint32_t max_send_wr = 64;
  std::uint32_t max_recv_wr = 64;
  std::uint32_t max_send_sge = 3;
  std::uint32_t max_recv_sge = 3;
  bool signal_all = false;
  const TestSrq* srq = nullptr;
};

struct ConnectOptions {
  std::uint32_t access =
      abi::kAccessLocalWrite | abi::kAccessRemoteWrite | abi::kAccessRemoteRead | abi::kAccessRemoteAtomic;
  std::uint32_t sq_psn = 100;
  std::uint32_t rq_psn = 200;
  abi::Mtu path_mtu = abi::Mtu::k1024;
  std::uint8_t timeout = 14;  // 268 ms
  std::uint8_t retry_cnt = 3;
  std::uint8_t rnr_retry = 3;
  std::uint8_t min_rnr_timer = 12;  // 0.64 ms
  std::uint8_t max_rd_atomic = 4;
  std::uint8_t max_dest_rd_atomic = 4;
};

// One engine with its guest. Objects belong to one context and one PD.
class TestAdapter {
 public:
  explicit TestAdapter(std::uint8_t host, UarIndex uar_page = 1, const Rules& rules = {},
                       std::uint64_t ram_bytes = 32u << 20, const Budgets& budgets = Budgets::none(),
                       HostAccount* host_account = nullptr)
      : memory(ram_bytes),
        gid(test_gid(host)),
        uar(uar_page),
        account(budgets, host_account),
        engine(Limits{}, rules, memory.space(), events, wire, account) {
    EXPECT_TRUE(uar == 0 || engine.create_context(uar));
    EXPECT_TRUE(engine.bind_gid(0, gid, rules.roce));
    pd = *engine.create_pd(ContextHandle(uar));
  }

  // --- Objects ---

  TestCq make_cq(std::uint32_t cqe_count = 128);
  TestMr make_mr(std::uint64_t bytes,
                 std::uint32_t access = abi::kAccessLocalWrite | abi::kAccessRemoteWrite |
                                        abi::kAccessRemoteRead | abi::kAccessRemoteAtomic);
  TestSrq make_srq(std::uint32_t max_wr, std::uint32_t limit = 0);
  TestQp make_qp(const TestCq& send_cq, const TestCq& recv_cq, const QpOptions& options = {});

  Outcome<> modify(const TestQp& qp, std::uint32_t mask, const abi::QpAttr& attr) {
    return engine.modify_qp(qp.handle, {.mask = mask, .attr = attr}, now);
  }
  Outcome<> to_state(const TestQp& qp, abi::QpState state, std::uint32_t mask = 0, abi::QpAttr attr = {}) {
    attr.qp_state = static_cast<std::uint32_t>(state);
    return modify(qp, mask | abi::kQpAttrState, attr);
  }
  // Does what the guest does: the command, then zeroes in its ring words.
  void reset(TestQp& qp) {
    EXPECT_TRUE(to_state(qp, abi::QpState::kReset));
    for (test::RingPeer* ring : {&qp.sends, &qp.receives}) {
      ring->set_prod_tail(0);
      ring->set_cons_head(0);
    }
  }
  void to_init(const TestQp& qp, const ConnectOptions& connection = {});
  void to_rtr(const TestQp& qp, const Endpoint& peer, const ConnectOptions& connection = {});
  Outcome<> try_rtr(const TestQp& qp, const Endpoint& peer, const ConnectOptions& connection = {});
  void to_rts(const TestQp& qp, const ConnectOptions& connection = {});
  void connect(const TestQp& qp, const Endpoint& peer, const ConnectOptions& connection = {}) {
    to_init(qp, connection);
    to_rtr(qp, peer, connection);
    to_rts(qp, connection);
  }
  abi::QpState state(const TestQp& qp) const {
    return *abi::parse_qp_state(engine.query_qp(qp.handle)->qp_state);
  }
  Endpoint endpoint(const TestQp& qp) const { return {gid, qp.qpn}; }

  // --- Work ---

  void post(TestQp& qp, const SendWr& wr);  // without a doorbell
  void ring(const TestQp& qp) { engine.send_doorbell(qp.uar, qp.handle, now); }
  void send(TestQp& qp, const SendWr& wr) {
    post(qp, wr);
    ring(qp);
  }
  static void post_receive(test::RingPeer& ring, const ReceiveWr& wr);
  void receive(TestQp& qp, const ReceiveWr& wr) {
    post_receive(qp.receives, wr);
    engine.receive_doorbell(qp.uar, qp.handle, now);
  }

  std::vector<abi::Cqe> poll_cqes(TestCq& cq) {
    std::vector<abi::Cqe> out;
    while (cq.ring.waiting() != 0) out.push_back(cq.ring.poll<abi::Cqe>());
    return out;
  }
  std::vector<Completion> poll(TestCq& cq) {
    std::vector<Completion> out;
    for (const abi::Cqe& cqe : poll_cqes(cq))
      out.push_back({cqe.wr_id, *abi::parse_completion_status(cqe.status)});
    return out;
  }

  // --- Data ---

  void fill(const TestMr& mr, std::uint64_t offset, std::size_t bytes, std::uint8_t seed) {
    for (std::size_t i = 0; i < bytes; ++i) *byte_at(mr, offset + i) = pattern(i, seed);
  }
  std::vector<std::byte> bytes(const TestMr& mr, std::uint64_t offset, std::size_t count) {
    std::vector<std::byte> out(count);
    for (std::size_t i = 0; i < count; ++i) out[i] = *byte_at(mr, offset + i);
    return out;
  }
  static std::vector<std::byte> pattern_bytes(std::size_t count, std::uint8_t seed) {
    std::vector<std::byte> out(count);
    for (std::size_t i = 0; i < count; ++i) out[i] = pattern(i, seed);
    return out;
  }
  std::uint64_t word(const TestMr& mr, std::uint64_t offset) {
    std::uint64_t out = 0;
    for (int i = 7; i >= 0; --i)
      out = out << 8 | std::to_integer<std::uint64_t>(*byte_at(mr, offset + static_cast<unsigned>(i)));
    return out;
  }
  void set_word(const TestMr& mr, std::uint64_t offset, std::uint64_t value) {
    for (unsigned i = 0; i < 8; ++i) *byte_at(mr, offset + i) = static_cast<std::byte>(value >> 8 * i);
  }

  // --- Time ---

  // Runs the engine until nothing is left to do.
  void settle() {
    while (engine.run(now)) {
    }
  }
  void advance(Duration time) {
    now = now + time;
    if (engine.next_deadline() <= now) engine.on_time(now);
    settle();
  }

  test::GuestMemory memory;
  RecordingEvents events;
  ScriptedWire wire;
  const Gid gid;
  UarIndex uar;  // new objects belong to its context and to `pd`
  Account account;
  Engine engine;
  PdHandle pd;
  Instant now{std::chrono::seconds(1)};

 private:
  static std::byte pattern(std::size_t i, std::uint8_t seed) {
    return static_cast<std::byte>(i * 7 + (i >> 8) + seed);
  }
  std::byte* byte_at(const TestMr& mr, std::uint64_t offset) {
    const std::uint64_t at = mr.start % guestmem::kPageBytes + offset;
    return memory.at(
        guestmem::GuestPhys(mr.pages.at(at / guestmem::kPageBytes).value + at % guestmem::kPageBytes));
  }
};

// A message's payload; the test decides whether its bytes arrive.
class TestPayload final : public Payload {
 public:
  explicit TestPayload(std::vector<std::byte> bytes = {}, bool arrives = true)
      : bytes_(std::move(bytes)), arrives_(arrives) {}

  std::uint64_t bytes() const override { return bytes_.size(); }
  bool copy_to(const guestmem::SpanList& target) override {
    guestmem::SpanList source;
    EXPECT_TRUE(source.append(bytes_.data(), bytes_.size()));
    guestmem::copy(target, source, target.bytes());
    return arrives_;
  }

 private:
  std::vector<std::byte> bytes_;
  bool arrives_;
};

// A payload in the form in which a transport delivers it; `bytes` must outlive it.
inline guestmem::SpanList spans(std::vector<std::byte>& bytes) {
  guestmem::SpanList out;
  EXPECT_TRUE(out.append(bytes.data(), bytes.size()));
  return out;
}

}  // namespace pvrdma::verbs
