#include "control/config/config.h"

#include <fmt/core.h>
#include <utility>

#include "control/config/rules.h"
#include "control/config/section.h"

namespace pvrdma::control {
namespace {

template <typename T>
void override_with(Section& daemon, const std::string& key, const std::optional<T>& value,
                   const std::string& flag) {
  if (value) daemon.set(key, *value, {flag, key});
}

}  // namespace

Result<Config> load_config(const ConfigSources& sources) {
  Document document;
  if (sources.file) {
    auto read = read_toml(*sources.file);
    if (!read) return Failure(std::move(read).error());
    document = *std::move(read);
  }
  Section& daemon = document.tables.try_emplace("daemon", Section{"[daemon]", {}}).first->second;
  override_with(daemon, "api_socket", sources.api_socket, "--api-socket");
  override_with(daemon, "log_level", sources.log_level, "--log-level");
  override_with(daemon, "log_format", sources.log_format, "--log-format");
  override_with(daemon, "dedicated_core", sources.dedicated_core, "--dedicated-core");
  if (sources.fault_injection) daemon.set("fault_injection", true, {"--fault-injection", "fault_injection"});
  for (const std::string& flag : sources.adapter_flags) {
    auto section = read_adapter_flag(flag);
    if (!section) return Failure(std::move(section).error());
    document.adapters.push_back(*std::move(section));
  }
  for (const std::string& flag : sources.roce_links) {
    document.roce.push_back(Section{"", "--roce-link " + flag});
    document.roce.back().set("link", flag, {"--roce-link", "link"});
  }
  if (document.adapters.empty() && document.table("host") == nullptr) {
    return fail(fmt::format(
        "{}: there is nothing to serve: add an [[adapter]] or a [host] table to the file, or give --adapter",
        sources.file.value_or("pvrdmad")));
  }
  return apply_rules(document);
}

}  // namespace pvrdma::control
