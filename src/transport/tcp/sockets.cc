#include "transport/tcp/sockets.h"

#include <array>
#include <cerrno>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include "base/random_bytes.h"

namespace pvrdma::transport::tcp {
namespace {

// Two of the largest segments: one is on its way to the wire while the next is fetched.
constexpr int kNotSentBytes = 512 * 1024;

constexpr std::size_t kNameBytes = 16 + 1;  // TCP_CA_NAME_MAX, and an end that is always 0

// False: errno has the reason.
bool choose(const Fd& socket, const std::string& congestion_control) {
  return ::setsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, congestion_control.data(),
                      static_cast<socklen_t>(congestion_control.size())) == 0;
}

}  // namespace

Result<CongestionControl> choose_congestion_control(const std::optional<std::string>& wanted,
                                                    const char* preferred) {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return fail_errno(errno, "cannot make a socket");
  std::string name = wanted.value_or(preferred);
  if (choose(socket, name)) return CongestionControl{std::move(name), {}};
  const int code = errno;
  const std::string reason = code == EPERM ? "only root may use it"
                             : code == ENOENT
                                 ? "the kernel does not have it, or its module is not loaded"
                                 : "the kernel refuses it: " + std::generic_category().message(code);
  // The sysctl takes only algorithms that the kernel has. It loads no module.
  const std::string load = code == ENOENT ? fmt::format("load its module (modprobe tcp_{}) and ", name) : "";
  if (wanted) {
    return fail(code,
                fmt::format("[tcp] congestion_control = \"{}\": {}: choose one that "
                            "/proc/sys/net/ipv4/tcp_allowed_congestion_control lists, or let root {}add it "
                            "there, or leave the key out",
                            name, reason, load));
  }
  std::array<char, kNameBytes> at_first{};
  socklen_t size = at_first.size() - 1;
  if (::getsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, at_first.data(), &size) != 0)
    return fail_errno(errno, "cannot read the kernel's congestion control");
  return CongestionControl{
      at_first.data(),
      fmt::format("tcp: congestion control {} instead of {}: {}: let root {}add {} to "
                  "/proc/sys/net/ipv4/tcp_allowed_congestion_control, or set [tcp] congestion_control",
                  at_first.data(), name, reason, load, name)};
}

Result<Fd> begin_connect(const IpAddress& from, const IpAddress& to, std::uint16_t port,
                         const std::string& congestion_control) {
  if (from.is_v6() != to.is_v6()) {
    return fail(EAFNOSUPPORT, fmt::format("cannot connect from {} to {}: one is IPv4, the other IPv6",
                                          from.to_string(), to.to_string()));
  }
  Fd socket(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno(errno, "cannot make a socket");
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
  sockaddr_storage where{};
  socklen_t length = from.to_sockaddr(0, where);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&where), length) != 0)
    return fail_errno(errno, fmt::format("cannot connect from {}", from.to_string()));
  tune(socket, congestion_control);
  length = to.to_sockaddr(port, where);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&where), length) != 0 && errno != EINPROGRESS)
    return fail_errno(errno, "cannot connect");
  return socket;
}

void tune(const Fd& socket, const std::string& congestion_control) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kNotSentBytes, sizeof(kNotSentBytes));
  choose(socket, congestion_control);
}

std::array<std::uint8_t, 16> random_id() {
  std::array<std::uint8_t, 16> id{};
  fill_random(std::as_writable_bytes(std::span(id)));
  return id;
}

}  // namespace pvrdma::transport::tcp
