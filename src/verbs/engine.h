// Engine: the verbs of one adapter. Owns its PDs, MRs, CQs, SRQs, QPs and GIDs; turns work requests into
// messages and messages into completions.
//
// Sans-I/O: a function of (state, input, now). It contains no thread, socket or clock; its output goes
// through Wire and EventSink. Nothing allocates between doorbell and completion: create_* takes all memory,
// under Limits.
//
// The device calls the commands and doorbells, transports call on_request / on_response / on_datagram, and
// the shard calls run() and on_time(). Thread: shard-owned.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "abi/commands.h"
#include "base/blame.h"
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

// The index of the UAR page that a doorbell was written to: it identifies the doorbell's author. 0 is the
// kernel's page.
using UarIndex = std::uint32_t;

struct QpInfo {
  Qpn qpn;
  QpHandle handle;
  abi::QpType type;
  ContextHandle context;
  QpAttributes attributes;
  abi::QpCap cap;
  Gid local_gid;             // zero before RTR
  std::string path_trouble;  // Path::trouble() of the current path, if it carries packets or leads nowhere
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

  // What the adapter takes from its host; the one that the constructor got.
  Account& account() const;

  // Whose work it is to take messages of peers. Borrowed; null (at first): nobody's.
  void belong_to(Blame::Party* party) { party_ = party; }
  // Null: it belongs to nobody.
  Blame* blame() const { return party_ != nullptr ? &party_->blame() : nullptr; }

  // Destroys every object and unbinds every GID, as if the engine were new; counters stay. For CTL RESET and
  // VM reset. Like destroy_context() it is cheap however many objects there are: run() gives their memory
  // back.
  void reset();

  // --- Saving and loading (ADR 16). Allowed between any two calls. ---

  // Saves everything but guest memory, destroyed objects and paths. Takes time and memory in proportion to
  // the number of objects.
  void save(state::Writer& writer, Instant now) const;
  class Saving;  // the same, record by record (engine_saving.h)
  // Like save(), but as if the engine had no objects and no GIDs.
  void save_without_objects(state::Writer& writer) const;
  // Loads a saved engine, record by record (engine_loading.h).
  class Loading;

  // --- Commands. Each command takes effect completely or not at all. ---

  // `uar` is the index of the context's doorbell page. kInvalid: it is 0, beyond max_context, or taken.
  Outcome<ContextHandle> create_context(UarIndex uar);
  // Destroys the context and all objects that it still has.
  Outcome<> destroy_context(ContextHandle context);

  Outcome<PdHandle> create_pd(ContextHandle context);
  Outcome<> destroy_pd(PdHandle pd);  // kBusy while MRs, QPs or SRQs use it

  Outcome<MrKeys> create_mr(
      const CreateMr& request);  // kNotPermitted: kDma or kFastRegister from a user's PD
  Outcome<> destroy_mr(MrHandle mr);

  Outcome<CqHandle> create_cq(const CreateCq& request);
  Outcome<> destroy_cq(CqHandle cq);  // kBusy while QPs use it

  Outcome<SrqHandle> create_srq(
      const CreateSrq& request);  // `request.context` is ignored: the PD determines it
  Outcome<> modify_srq(SrqHandle srq, std::uint32_t limit);
  Outcome<abi::SrqAttr> query_srq(SrqHandle srq) const;
  Outcome<> destroy_srq(SrqHandle srq);

  Outcome<CreatedQp> create_qp(const CreateQp& request);
  Outcome<> modify_qp(QpHandle qp, const ModifyQp& request, Instant now);
  Outcome<abi::QpAttr> query_qp(QpHandle qp) const;
  // When it returns, nothing refers to the QP any more and its last CQE is written.
  Outcome<> destroy_qp(QpHandle qp, Instant now);

  Outcome<> bind_gid(std::uint32_t index, const Gid& gid, RoceVersion roce);
  Outcome<> unbind_gid(std::uint32_t index, const Gid& gid);

  // --- Doorbells. Unknown handles and objects of other contexts are counted and ignored. ---

  // Runs the QP's send queue at once, as far as the engine's share of the turn allows.
  void send_doorbell(UarIndex uar, QpHandle qp, Instant now);
  void receive_doorbell(UarIndex uar, QpHandle qp, Instant now);
  void srq_doorbell(UarIndex uar, SrqHandle srq, Instant now);
  void arm_cq(UarIndex uar, CqHandle cq, CompletionQueue::Arm what);

  // With Rules::mapped_doorbells: the adapter found a doorbell in the page of a user's context, which may
  // have overwritten others. Call cq_word_found() before the word takes effect, qp_word_found() after it.
  // begin_look() numbers the adapter's looks at pages; at `look_before` the page was still empty.
  std::uint64_t begin_look();
  void cq_word_found(UarIndex uar, CqHandle named, std::uint64_t look_before);
  void qp_word_found(UarIndex uar, QpHandle rung);

  // --- Messages from peers (through a transport). Every field is checked. ---

  // A message may arrive in pieces: the same request or response again, with the next offset and bytes.
  void on_request(const Request& request, Payload& payload, Instant now);
  void on_response(const Response& response, Payload& payload, Instant now);
  void on_datagram(const Datagram& datagram, const guestmem::SpanList& payload, Instant now);
  // The request was dropped because nobody here knows that its source is at `from`, or because the port is
  // stopped. When that has ended, on_path_restored() is called.
  void on_early_request(const Request& request, PeerPlace from, Instant now);

  // --- Packets: what a path that carries packets asks about a connection of a QP here (packets.h).
  // `connection` has the values with which the path was opened. ---

  // nullopt: the QP does not exist, does not have this connection (any more), or takes no requests in its
  // state.
  std::optional<PacketsReceived> packets_received(const Connection& connection) const;
  // nullopt: as above, or the QP sends no requests in its state.
  std::optional<PacketsSent> packets_sent(const Connection& connection) const;
  // The PSN behind the last packet of the newest message that was begun; if no open work request was begun,
  // the oldest unconfirmed packet. nullopt: as for packets_sent(). Searches the send window.
  std::optional<Psn> packets_begun(const Connection& connection) const;
  // nullopt: no message that was begun has that packet.
  std::optional<SentPacket> sent_packet(const Connection& connection, Psn psn) const;
  // The functions of Responder for such paths.
  bool accept_read(const Request& request, Instant now);
  bool open_read(const Request& request, ReadAnswer answer, guestmem::SpanList& source);
  void refuse_request(const Request& request, std::string_view why, Instant now);
  // The word's value before the atomic with this PSN; nullopt if the atomic is not remembered (any more).
  std::optional<std::uint64_t> atomic_result(const Connection& connection, Psn psn) const;
  // Sends unanswered requests of the connection again. It costs no retry.
  void repeat(const Connection& connection);
  // The connection's path has room again.
  void on_path_ready(const Connection& connection);

  // --- Changes of the paths. ---

  // A path that had no room takes requests again: makes the waiting QPs ready.
  void on_path_ready();
  // Messages of the connections that `affected` picks, or of all, may have been lost. Unanswered requests go
  // out again at once and cost no retry. A peer whose request came too early is asked to send it again.
  void on_path_restored(const std::function<bool(const Endpoint& own, const Endpoint& peer)>& affected,
                        Instant now);
  void on_all_paths_restored(Instant now);
  // The path no longer reads an answer of that QP that it had borrowed (Path::lend_response()).
  void on_returned(Qpn qpn, std::uint32_t rkey);

  // When it returns, no path reads or writes the guest's memory until the next message. Pages that paths were
  // writing are in the log of written pages.
  void stop_loans();

  // --- Progress. ---

  // Gives a turn to some QPs that have work, and frees some memory of destroyed objects. Returns true if
  // there is more to do.
  bool run(Instant now);
  // Fires the timers that are due. Call it when now >= next_deadline().
  void on_time(Instant now);
  // A time in the past while there is something to run. The turn of another adapter can make QPs of this
  // engine ready, so the result can change without a call to this engine.
  Instant next_deadline() const;

  // --- Views, for commands, the control plane and tests. ---

  const Counters& counters() const { return counters_; }
  const GidTable& gids() const { return gids_; }
  const guestmem::AddressSpace& memory() const;
  std::vector<QpInfo> list_qps() const;
  // Like list_qps(), one page at a time, for callers with a time bound: a page looks at kSlotsPerPage slots
  // at most, and asks at most kPathsAskedPerPage paths that carry packets for their trouble, which may take a
  // system call each.
  // `first`: 0, then `next` of the page before. A page without `next` is the last.
  struct QpPage {
    std::vector<QpInfo> qps;
    std::optional<std::uint32_t> next;
  };
  static constexpr std::uint32_t kSlotsPerPage = 512;
  static constexpr std::uint32_t kPathsAskedPerPage = 64;
  QpPage list_qps_from(std::uint32_t first) const;
  struct ObjectCounts {
    std::uint32_t contexts, pds, mrs, cqs, qps, srqs;
  };
  ObjectCounts object_counts() const;
  // The contexts of user processes, ascending. Looks at every possible context.
  std::vector<UarIndex> contexts() const;

 private:
  struct Impl;

  bool is_timed() const { return party_ != nullptr && party_->blame().is_watching(); }
  // Do the work of on_request(), on_response() and on_datagram().
  void take(const Request& request, Payload& payload, Instant now);
  void take(const Response& response, Payload& payload, Instant now);
  void take(const Datagram& datagram, const guestmem::SpanList& payload, Instant now);
  template <typename Message>
  void take_timed(const Message& message, Payload& payload, Instant now);
  void take_timed(const Datagram& datagram, const guestmem::SpanList& payload, Instant now);

  Outcome<CqHandle> make_cq(const CreateCq& request);
  Outcome<SrqHandle> make_srq(const CreateSrq& request);
  Outcome<CreatedQp> make_qp(const CreateQp& request);

  void bury(std::uint32_t budget);
  // Wraps every creation of an object. It first frees the memory of kBuriedPerCreation destroyed objects, the
  // newest first: a guest that destroys and creates faster than run() is called holds at most what fits into
  // three tables. If a limit is reached only because destroyed objects still count, it frees more of them and
  // tries again.
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
  // Destroyed objects whose memory one run() frees: this takes as long as a small copy.
  static constexpr std::uint32_t kBuriedPerRun = 64;
  static constexpr std::uint32_t kBuriedPerCreation = 2;
  static constexpr std::uint32_t kBuriedForRoom = 1024;

  Counters counters_;
  GidTable gids_;
  std::unique_ptr<Impl> impl_;
  Blame::Party* party_ = nullptr;
  std::vector<std::unique_ptr<Impl>> graveyard_;  // tables that reset() has replaced
  bool has_dead_ = false;  // there are destroyed objects in graveyard_ or removed from impl_
};

}  // namespace pvrdma::verbs
