#include "control/config/rules.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/core.h>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "control/config/cluster_rules.h"
#include "control/config/values.h"

namespace pvrdma::control {
namespace {

constexpr std::array<std::string_view, 3> kDaemonKeys{"api_socket", "log_level", "spin_us"};
constexpr std::array<std::string_view, 6> kAdapterKeys{"name", "socket", "mac", "hardware_version",
                                                       "roce", "profile"};

Result<DaemonConfig> parse_daemon(const Section& section) {
  if (auto known = check_keys(section, kDaemonKeys); !known) return Failure(std::move(known).error());
  DaemonConfig daemon;
  if (const Setting* setting = section.find("api_socket")) {
    auto path = parse_socket(section, *setting);
    if (!path) return Failure(std::move(path).error());
    daemon.api_socket = *std::move(path);
  }
  if (const Setting* setting = section.find("log_level")) {
    const auto level = parse_log_level(section, *setting);
    if (!level) return Failure(level.error());
    daemon.log_level = *level;
  }
  if (const Setting* setting = section.find("spin_us")) {
    const auto spin = parse_spin(section, *setting);
    if (!spin) return Failure(spin.error());
    daemon.spin = *spin;
  }
  return daemon;
}

Result<AdapterConfig> parse_adapter(const Section& section) {
  if (auto known = check_keys(section, kAdapterKeys); !known) return Failure(std::move(known).error());
  auto name = required(section, "name", "name = \"VM-01\"", parse_name);
  if (!name) return Failure(std::move(name).error());
  auto socket = required(section, "socket", "socket = \"/run/pvrdma/vm-01.sock\"", parse_socket);
  if (!socket) return Failure(std::move(socket).error());
  auto mac = required(section, "mac", "mac = \"52:54:00:12:34:51\", the VM's vmxnet3 adapter's", parse_mac);
  if (!mac) return Failure(std::move(mac).error());
  auto version = required(section, "hardware_version", "hardware_version = 14", parse_version);
  if (!version) return Failure(std::move(version).error());
  auto roce = parse_roce(section, section.find("roce"), *version);
  if (!roce) return Failure(std::move(roce).error());
  AdapterConfig adapter{*std::move(name), *std::move(socket), *mac, *version, *roce, Profile::kOpen};
  if (const Setting* setting = section.find("profile")) {
    const auto profile = parse_profile(section, *setting);
    if (!profile) return Failure(profile.error());
    adapter.profile = *profile;
  }
  return adapter;
}

// Values that one adapter has and no other may have.
class Taken {
 public:
  // `value` is how two spellings of the same thing compare equal; `owner` is who has it, for the message.
  Result<void> take(const Section& section, std::string_view key, std::string value, std::string_view owner) {
    const Setting& setting = *section.find(key);
    const auto [it, free] =
        owners_.try_emplace(std::move(value), fmt::format("{} at {}", owner, setting.where));
    if (free) return {};
    return wrong(section, setting, fmt::format("is taken: {} has it, choose another", it->second));
  }

 private:
  std::map<std::string, std::string> owners_;
};

std::string same_file(const std::string& path) {
  return std::filesystem::path(path).lexically_normal().string();
}

Result<void> check_unique(const Document& document, const Config& config) {
  Taken names;
  Taken sockets;
  Taken macs;
  if (document.daemon.find("api_socket") != nullptr) {
    auto taken = sockets.take(document.daemon, "api_socket", same_file(config.daemon.api_socket), "the API");
    if (!taken) return taken;
  }
  for (std::size_t i = 0; i < config.adapters.size(); ++i) {
    const AdapterConfig& adapter = config.adapters[i];
    const Section& section = document.adapters[i];
    if (auto taken = names.take(section, "name", adapter.name, "the adapter"); !taken) return taken;
    const std::string owner = "adapter " + adapter.name;
    if (auto taken = sockets.take(section, "socket", same_file(adapter.socket), owner); !taken) return taken;
    if (auto taken = macs.take(section, "mac", adapter.mac.to_string(), owner); !taken) return taken;
  }
  return {};
}

}  // namespace

Result<Config> apply_rules(const Document& document) {
  auto daemon = parse_daemon(document.daemon);
  if (!daemon) return Failure(std::move(daemon).error());
  Config config;
  config.daemon = *std::move(daemon);
  for (const Section& section : document.adapters) {
    auto adapter = parse_adapter(section);
    if (!adapter) return Failure(std::move(adapter).error());
    config.adapters.push_back(*std::move(adapter));
  }
  if (auto cluster = apply_cluster_rules(document, config); !cluster) {
    return Failure(std::move(cluster).error());
  }
  if (auto unique = check_unique(document, config); !unique) return Failure(std::move(unique).error());
  return config;
}

}  // namespace pvrdma::control
