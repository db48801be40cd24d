#include "vmm/migration.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fmt/core.h>
#include <thread>
#include <utility>

namespace pvrdma::vmm {
namespace {

constexpr Duration kPollInterval = std::chrono::milliseconds(1);

std::uint64_t number_of(const Json& object, const char* member) {
  const auto found = object.find(member);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

// In bytes per second. QEMU measures 100 ms at a time.
std::uint64_t last_speed(const Json& ram) {
  const auto mbps = ram.find("mbps");
  if (mbps == ram.end() || !mbps->is_number()) return 0;
  return static_cast<std::uint64_t>(std::clamp(mbps->get<double>(), 0.0, 1e7) * 125'000);
}

std::uint64_t mean_speed(const Json& migration, const Json& ram) {
  constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 53;
  const std::uint64_t passed_ms = number_of(migration, "total-time");
  return passed_ms == 0 ? 0 : std::min(number_of(ram, "transferred"), kBytesMax) * 1000 / passed_ms;
}

}  // namespace

Result<std::string> version_of(Monitor& monitor) {
  const auto answer = monitor.execute("query-version");
  if (!answer) return Failure(answer.error());
  std::string version;
  for (const char* part : {"major", "minor", "micro"}) {
    const Json number = answer->is_object() ? answer->value("qemu", Json::object()) : Json::object();
    if (!number.is_object() || !number.contains(part) || !number[part].is_number_unsigned())
      return fail(EPROTO, fmt::format("the QEMU at {} does not report its version", monitor.path()));
    version += (version.empty() ? "" : ".") + std::to_string(number[part].get<std::uint64_t>());
  }
  return version;
}

Result<std::string> run_state(Monitor& monitor) {
  const auto answer = monitor.execute("query-status");
  if (!answer) return Failure(answer.error());
  return text_of(*answer, "status");
}

Result<MigrationStatus> migration_status(Monitor& monitor) {
  const auto answer = monitor.execute("query-migrate");
  if (!answer) return Failure(answer.error());
  MigrationStatus found;
  if (!answer->is_object() || !answer->contains("status")) return found;
  auto status = text_of(*answer, "status");
  if (!status) return Failure(std::move(status).error());
  found.status = *std::move(status);
  const auto why = text_of(*answer, "error-desc");
  found.why = why ? *why : "without a reason";
  if (const auto ram = answer->find("ram"); ram != answer->end() && ram->is_object()) {
    found.ram_bytes = number_of(*ram, "total");
    found.remaining_bytes = number_of(*ram, "remaining");
    found.bytes_per_s = std::max(last_speed(*ram), mean_speed(*answer, *ram));
  }
  return found;
}

bool has_ended(std::string_view status) {
  return status == "none" || status == "completed" || status == "failed" || status == "cancelled";
}

Result<std::set<std::string>> migration_capabilities(Monitor& monitor) {
  const auto answer = monitor.execute("query-migrate-capabilities");
  if (!answer) return Failure(answer.error());
  std::set<std::string> on;
  for (const Json& each : answer->is_array() ? *answer : Json::array()) {
    const auto name = text_of(each, "capability");
    if (!name) return Failure(name.error());
    if (each.contains("state") && each.at("state") == true) on.insert(*name);
  }
  return on;
}

Result<void> set_migration_capability(Monitor& monitor, const char* name, bool on) {
  const auto set = monitor.execute("migrate-set-capabilities",
                                   {{"capabilities", Json::array({{{"capability", name}, {"state", on}}})}});
  if (!set) return Failure(set.error());
  return {};
}

Result<MigrationSettings> migration_settings(Monitor& monitor) {
  const auto answer = monitor.execute("query-migrate-parameters");
  if (!answer) return Failure(answer.error());
  MigrationSettings found;
  for (const auto& [member, value] : {std::pair("max-bandwidth", &found.bytes_per_s_max),
                                      std::pair("downtime-limit", &found.downtime_ms)}) {
    const auto it = answer->is_object() ? answer->find(member) : answer->end();
    if (!answer->is_object() || it == answer->end() || !it->is_number_unsigned())
      return fail(EPROTO, fmt::format("the QEMU at {} does not report its {}", monitor.path(), member));
    *value = it->get<std::uint64_t>();
  }
  return found;
}

Result<void> set_migration_settings(Monitor& monitor, const MigrationSettings& settings) {
  const auto set = monitor.execute("migrate-set-parameters", {{"max-bandwidth", settings.bytes_per_s_max},
                                                              {"downtime-limit", settings.downtime_ms}});
  if (!set) return Failure(set.error());
  return {};
}

Result<void> cancel_migration(Monitor& monitor, Instant until) {
  static_cast<void>(monitor.execute("migrate_cancel"));  // QEMU refuses it if no migration is running
  while (true) {
    const auto found = migration_status(monitor);
    if (!found) return Failure(found.error());
    if (has_ended(found->status)) return {};
    if (Instant::now() >= until) {
      return fail(ETIMEDOUT, fmt::format("the QEMU at {} does not end its migration: it is \"{}\"",
                                         monitor.path(), found->status));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

}  // namespace pvrdma::vmm
