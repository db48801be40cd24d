#include "device/adapter_log.h"

#include <cerrno>
#include <fmt/core.h>

#include "base/events.h"
#include "device/client_eventfd.h"

namespace pvrdma::device {
namespace {

// Names the budget that is used up, or the attribute that is out of its range, if it was one of them.
std::string why_refused(const CommandExecutor::Executed& executed, const verbs::Account& account) {
  std::string why;
  if (executed.err == static_cast<std::uint32_t>(verbs::CommandError::kNoMemory))
    why = account.last_refusal();
  else if (const auto& range = executed.out_of_range)
    why = fmt::format("{} is {}, not {} to {}", range->attribute, range->value, range->least, range->most);
  return why.empty() ? std::string(describe_refusal(executed.err)) : why;
}

}  // namespace

void AdapterLog::region_refused(std::uint64_t address, RegionDefect defect) {
  if (!driver_.allow(clock_.now())) return;
  log::warn("adapter {}: shared region at {:#x} refused: {}{}", name_, address, describe(defect),
            held_back(driver_));
}

void AdapterLog::driver_seen(const SharedRegion& region) {
  if (!driver_.allow(clock_.now())) return;
  log::info("adapter {}: driver version {} seen ({})", name_, region.driver_version,
            describe_guest_os(region.guest_os));
}

void AdapterLog::driver_says(std::string_view what) {
  if (driver_.allow(clock_.now())) log::info("adapter {}: {}", name_, what);
}

void AdapterLog::command_refused(const CommandExecutor::Executed& executed, const verbs::Account& account) {
  if (!commands_.allow(clock_.now())) return;
  log::warn("adapter {}: command {} refused: {}{}", name_,
            executed.command ? name_of(*executed.command) : "of unknown number",
            why_refused(executed, account), held_back(commands_));
}

void AdapterLog::access_ignored(std::uint64_t offset, std::size_t bytes, std::string_view why) {
  if (!accesses_.allow(clock_.now())) return;
  log::warn("adapter {}: write of {} bytes at {:#x} {} ignored{}", name_, bytes, offset, why,
            held_back(accesses_));
}

void AdapterLog::qp_failed(verbs::Qpn qpn, std::string_view why) {
  if (!qps_.allow(clock_.now())) return;
  log::warn("adapter {}: QP {} to error: {}{}", name_, qpn.value, why, held_back(qps_));
}

void AdapterLog::slowed(Budget rate, std::uint64_t per_second) {
  if (!rates_.allow(clock_.now())) return;
  events::tell(log::Level::kWarn, {events::Type::kAdapter, events::Kind::kVm, name_},
               "adapter {}: slowed: it exceeds its budget of {} {} a second (budgets.{}){}", name_,
               per_second, rate == Budget::kCommands ? "commands" : "doorbells", to_text(rate),
               held_back(rates_));
}

void AdapterLog::client_connected(bool stands_by) {
  if (client_.allow(clock_.now()))
    events::tell(log::Level::kInfo, {events::Type::kPower, events::Kind::kVm, name_},
                 "adapter {}: {} connected", name_, stands_by ? "its VM's next VMM" : "VM");
}

void AdapterLog::client_disconnected(bool stands_by, std::string_view reason) {
  if (!client_.allow(clock_.now())) return;
  events::tell(log::Level::kInfo, {events::Type::kPower, events::Kind::kVm, name_},
               "adapter {}: {} disconnected: {}{}", name_, stands_by ? "a VMM without its VM" : "VM", reason,
               held_back(client_));
}

void AdapterLog::client_reset_it() {
  if (client_.allow(clock_.now())) log::info("adapter {}: reset by the VM", name_);
}

void AdapterLog::map_refused(std::string_view why) {
  if (client_.allow(clock_.now())) log::warn("adapter {}: refused: {}{}", name_, why, held_back(client_));
}

void AdapterLog::unmap_refused(std::uint64_t iova, std::uint64_t size, int error) {
  if (!client_.allow(clock_.now())) return;
  log::warn("adapter {}: refused: DMA unmap of {:#x} bytes at {:#x}: {}{}", name_, size, iova,
            error == ENOENT ? "no map is there" : "it would cut a map", held_back(client_));
}

void AdapterLog::state_refused(std::uint64_t bytes, std::string_view why) {
  if (!client_.allow(clock_.now())) return;
  log::warn("adapter {}: {} bytes of its state refused: {}{}", name_, bytes, why, held_back(client_));
}

void AdapterLog::write_log_refused(std::string_view why) {
  if (client_.allow(clock_.now())) log::warn("adapter {}: {}{}", name_, why, held_back(client_));
}

void AdapterLog::interrupt_was_slow(std::size_t vector) {
  if (!client_.allow(clock_.now())) return;
  log::warn(
      "adapter {}: the kernel needed more than {} ms to signal interrupt {}, because the VMM watches it too "
      "often (epoll); a thread of this VM sends it from now on{}",
      name_, std::chrono::duration_cast<std::chrono::milliseconds>(ClientEventfd::kSlow).count(), vector,
      held_back(client_));
}

void AdapterLog::memory_taken_away() {
  if (!failures_.allow(clock_.now())) return;
  events::tell(
      log::Level::kError, {events::Type::kAdapter, events::Kind::kVm, name_},
      "adapter {}: the VMM removed guest memory while it was in use; the adapter stops until the VMM has "
      "disconnected{}",
      name_, held_back(failures_));
}

}  // namespace pvrdma::device
