#include "pvrdma_run/adapter_socket.h"

#include <fmt/core.h>
#include <httplib.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>

namespace pvrdma::run {

Result<std::string> find_adapter_socket(const std::string& api_socket, const std::string& adapter) {
  httplib::Client client(api_socket);
  client.set_address_family(AF_UNIX);
  client.set_connection_timeout(5);
  client.set_read_timeout(5);
  const auto answer = client.Get("/v1/adapters", {{"Host", "localhost"}});
  if (!answer || answer->status != 200) {
    return fail(fmt::format(
        "the daemon at {} does not answer: start it, or name its API socket with --daemon", api_socket));
  }
  const auto adapters = nlohmann::json::parse(answer->body, nullptr, false);
  if (adapters.is_array()) {
    for (const auto& each : adapters) {
      if (each.value("name", "") == adapter && each.contains("socket")) return each.value("socket", "");
    }
  }
  return fail(
      fmt::format("the daemon at {} has no adapter {}: pvrdmactl adapter list shows those that it has",
                  api_socket, adapter));
}

}  // namespace pvrdma::run
