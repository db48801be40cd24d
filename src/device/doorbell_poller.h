// DoorbellPoller: finds the doorbells that guests have stored into the pages of their contexts (mapped mode).
//
// A page's QP and CQ words are one unit of 8 bytes. The poller loads the unit. Only if it is not 0 does it
// exchange the unit with 0, in one locked operation. So a doorbell that comes meanwhile is either taken or
// stays, and everything posted before a taken doorbell is visible. (With a load and a store, the 0 could
// erase a doorbell that nobody has seen.) The CQ word is executed first, so that completions of the QP's
// sends find the CQ armed. The SRQ word is not polled: receives are found when messages need them.
//
// Each turn looks at the pages that had a doorbell in the last millisecond and at a few of the others. After
// the shard has slept, it looks at all pages. It never looks at more than kLooksPerTurn pages in a turn.
//
// It allocates only at construction. Thread: shard-owned.
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
  static constexpr std::size_t kHotLooksPerTurn = 48;   // so that busy pages do not hide others
  static constexpr std::size_t kColdPagesPerLook = 16;  // each turn looks at one page of this many
  static constexpr Duration kHot = std::chrono::milliseconds(1);
  // A poller that has not run for this long has slept, so every page may have news.
  static constexpr Duration kSlept = std::chrono::microseconds(15);

  // All are borrowed and outlive this object.
  DoorbellPoller(std::uint32_t uar_pages, const DoorbellMemory& memory, Doorbells& doorbells,
                 verbs::Engine& engine);

  // The page belongs to a context from now on. It is cleared, so that a process does not see what another one
  // left in it.
  void open(verbs::UarIndex uar);
  // Stores into the page have no effect any more. Does nothing for a page that is not open.
  void close(verbs::UarIndex uar);
  void close_all();
  // Call it while the guest is paused: later stores are not included.
  SavedDoorbells save() const;
  // Opens the pages, which must not be open yet. The words come from the saved state, or from the memory, if
  // no other context has used it. Each page is below `uar_pages` and occurs once.
  enum class Words : bool { kSaved, kInMemory };
  void restore(const SavedDoorbells& saved, Words words);
  bool any_open() const { return !hot_.empty() || !cold_.empty(); }

  struct Looked {
    std::uint32_t doorbells = 0;
    bool again = false;  // there was something to do, or some pages have not been looked at since the sleep
  };
  Looked look(Instant now);

 private:
  struct Page {
    verbs::UarIndex uar;
    Instant last_news;
    std::uint64_t last_look = 0;  // as the engine counts looks
  };
  enum class News { kNone, kPoll, kWork };

  std::atomic_ref<std::uint64_t> words_of(verbs::UarIndex uar) const {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(memory_.page(uar)));
  }
  void look_after(verbs::UarIndex uar);
  News look_at(Page& page, Looked& looked, Instant now);
  // Returns how many pages were looked at.
  std::size_t look_at_hot(std::size_t at_most, Looked& looked, Instant now);
  void look_at_cold(std::size_t at_most, Looked& looked, Instant now);

  const DoorbellMemory& memory_;
  Doorbells& doorbells_;
  verbs::Engine& engine_;
  std::vector<Page> hot_;
  std::vector<Page> cold_;
  std::size_t next_hot_ = 0;
  std::size_t next_cold_ = 0;
  std::size_t cold_due_ = 0;  // pages left to look at since the last sleep
  std::uint64_t look_ = 0;    // the number of this look
  Instant last_look_;
};

}  // namespace pvrdma::device
