#include "control/config/config.h"

#include <fmt/core.h>
#include <utility>

#include "control/config/flag_reader.h"
#include "control/config/rules.h"
#include "control/config/setting.h"
#include "control/config/toml_reader.h"

namespace pvrdma::control {
namespace {

void override_with(Section& daemon, const std::string& key, const std::optional<std::string>& value,
                   const std::string& flag) {
  if (value) daemon.settings.push_back(Setting{key, *value, flag, key});
}

}  // namespace

Result<Config> load_config(const ConfigSources& sources) {
  Document document;
  document.daemon.title = "[daemon]";
  if (sources.file) {
    auto read = read_toml(*sources.file);
    if (!read) return Failure(std::move(read).error());
    document = *std::move(read);
  }
  override_with(document.daemon, "api_socket", sources.api_socket, "--api-socket");
  override_with(document.daemon, "log_level", sources.log_level, "--log-level");
  for (const std::string& flag : sources.adapter_flags) {
    auto section = read_adapter_flag(flag);
    if (!section) return Failure(std::move(section).error());
    document.adapters.push_back(*std::move(section));
  }
  if (document.adapters.empty() && !document.host) {
    return fail(fmt::format(
        "{}: there is nothing to serve: add an [[adapter]] or a [host] table to the file, or give --adapter",
        sources.file.value_or("pvrdmad")));
  }
  return apply_rules(document);
}

}  // namespace pvrdma::control
