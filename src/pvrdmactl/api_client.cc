#include "pvrdmactl/api_client.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/core.h>
#include <fstream>
#include <httplib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>

#include "base/fd.h"
#include "pvrdmactl/output.h"

namespace pvrdma::ctl {
namespace {

constexpr std::size_t kRefusalBytesMax = 64 * 1024;
constexpr std::size_t kTokenCharsMin = 16;
constexpr std::size_t kTokenCharsMax = 256;

// The library gives no reason when it cannot connect, so this tries first.
Result<void> reach(const std::string& socket, std::uint32_t seconds) {
  sockaddr_un address{};
  if (socket.empty() || socket.size() >= sizeof(address.sun_path)) {
    return fail(ENAMETOOLONG, fmt::format("the API socket's path \"{}\" must have 1 to {} bytes", socket,
                                          sizeof(address.sun_path) - 1));
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket.data(), socket.size());
  const Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!probe) return fail_errno(errno, "cannot make a socket");
  const timeval patience{static_cast<time_t>(seconds), 0};  // the backlog of a stopped daemon fills up
  ::setsockopt(probe.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return {};
  const int code = errno;
  const char* advice = code == EACCES || code == EPERM ? "are you root or in the daemon's group?"
                                                       : "is pvrdmad running, and is this its api_socket?";
  return fail(code, fmt::format("the daemon cannot be reached at {} ({}): {}", socket,
                                std::generic_category().message(code), advice));
}

Result<std::string> read_token(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return fail(errno, fmt::format("cannot read the token file {}: {}", path,
                                   std::generic_category().message(errno)));
  }
  std::string token;
  std::getline(file, token);
  if (token.ends_with('\r')) token.pop_back();
  if (token.size() < kTokenCharsMin || token.size() > kTokenCharsMax ||
      !std::ranges::all_of(token, [](char c) { return c > ' ' && c <= '~'; })) {
    return fail(fmt::format("the token file {} must have a line of {} to {} visible characters", path,
                            kTokenCharsMin, kTokenCharsMax));
  }
  return token;
}

// Debian 13's cpp-httplib tells a certificate for another name apart, Debian 12's does not.
template <typename Error>
Error without_name_error(Error error) {
  if constexpr (requires { Error::SSLServerHostnameVerification; }) {
    if (error == Error::SSLServerHostnameVerification) return Error::SSLServerVerification;
  }
  return error;
}

std::string trouble(const Endpoint& endpoint, httplib::Error error) {
  const std::string where = endpoint.to_string();
  error = without_name_error(error);
  switch (error) {
    case httplib::Error::Connection:
    case httplib::Error::ConnectionTimeout:
      return fmt::format(
          "the daemon cannot be reached at {}: is pvrdmad running, and is this its [api] listen?", where);
    case httplib::Error::SSLConnection:
      return fmt::format("no TLS connection to {}: is this the [api] listen of a pvrdmad?", where);
    case httplib::Error::SSLLoadingCerts:
      return fmt::format("no certificates in {}: give a PEM file as --ca", endpoint.ca);
    case httplib::Error::SSLServerVerification:
      return fmt::format(
          "the certificate of {} is not trusted, expired or for another name: give the CA that signed it as "
          "--ca, and "
          "the host as the certificate names it",
          where);
    default:
      return fmt::format("the daemon at {} gave no answer: {}", where, httplib::to_string(error));
  }
}

Result<void> ask(httplib::ClientImpl& client, const Endpoint& endpoint, const Request& request,
                 const Take& take) {
  client.set_connection_timeout(static_cast<time_t>(request.reach_seconds));
  client.set_read_timeout(static_cast<time_t>(request.answer_seconds));
  client.set_write_timeout(static_cast<time_t>(request.reach_seconds));
  httplib::Request message;
  message.method = to_string(request.method);
  message.path = request.path;
  message.body = request.body;
  if (!request.body.empty()) message.set_header("Content-Type", std::string(request.type));
  int status = 0;
  std::string refusal;
  Result<void> taken;
  message.response_handler = [&](const httplib::Response& response) {
    status = response.status;
    return true;
  };
  message.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    const std::string_view piece(data, size);
    if (status == 200) {
      taken = take(piece);
    } else if (refusal.size() < kRefusalBytesMax) {
      refusal.append(piece);
    }
    return taken.has_value();
  };
  const httplib::Result result = client.send(message);
  if (!taken) return taken;
  if (!result) return fail(trouble(endpoint, result.error()));
  if (result->status != 200) return fail(error_sentence(refusal, result->status));
  return {};
}

}  // namespace

Result<std::string> send(const Endpoint& endpoint, const Request& request) {
  std::string body;
  auto sent = send(endpoint, request, [&body](std::string_view piece) -> Result<void> {
    body.append(piece);
    return {};
  });
  if (!sent) return Failure(std::move(sent).error());
  return body;
}

Result<void> send(const Endpoint& endpoint, const Request& request, const Take& take) {
  if (!endpoint.socket.empty()) {
    if (auto reached = reach(endpoint.socket, request.reach_seconds); !reached)
      return Failure(std::move(reached).error());
    httplib::ClientImpl client(endpoint.socket);
    client.set_address_family(AF_UNIX);
    client.set_default_headers({{"Host", "localhost"}});  // otherwise the library would send the path
    return ask(client, endpoint, request, take);
  }
  const auto token = read_token(endpoint.token_file);
  if (!token) return Failure(token.error());
  httplib::SSLClient client(endpoint.host, endpoint.port);
  client.set_bearer_token_auth(*token);
  if (!endpoint.ca.empty()) {
    if (::access(endpoint.ca.c_str(), R_OK) != 0) {
      return fail_errno(errno, fmt::format("cannot read the CA file {}", endpoint.ca));
    }
    client.set_ca_cert_path(endpoint.ca);
  }
  return ask(client, endpoint, request, take);
}

}  // namespace pvrdma::ctl
