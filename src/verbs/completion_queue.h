// CompletionQueue: the device's end of a guest CQ ring. Reference 4.4, 5 (ARM), 6.5, 7.6.
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <memory>

#include "abi/cqe.h"
#include "base/time.h"
#include "guestmem/address_space.h"
#include "guestmem/page_directory.h"
#include "guestmem/ring.h"
#include "verbs/account.h"
#include "verbs/events.h"
#include "verbs/ids.h"
#include "verbs/limits.h"
#include "verbs/queue_link.h"
#include "verbs/status.h"

namespace pvrdma::verbs {

struct CreateCq {
  ContextHandle context;
  std::uint32_t cqe_count = 0;   // a power of two
  std::uint32_t page_count = 0;  // of the directory, including the state page
  std::uint64_t page_directory = 0;
};

enum class Armed : std::uint8_t { kNo, kSolicited, kAny };

struct SavedCq {
  CqHandle handle;
  ContextHandle context;
  std::uint32_t cqe_count = 0;
  guestmem::SavedRing ring;
  Armed armed = Armed::kNo;
  bool in_error = false;
  bool unannounced = false;
  bool unannounced_solicited = false;
};

class CompletionWatch;
struct MappedContext;

enum class Solicited : bool { kNo, kYes };

class CompletionQueue {
 public:
  // `memory` and `events` are borrowed and outlive the CQ.
  static Outcome<std::unique_ptr<CompletionQueue>> create(CqHandle handle, const CreateCq& request,
                                                          const Limits& limits,
                                                          const guestmem::AddressSpace& memory,
                                                          EventSink& events);

  SavedCq save() const;
  // Returns null if a value is out of its range. The caller checks the handle and the context.
  static std::unique_ptr<CompletionQueue> restore(const SavedCq& saved, const Limits& limits,
                                                  const guestmem::AddressSpace& memory, EventSink& events);

  enum class Pushed { kOk, kFailed };
  // Appends one CQE and fires if armed: after arm(kAny) for any CQE, after arm(kSolicited) for one that is
  // solicited or has an error status. Returns kFailed if the ring is full, its indices are invalid or its
  // page is gone. The CQ is then in error for good: it raises one CQ_ERR event, overwrites nothing, and the
  // caller moves the QP to ERR.
  Pushed push(const abi::Cqe& cqe, Solicited solicited);

  enum class Arm { kAny, kSolicited };
  // One-shot; kAny overrides kSolicited. Fires at once if a CQE was appended since the last firing and is
  // still in the ring: when the ARM arrived late, the guest may have polled before that CQE was there. If the
  // ARM may have lain in a doorbell page when that CQE came, fires even if the guest has polled it. CQEs
  // that a firing has announced do not count; otherwise the usual "get event, arm, poll" would cost two
  // events per completion.
  void arm(Arm what);

  // Tells the guest to poll the CQ.
  void fire();
  // The CQEs that the guest has not polled. Loads the guest's index.
  guestmem::GuestRing::Used unread() { return ring_.used(); }

  CqHandle handle() const { return handle_; }
  ContextHandle context() const { return context_; }
  bool in_error() const { return in_error_; }
  // Whether the CQ holds CQEs that no event has announced.
  bool unannounced() const { return unannounced_; }
  std::uint32_t cqe_count() const { return ring_.element_count(); }
  std::size_t page_count() const { return ring_.page_count(); }

  std::uint32_t references = 0;  // QPs that use it, counted by the engine: a CQ in use is not destroyed
  Account::Holding held;         // the CQ and its pages

  // Private to CompletionWatch: what it knows of a CQ of a mapped context.
  struct Watched {
    CompletionWatch* by = nullptr;  // null: the CQ is not watched, and the other members mean nothing
    MappedContext* context = nullptr;
    std::uint64_t cleared = 0;  // up to this epoch of the context, no hidden ARM is possible
    Instant due;                // only while the CQ waits
    std::uint64_t look_at_push =
        0;  // the last look at doorbell pages before the last CQE came without an event
    std::uint32_t consumer_index = 0;  // at the time when `due` was set
    std::uint16_t unasked = 0;         // events since the last ARM that was seen; at most kUnaskedMax
    std::uint8_t patience = 0;         // how many times kPatienceMin is doubled
    std::uint8_t awake_looks = 0;      // since the last unasked event; at most kLooksOfPoller
    bool is_named = false;             // by a word found since `due` was set
    bool maybe_armed_at_push = false;  // the last word that named it may be older than its last CQE
  };
  Watched watched;
  QueueLink<CompletionQueue> watch_link{this};

 private:
  CompletionQueue(CqHandle handle, ContextHandle context, guestmem::GuestRing ring, EventSink& events);
  Pushed enter_error();

  CqHandle handle_;
  ContextHandle context_;
  guestmem::GuestRing ring_;
  EventSink& events_;
  Armed armed_ = Armed::kNo;
  bool in_error_ = false;
  bool unannounced_ = false;            // a CQE was appended since the last firing
  bool unannounced_solicited_ = false;  // one of them fires arm(kSolicited)
};

}  // namespace pvrdma::verbs
