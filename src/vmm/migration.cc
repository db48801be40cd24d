#include "vmm/migration.h"

#include <cerrno>
#include <fmt/core.h>
#include <thread>

namespace pvrdma::vmm {
namespace {

constexpr Duration kPollInterval = std::chrono::milliseconds(1);

std::uint64_t number_of(const Json& object, const char* member) {
  const auto found = object.find(member);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

}  // namespace

Result<std::string> version_of(Monitor& monitor) {
  const auto answer = monitor.execute("query-version");
  if (!answer) return Failure(answer.error());
  std::string version;
  for (const char* part : {"major", "minor", "micro"}) {
    const Json number = answer->is_object() ? answer->value("qemu", Json::object()) : Json::object();
    if (!number.is_object() || !number.contains(part) || !number[part].is_number_unsigned())
      return fail(EPROTO, fmt::format("the QEMU at {} does not tell its version", monitor.path()));
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
  }
  return found;
}

bool has_ended(std::string_view status) {
  return status == "none" || status == "completed" || status == "failed" || status == "cancelled";
}

Result<void> set_migration_capability(Monitor& monitor, const char* name, bool on) {
  const auto set = monitor.execute("migrate-set-capabilities",
                                   {{"capabilities", Json::array({{{"capability", name}, {"state", on}}})}});
  if (!set) return Failure(set.error());
  return {};
}

Result<void> cancel_migration(Monitor& monitor, Instant until) {
  static_cast<void>(monitor.execute("migrate_cancel"));  // refused where there is none
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
