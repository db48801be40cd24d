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
  // Null: a value is out of its range. The handle and the context are the caller's to check.
  static std::unique_ptr<CompletionQueue> restore(const SavedCq& saved, const Limits& limits,
                                                  const guestmem::AddressSpace& memory, EventSink& events);

  enum class Pushed { kOk, kFailed };
  // Appends one CQE, then fires if armed: any CQE after arm(kAny); after arm(kSolicited) one that is
  // solicited or has an error status. kFailed: the ring is full, its indices are invalid or its page is gone:
  // the CQ is in error from then on (one CQ_ERR event), nothing is ever overwritten, and the caller moves the
  // QP to ERR.
  Pushed push(const abi::Cqe& cqe, Solicited solicited);

  enum class Arm { kAny, kSolicited };
  // One-shot; kAny overrides kSolicited. Fires at once when the ring holds a CQE that came after the last
  // firing: a guest whose ARM reached us late may have looked before that CQE was there. CQEs that a firing
  // has told of do not count, or the usual "get event, arm, poll" would cost two events per completion.
  void arm(Arm what);

  // Tells the guest to look.
  void fire();
  // What the guest has not taken. Loads its index.
  guestmem::GuestRing::Used unread() { return ring_.used(); }

  CqHandle handle() const { return handle_; }
  ContextHandle context() const { return context_; }
  bool in_error() const { return in_error_; }
  // It holds CQEs that no event has told of.
  bool unannounced() const { return unannounced_; }
  std::uint32_t cqe_count() const { return ring_.element_count(); }
  std::size_t page_count() const { return ring_.page_count(); }

  std::uint32_t references = 0;  // QPs that use it, counted by the engine: a CQ in use is not destroyed
  Account::Holding held;         // it and its pages

  // CompletionWatch's own: what it knows of the CQ of a mapped context.
  struct Watched {
    CompletionWatch* by = nullptr;  // null: nobody watches the CQ, and the rest means nothing
    MappedContext* context = nullptr;
    std::uint64_t cleared = 0;         // the context's epoch up to which no ARM can be hidden
    Instant due;                       // while it waits
    std::uint32_t consumer_index = 0;  // when that was set
    std::uint8_t patience = 0;         // kPatienceMin doubled so often
    std::uint8_t batches = 0;          // taken without an event; at most kBatchesOfPoller
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
  bool unannounced_solicited_ = false;  // one that arm(kSolicited) waits for
};

}  // namespace pvrdma::verbs
