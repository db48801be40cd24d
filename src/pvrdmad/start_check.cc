#include "pvrdmad/start_check.h"

#include <unistd.h>
#include <utility>
#include <variant>

#include "api/tls_listener.h"
#include "control/store/etcd_client.h"
#include "tls/context.h"
#include "transport/tcp/sockets.h"

namespace pvrdma::daemon {

Result<std::vector<std::string>> check_start(const control::Config& config) {
  std::vector<std::string> warnings;
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
