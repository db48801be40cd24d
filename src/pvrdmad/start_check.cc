#include "pvrdmad/start_check.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/core.h>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <variant>

#include "api/tls_listener.h"
#include "control/store/etcd_client.h"
#include "tls/context.h"
#include "transport/tcp/sockets.h"

namespace pvrdma::daemon {
namespace {

constexpr std::array<std::string_view, 2> kFoldersOfTheUnit{"/run/pvrdma", "/var/lib/pvrdma"};

// `folder`: an absolute path.
void look_for(std::string_view use, const std::filesystem::path& folder, std::vector<std::string>& warnings) {
  std::error_code ignored;
  if (std::ranges::count(kFoldersOfTheUnit, folder.native()) != 0 ||
      std::filesystem::is_directory(folder, ignored))
    return;
  warnings.push_back(
      fmt::format("the folder {} of {} does not exist: make it, because pvrdmad.service makes only "
                  "/run/pvrdma and /var/lib/pvrdma",
                  folder.native(), use));
}

void look_for_folders(const control::Config& config, std::vector<std::string>& warnings) {
  const auto folder_of = [](const std::string& file) { return std::filesystem::path(file).parent_path(); };
  look_for("[daemon] api_socket", folder_of(config.daemon.api_socket), warnings);
  for (const control::AdapterConfig& adapter : config.adapters)
    look_for("adapter " + adapter.name + "'s socket", folder_of(adapter.socket), warnings);
  if (!config.cluster) return;
  look_for("[host] socket_folder", config.cluster->socket_folder, warnings);
  if (const auto* sqlite = std::get_if<control::SqliteConfig>(&config.cluster->store))
    look_for("[store] path", folder_of(sqlite->path), warnings);
}

}  // namespace

Result<std::vector<std::string>> check_start(const control::Config& config) {
  std::vector<std::string> warnings;
  look_for_folders(config, warnings);
  if (config.cluster) {
    auto chosen = transport::tcp::choose_congestion_control(config.cluster->tcp_congestion_control);
    if (!chosen) return Failure(std::move(chosen).error());
    if (!chosen->warning.empty()) warnings.push_back(std::move(chosen->warning));
    if (const auto& files = config.cluster->tcp_tls) {
      if (auto made = tls::Context::mutual({files->ca, files->certificate, files->key}); !made)
        return Failure(std::move(made).error());
    }
    if (const auto* etcd = std::get_if<control::EtcdConfig>(&config.cluster->store)) {
      if (auto made = control::etcd::EtcdClient::create(*etcd); !made)
        return Failure(std::move(made).error());
    }
  }
  if (config.api) {
    if (auto made = api::make_tls_context(*config.api); !made) return Failure(std::move(made).error());
  }
  if (::geteuid() == 0) {
    warnings.push_back(
        "checked as root, which may do more than the user of pvrdmad.service: to check as that user, run "
        "runuser -u "
        "pvrdma -- pvrdmad --config FILE --check");
  }
  return warnings;
}

}  // namespace pvrdma::daemon
