#include "pvrdmactl/api_client.h"

#include <cerrno>
#include <cstring>
#include <fmt/core.h>
#include <httplib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <system_error>

#include "base/fd.h"
#include "pvrdmactl/views.h"

namespace pvrdma::ctl {
namespace {

constexpr time_t kAnswerSeconds = 10;

// The library tells no reason when it cannot connect, so this finds it out before.
Result<void> reach(const std::string& socket) {
  sockaddr_un address{};
  if (socket.empty() || socket.size() >= sizeof(address.sun_path)) {
    return fail(ENAMETOOLONG, fmt::format("the API socket's path \"{}\" must have 1 to {} bytes", socket,
                                          sizeof(address.sun_path) - 1));
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket.data(), socket.size());
  const Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!probe) return fail_errno(errno, "cannot make a socket");
  const timeval patience{kAnswerSeconds, 0};  // a stopped daemon's backlog fills up
  ::setsockopt(probe.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return {};
  const int code = errno;
  const char* advice = code == EACCES || code == EPERM ? "are you root or in the daemon's group?"
                                                       : "is pvrdmad running, and is this its api_socket?";
  return fail(code, fmt::format("the daemon cannot be reached at {} ({}): {}", socket,
                                std::generic_category().message(code), advice));
}

template <typename Send>
Result<std::string> ask(const std::string& socket, Send send) {
  if (auto reached = reach(socket); !reached) return Failure(std::move(reached).error());
  httplib::Client client(socket);
  client.set_address_family(AF_UNIX);
  client.set_read_timeout(kAnswerSeconds);
  const httplib::Result result = send(client);
  if (!result) {
    return fail(
        fmt::format("the daemon at {} gave no answer: {}", socket, httplib::to_string(result.error())));
  }
  if (result->status != 200) return fail(error_sentence(result->body, result->status));
  return result->body;
}

}  // namespace

Result<std::string> get(const std::string& socket, const std::string& path) {
  return ask(socket, [&](httplib::Client& client) { return client.Get(path); });
}

Result<std::string> put(const std::string& socket, const std::string& path, const std::string& body) {
  return ask(socket, [&](httplib::Client& client) { return client.Put(path, body, "application/json"); });
}

}  // namespace pvrdma::ctl
