// AdapterLog: an adapter's lines in the daemon's log. Guests and clients can cause each of these lines at
// will, so each kind has a bounded rate.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/time.h"
#include "device/command_executor.h"
#include "device/shared_region.h"
#include "verbs/account.h"
#include "verbs/ids.h"
#include "vocabulary/budgets.h"

namespace pvrdma::device {

class AdapterLog {
 public:
  // `clock` is borrowed and outlives this.
  AdapterLog(std::string name, const Clock& clock) : name_(std::move(name)), clock_(clock) {}

  // --- The driver ---

  void region_refused(std::uint64_t address, RegionDefect defect);
  void driver_seen(const SharedRegion& region);
  void driver_says(std::string_view what);
  // `account` names the budget that was used up, if that was the reason.
  void command_refused(const CommandExecutor::Executed& executed, const verbs::Account& account);
  void access_ignored(std::uint64_t offset, std::size_t bytes, std::string_view why);
  void qp_failed(verbs::Qpn qpn, std::string_view why);
  // The client exceeded one of the rates, whose limit is `per_second`.
  void slowed(Budget rate, std::uint64_t per_second);

  // --- The client ---

  void client_connected(bool stands_by);
  void client_disconnected(bool stands_by, std::string_view reason);
  void client_reset_it();
  void map_refused(std::string_view why);
  void unmap_refused(std::uint64_t iova, std::uint64_t size, int error);
  void state_refused(std::uint64_t bytes, std::string_view why);
  void write_log_refused(std::string_view why);
  void memory_taken_away();
  void interrupt_was_slow(std::size_t vector);

 private:
  static constexpr std::uint32_t kBurst = 10;
  static constexpr Duration kInterval = std::chrono::seconds(1);
  static constexpr Duration kRateInterval = std::chrono::seconds(10);

  const std::string name_;
  const Clock& clock_;
  log::LogLimiter driver_{kBurst, kInterval};
  log::LogLimiter commands_{kBurst, kInterval};
  log::LogLimiter accesses_{kBurst, kInterval};
  log::LogLimiter qps_{kBurst, kInterval};
  log::LogLimiter client_{kBurst, kInterval};
  log::LogLimiter failures_{kBurst,
                            kInterval};  // its own: a VMM can use up client_ before it fails the adapter
  log::LogLimiter rates_{1, kRateInterval};
};

}  // namespace pvrdma::device
