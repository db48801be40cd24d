#include "pvrdmactl/endpoint.h"

#include <fmt/core.h>
#include <string_view>

#include "base/whole_number.h"

namespace pvrdma::ctl {
namespace {

constexpr const char* kDefaultSocket = "/run/pvrdma/api.sock";
constexpr std::string_view kScheme = "https://";

std::string given(const Values& globals, const char* option) {
  const auto value = globals.find(option);
  return value == globals.end() ? "" : value->second;
}

Result<Endpoint> parse_server(const std::string& server) {
  const auto refused = [&server] {
    return fail(
        fmt::format("the server \"{}\" must be https://HOST:PORT, an IPv6 address in brackets", server));
  };
  if (!server.starts_with(kScheme)) return refused();
  std::string_view rest = server;
  rest.remove_prefix(kScheme.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const auto colon = rest.rfind(':');
  if (colon == std::string_view::npos) return refused();
  std::string_view host = rest.substr(0, colon);
  const std::string_view port = rest.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return refused();
  }
  Endpoint endpoint;
  endpoint.host = host;
  endpoint.port = whole_number<std::uint16_t>(port).value_or(0);
  if (host.empty() || host.find_first_of("/@[]?# ") != std::string_view::npos || endpoint.port == 0)
    return refused();
  return endpoint;
}

}  // namespace

std::string Endpoint::to_string() const {
  if (!socket.empty()) return socket;
  return host.find(':') == std::string::npos ? fmt::format("https://{}:{}", host, port)
                                             : fmt::format("https://[{}]:{}", host, port);
}

Result<Endpoint> choose_endpoint(const Values& globals, const Environment& environment) {
  const bool has_api = globals.contains("api");
  const bool has_server = globals.contains("server");
  if (has_api && has_server) return fail("give only one of --api and --server");
  const std::string from_environment = has_api ? "" : environment("PVRDMA_SERVER");
  if (has_server || !from_environment.empty()) {
    auto endpoint = parse_server(has_server ? given(globals, "server") : from_environment);
    if (!endpoint) return endpoint;
    endpoint->token_file =
        globals.contains("token-file") ? given(globals, "token-file") : environment("PVRDMA_TOKEN_FILE");
    endpoint->ca = globals.contains("ca") ? given(globals, "ca") : environment("PVRDMA_CA");
    if (endpoint->token_file.empty()) {
      return fail(fmt::format("the server {} asks for a token: give --token-file or set PVRDMA_TOKEN_FILE",
                              endpoint->to_string()));
    }
    return endpoint;
  }
  for (const char* option : {"token-file", "ca"}) {
    if (globals.contains(option)) return fail(fmt::format("--{} needs --server too", option));
  }
  Endpoint endpoint;
  endpoint.socket = has_api ? given(globals, "api") : environment("PVRDMA_API");
  if (endpoint.socket.empty() && !has_api) endpoint.socket = kDefaultSocket;
  if (endpoint.socket.empty()) return fail("--api: the socket's path is empty");
  return endpoint;
}

}  // namespace pvrdma::ctl
