// Engine: the verbs of one adapter. Owns its PDs, MRs, CQs, SRQs, QPs and GIDs; turns work requests into
// messages and messages into completions.
//
// Sans-I/O: a function of (state, input, now). No thread, socket or clock inside; what leaves goes through
// Wire and EventSink. No allocation between doorbell and completion: memory is taken in create_*, under
// Limits.
//
// The device calls the commands and doorbells, transports call on_request / on_response / on_datagram, the
// shard calls run() and on_time(). Thread: shard-owned.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "abi/commands.h"
#include "base/result.h"
#include "base/time.h"
#include "guestmem/address_space.h"
#include "verbs/account.h"
#include "verbs/completion_queue.h"
#include "verbs/counters.h"
#include "verbs/events.h"
#include "verbs/gid_table.h"
#include "verbs/ids.h"
#include "verbs/limits.h"
#include "verbs/memory_region.h"
#include "verbs/message.h"
#include "verbs/packets.h"
#include "verbs/path.h"
#include "verbs/payload.h"
#include "verbs/qp_attributes.h"
#include "verbs/receive_queue.h"
#include "verbs/status.h"
#include "verbs/wire.h"

namespace pvrdma::state {
class Reader;
class Writer;
}  // namespace pvrdma::state

namespace pvrdma::verbs {

class QueuePair;
class QueuePairTable;
class Scheduler;
class Requester;
class Responder;
class DatagramService;

struct CreateQp {
  PdHandle pd;
  CqHandle send_cq;
  CqHandle recv_cq;
  bool has_srq = false;
  SrqHandle srq;
  abi::QpType type{};
  std::uint32_t max_send_wr = 0;  // powers of two
  std::uint32_t max_recv_wr = 0;  // 0 with an SRQ
  std::uint32_t max_send_sge = 0;
  std::uint32_t max_recv_sge = 0;
  bool signal_all = false;
  std::uint32_t total_pages = 0;  // 1 state page + send + receive
  std::uint32_t send_pages = 0;
  std::uint64_t page_directory = 0;
};

struct CreatedQp {
  Qpn qpn;
  QpHandle handle;
};

// A doorbell's author: the index of the UAR page it was written to. 0 is the kernel's.
using UarIndex = std::uint32_t;

struct QpInfo {
  Qpn qpn;
  QpHandle handle;
  abi::QpType type;
  ContextHandle context;
  QpAttributes attributes;
  abi::QpCap cap;
  Gid local_gid;  // zero before RTR
  std::uint64_t tx_messages = 0;
  std::uint64_t tx_bytes = 0;
  std::uint64_t rx_messages = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t retransmits = 0;
};

class Engine {
 public:
  // `memory`, `events`, `port` and `account` are borrowed and outlive the engine.
  Engine(const Limits& limits, const Rules& rules, const guestmem::AddressSpace& memory, EventSink& events,
         SwitchPort& port, Account& account);
  ~Engine();  // no CQE, event or message is produced; GIDs are unbound
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Destroys every object and unbinds every GID, as if newly made; counters stay. For CTL RESET and VM reset.
  // Like destroy_context() it costs little however many objects there are: run() gives their memory back.
  void reset();

  // --- Saving and loading (ADR 16): between two calls, on any turn. ---

  // Everything but guest memory, what is dead, and paths. Takes time and memory by the number of objects.
  void save(state::Writer& writer, Instant now) const;
  // As if it had no objects and no GIDs.
  void save_without_objects(state::Writer& writer) const;
  // A new engine, or one after reset(), becomes the saved one; its GIDs are bound. `reader` stands behind the
  // engine's last record then. Refused: a value out of its range, a budget used up, a GID that is another's;
  // the engine is as before, and the reader has the reason. Nothing is sent before the next turn; what peers
  // have not answered goes out again by its time limits or, at once, by on_path_restored().
  Result<> load(state::Reader& reader, Instant now);
  // Takes the load() just before back, for who finds then that it is good for nothing.
  void unload(const Counters& counters_before);

  // --- Commands. Each either does all of it or nothing. ---

  // `uar` names the context's doorbell page. kInvalid: 0, beyond max_context, or taken.
  Outcome<ContextHandle> create_context(UarIndex uar);
  // Destroys everything that is left of the context.
  Outcome<> destroy_context(ContextHandle context);

  Outcome<PdHandle> create_pd(ContextHandle context);
  Outcome<> destroy_pd(PdHandle pd);  // kBusy while MRs, QPs or SRQs use it

  Outcome<MrKeys> create_mr(
      const CreateMr& request);  // kNotPermitted: kDma or kFastRegister from a user's PD
  Outcome<> destroy_mr(MrHandle mr);

  Outcome<CqHandle> create_cq(const CreateCq& request);
  Outcome<> destroy_cq(CqHandle cq);  // kBusy while QPs use it

  Outcome<SrqHandle> create_srq(const CreateSrq& request);  // `request.context` is taken from the PD
  Outcome<> modify_srq(SrqHandle srq, std::uint32_t limit);
  Outcome<abi::SrqAttr> query_srq(SrqHandle srq) const;
  Outcome<> destroy_srq(SrqHandle srq);

  Outcome<CreatedQp> create_qp(const CreateQp& request);
  Outcome<> modify_qp(QpHandle qp, const ModifyQp& request, Instant now);
  Outcome<abi::QpAttr> query_qp(QpHandle qp) const;
  // When it returns nothing of the QP is referenced any more and its last CQE is written.
  Outcome<> destroy_qp(QpHandle qp, Instant now);

  Outcome<> bind_gid(std::uint32_t index, const Gid& gid, RoceVersion roce);
  Outcome<> unbind_gid(std::uint32_t index, const Gid& gid);

  // --- Doorbells. Unknown handles and foreign contexts are counted and ignored. ---

  // Runs the QP's send queue at once, as long as something is left of the engine's share of the turn.
  void send_doorbell(UarIndex uar, QpHandle qp, Instant now);
  void receive_doorbell(UarIndex uar, QpHandle qp, Instant now);
  void srq_doorbell(UarIndex uar, SrqHandle srq);
  void arm_cq(UarIndex uar, CqHandle cq, CompletionQueue::Arm what);

  // With Rules::mapped_doorbells: a doorbell was found in the page of a user's context, so that others may
  // have been hidden behind it. The first is said before the word is rung, the second behind it.
  void cq_word_found(UarIndex uar);
  void qp_word_found(UarIndex uar, QpHandle rung);

  // --- Messages from peers (through a transport). Every field is checked. ---

  // A message may be delivered in pieces: the same request or response again with the next offset and bytes.
  void on_request(const Request& request, Payload& payload, Instant now);
  void on_response(const Response& response, Payload& payload, Instant now);
  void on_datagram(const Datagram& datagram, const guestmem::SpanList& payload, Instant now);
  // It was dropped: nobody here knows yet where its source is, or the port is stopped. on_path_restored()
  // tells when that is over.
  void on_early_request(const Request& request);

  // --- Packets: what a path of them asks about a connection of a QP here (packets.h). `connection` is as the
  // path was opened with. ---

  // None: the QP is not there, is not connected so (any more), or takes no requests.
  std::optional<PacketsReceived> packets_received(const Connection& connection) const;
  // None: the same, or it sends none.
  std::optional<PacketsSent> packets_sent(const Connection& connection) const;
  // Behind the last packet of the newest message that was begun and is not finished; the oldest packet not
  // confirmed when there is none. None: as above. Looks through the send window.
  std::optional<Psn> packets_begun(const Connection& connection) const;
  // None: no message that was begun has that packet.
  std::optional<SentPacket> sent_packet(const Connection& connection, Psn psn) const;
  // What Responder has for them.
  bool accept_read(const Request& request, Instant now);
  bool open_read(const Request& request, ReadAnswer answer, guestmem::SpanList& source);
  void refuse_request(const Request& request, std::string_view why, Instant now);
  // What the word was before the atomic with this PSN; none: not remembered (any more).
  std::optional<std::uint64_t> atomic_result(const Connection& connection, Psn psn) const;
  // What the peer has not answered goes out again, at no retry's cost.
  void repeat(const Connection& connection);
  // The connection's path had no room and has some.
  void on_path_ready(const Connection& connection);

  // --- News of the paths. ---

  // A path that had no room takes requests again: QPs that wait are made ready.
  void on_path_ready();
  // Messages of the connections that `affected` picks, or of all, may have been lost: what they have not
  // answered goes out again at once, without spending a retry; whose request came early is asked for it.
  void on_path_restored(const std::function<bool(const Endpoint& own, const Endpoint& peer)>& affected,
                        Instant now);
  void on_all_paths_restored(Instant now);
  // An answer of that QP's that was lent (Path::lend_response()) is read no more.
  void on_returned(Qpn qpn, std::uint32_t rkey);

  // No path reads or writes the guest's memory when it returns, until another message; and what was being
  // written is in the log.
  void stop_loans();

  // --- Progress. ---

  // Gives some QPs with work a turn, and back some memory of what was destroyed. True: there is more to do.
  bool run(Instant now);
  // Fires the timers that are due. Call it when now >= next_deadline().
  void on_time(Instant now);
  // In the past while there is something to run: one adapter's turn can make another's QP ready behind that
  // one's back.
  Instant next_deadline() const;

  // --- Views, for commands, the control plane and tests. ---

  const Counters& counters() const { return counters_; }
  const GidTable& gids() const { return gids_; }
  const guestmem::AddressSpace& memory() const;
  std::vector<QpInfo> list_qps() const;
  // The same in parts, for who must not take long: one of them looks at kSlotsPerPage places at most.
  // `first`: 0, and then what the page before names as next, until it names none.
  struct QpPage {
    std::vector<QpInfo> qps;
    std::optional<std::uint32_t> next;
  };
  static constexpr std::uint32_t kSlotsPerPage = 512;
  QpPage list_qps_from(std::uint32_t first) const;
  struct ObjectCounts {
    std::uint32_t contexts, pds, mrs, cqs, qps, srqs;
  };
  ObjectCounts object_counts() const;
  // Of user processes, ascending. Looks at all there can be.
  std::vector<UarIndex> contexts() const;

 private:
  struct Impl;

  void load_into(Impl& fresh, state::Reader& reader, Counters& counters, Instant now);

  Outcome<CqHandle> make_cq(const CreateCq& request);
  Outcome<SrqHandle> make_srq(const CreateSrq& request);
  Outcome<CreatedQp> make_qp(const CreateQp& request);

  void bury(std::uint32_t budget);
  // What every creation of an object goes through: it gives back the memory of twice as many dead ones, the
  // newest first, so that who destroys and creates faster than run() is called holds what fits into three
  // tables at most. And what the dead still hold of a limit is no reason to refuse.
  template <typename Create>
  auto with_room(Create create) {
    bury(kBuriedPerCreation);
    auto made = create();
    if (!made && made.error() == CommandError::kNoMemory && has_dead_) {
      bury(kBuriedForRoom);
      made = create();
    }
    return made;
  }
  // Dead objects whose memory one run() gives back: that takes as long as a small copy.
  static constexpr std::uint32_t kBuriedPerRun = 64;
  static constexpr std::uint32_t kBuriedPerCreation = 2;
  static constexpr std::uint32_t kBuriedForRoom = 1024;

  Counters counters_;
  GidTable gids_;
  std::unique_ptr<Impl> impl_;
  std::vector<std::unique_ptr<Impl>> graveyard_;  // of resets
  bool has_dead_ = false;                         // there, or removed from impl_
};

}  // namespace pvrdma::verbs
