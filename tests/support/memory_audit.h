// MemoryAudit: checks that the log of written pages (guestmem/dirty_log.h) misses nothing, by comparing
// memory. It copies the guests' RAM before the daemon works. Each page that differs afterwards must be in
// that guest's log. The log is emptied at random moments, so that rings that keep addresses meet pages that
// were marked long ago, and marks that were just cleared.
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

  // Starts the log of an adapter's `memory`. `ram` is the guest's whole RAM. Both are borrowed.
  void add(driver::GuestRam& ram, guestmem::AddressSpace& memory);

  // Called before the daemon works.
  void look();
  // Called after the daemon has worked.
  void check();
  // Checks the rest, and stops the logs.
  void finish();

  void before_call() override { look(); }
  void after_call() override { check(); }

  // One sentence for each page that changed and was not in the log.
  const std::vector<std::string>& missed() const { return missed_; }
  // The number of pages that were in a log, and of pages that were in use.
  std::size_t logged_pages() const;
  std::size_t pages_in_use() const;
  // The number of pages that the daemon changed. A page counts once for each time that the log was emptied.
  std::uint64_t changes() const { return changes_; }
  std::uint64_t times_emptied() const { return times_emptied_; }

 private:
  using Pages = std::set<std::uint64_t>;  // guest-physical page numbers
  using Page = std::array<std::byte, guestmem::kPageBytes>;
  struct Guest {
    driver::GuestRam& ram;
    guestmem::AddressSpace& memory;
    std::map<std::uint64_t, std::unique_ptr<Page>> remembered;
    Pages changed;  // since the log was last emptied
    Pages logged;   // in any log so far
  };

  // Copies the guest's RAM that its buffers use, and calls `changed(page)` for each page that differs from
  // the last copy.
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
