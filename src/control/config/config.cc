#include "control/config/config.h"

#include <chrono>
#include <cstdint>
#include <fmt/core.h>
#include <utility>

#include "base/whole_number.h"
#include "control/config/rules.h"
#include "control/config/section.h"
#include "vocabulary/hardware_version.h"

namespace pvrdma::control {
namespace {

template <typename T>
void override_with(Section& daemon, const std::string& key, const std::optional<T>& value,
                   const std::string& flag) {
  if (value) daemon.set(key, *value, {flag, key});
}

// Spins shortly, because the programs that use the adapters poll on the same few cores.
constexpr int kCiSpinUs = 20;
constexpr Duration kCiIdleEnd = std::chrono::seconds(60);

Result<void> add_ci(const CiSource& ci, Document& document, Section& daemon) {
  if (ci.adapters < 1 || ci.adapters > kCiAdaptersMax)
    return fail(
        fmt::format("--ci {} is not a number of adapters: allowed are 1 to {}", ci.adapters, kCiAdaptersMax));
  if (!ci.folder.starts_with('/'))
    return fail(fmt::format("--runtime \"{}\" is not an absolute path: --ci needs a folder for its sockets",
                            ci.folder));
  daemon.set("api_socket", ci.folder + "/api.sock", {"--ci", "api_socket"});
  daemon.set("spin_us", kCiSpinUs, {"--ci", "spin_us"});
  daemon.set("shards", 1, {"--ci", "shards"});  // each pair of programs gets the lowest latency
  daemon.set("ward", false, {"--ci", "ward"});  // all programs are one user's
  daemon.set("fault_injection", true, {"--ci", "fault_injection"});
  for (std::int64_t node = 0; node < ci.adapters; ++node) {
    auto section = read_adapter_flag(
        fmt::format("name=node{0},socket={1}/node{0}.sock,mac=52:54:00:c1:00:{0:02x},hw={2}", node, ci.folder,
                    kVmHardwareVersionMax));
    if (!section) return Failure(std::move(section).error());
    document.adapters.push_back(*std::move(section));
  }
  return {};
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
  if (sources.ci) {
    if (auto added = add_ci(*sources.ci, document, daemon); !added) return Failure(std::move(added).error());
  }
  override_with(daemon, "api_socket", sources.api_socket, "--api-socket");
  override_with(daemon, "log_level", sources.log_level, "--log-level");
  override_with(daemon, "log_format", sources.log_format, "--log-format");
  override_with(daemon, "dedicated_core", sources.dedicated_core, "--dedicated-core");
  if (sources.shards) {
    const auto number = whole_number<std::int64_t>(*sources.shards);
    const Section::Origin origin{"--shards", "shards"};
    if (number)
      daemon.set("shards", *number, origin);
    else
      daemon.set("shards", *sources.shards, origin);
  }
  if (sources.shard_balancing) daemon.set("shard_balancing", true, {"--shard-balancing", "shard_balancing"});
  if (sources.ward) daemon.set("ward", true, {"--ward", "ward"});
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
  auto config = apply_rules(document);
  if (config && sources.ci) config->daemon.idle_end = kCiIdleEnd;
  return config;
}

}  // namespace pvrdma::control
