// DoorbellPoller: finds what guests have stored into the doorbell pages of their contexts (mapped mode).
//
// A page's QP and CQ word are one unit of 8 bytes. It is loaded; only if it is not 0 it is exchanged with 0,
// in one locked operation: a doorbell that comes meanwhile is taken or stays, and what was posted before
// what is taken is visible. (With a load and a store, the 0 could erase a doorbell nobody has seen.) The CQ
// word is executed first, so that what the QP's sends complete finds its CQ armed. The SRQ word needs no
// look: receives are found when messages need them.
//
// Pages with news of the last millisecond are looked at in each turn, the others a few in each turn, and all
// when the shard has slept; never more than kLooksPerTurn in all.
//
// No allocation but at construction. Thread: shard-owned.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "device/doorbell_memory.h"
#include "device/doorbells.h"
#include "verbs/engine.h"

namespace pvrdma::device {

struct SavedDoorbells;

class DoorbellPoller {
 public:
  static constexpr std::size_t kLooksPerTurn = 64;
  static constexpr std::size_t kHotLooksPerTurn = 48;   // so that pages with much news hide no other's
  static constexpr std::size_t kColdPagesPerLook = 16;  // of so many, one is looked at in each turn
  static constexpr Duration kHot = std::chrono::milliseconds(1);
  // Who has not looked for so long has slept: every page may have news.
  static constexpr Duration kSlept = std::chrono::microseconds(15);

  // All borrowed, outliving this.
  DoorbellPoller(std::uint32_t uar_pages, const DoorbellMemory& memory, Doorbells& doorbells,
                 verbs::Engine& engine);

  // The page is a context's from now on, and empty: a process does not see what another one left in it.
  void open(verbs::UarIndex uar);
  // Nothing that is written there means anything any more. Does nothing for a page that is not open.
  void close(verbs::UarIndex uar);
  void close_all();
  // While the guest stands: what it stores later is not in it.
  SavedDoorbells save() const;
  // Opens the pages, none of which is open, with their words, or with what the guest has in the memory, which
  // was never another's. Each is below `uar_pages`, and there once.
  enum class Words : bool { kSaved, kInMemory };
  void restore(const SavedDoorbells& saved, Words words);
  bool any_open() const { return !hot_.empty() || !cold_.empty(); }

  struct Looked {
    std::uint32_t doorbells = 0;
    bool again = false;  // there was something to do, or not all pages have been looked at since the sleep
  };
  Looked look(Instant now);

 private:
  struct Page {
    verbs::UarIndex uar;
    Instant last_news;
  };
  enum class News { kNone, kPoll, kWork };

  std::atomic_ref<std::uint64_t> words_of(verbs::UarIndex uar) const {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(memory_.page(uar)));
  }
  void look_after(verbs::UarIndex uar);
  News look_at(verbs::UarIndex uar, Looked& looked, Instant now);
  // How many were looked at.
  std::size_t look_at_hot(std::size_t at_most, Looked& looked, Instant now);
  void look_at_cold(std::size_t at_most, Looked& looked, Instant now);

  const DoorbellMemory& memory_;
  Doorbells& doorbells_;
  verbs::Engine& engine_;
  std::vector<Page> hot_;
  std::vector<Page> cold_;
  std::size_t next_hot_ = 0;
  std::size_t next_cold_ = 0;
  std::size_t cold_due_ = 0;  // to be looked at since the last sleep
  Instant last_look_;
};

}  // namespace pvrdma::device
