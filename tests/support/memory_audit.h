// MemoryAudit: that the log of written pages (guestmem/dirty_log.h) misses nothing, by comparing memory. It
// remembers the RAM of guests as they left it when they gave the word to the daemon; what has changed when
// the daemon is done must be in the log of that guest. The log is emptied at random moments only, so that
// rings that keep addresses meet both: pages marked long ago, and marks that have just been taken.
//
// The guests must do nothing between look() and check(). Thread: one.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "driver/guest_ram.h"
#include "guestmem/address_space.h"
#include "support/in_process_bus.h"

namespace pvrdma::test {

class MemoryAudit final : public CallWatcher {
 public:
  explicit MemoryAudit(std::uint64_t seed) : random_(seed) {}

  // Starts the log of `memory`, an adapter's, whose guest has all of its RAM in `ram`. Both are borrowed.
  void add(driver::GuestRam& ram, guestmem::AddressSpace& memory);

  // The daemon goes on.
  void look();
  // The daemon has stopped.
  void check();
  // Checks what is left; the logs are stopped.
  void finish();

  void before_call() override { look(); }
  void after_call() override { check(); }

  // One sentence for each page that changed and was not in the log.
  const std::vector<std::string>& missed() const { return missed_; }
  // Pages that were in a log, and that were in use.
  std::size_t logged_pages() const;
  std::size_t pages_in_use() const;
  // Pages that changed under the daemon's hands, counted once for each time that the log was emptied.
  std::uint64_t changes() const { return changes_; }
  std::uint64_t times_emptied() const { return times_emptied_; }

 private:
  using Pages = std::set<std::uint64_t>;  // guest-physical page numbers
  using Page = std::array<std::byte, guestmem::kPageBytes>;
  struct Guest {
    driver::GuestRam& ram;
    guestmem::AddressSpace& memory;
    std::map<std::uint64_t, std::unique_ptr<Page>> remembered;
    Pages changed;  // since the log was emptied
    Pages logged;   // ever
  };

  // Remembers the guest's RAM as it is now, what its buffers have of it; calls `changed(page)` for each page
  // that was another one.
  template <typename Changed>
  static void remember(Guest& guest, Changed changed);
  void empty_log(std::size_t index);
  Pages collect(Guest& guest);
  Pages report(Guest& guest);

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Guest>> guests_;
  std::vector<std::string> missed_;
  std::uint64_t changes_ = 0;
  std::uint64_t times_emptied_ = 0;
};

}  // namespace pvrdma::test
