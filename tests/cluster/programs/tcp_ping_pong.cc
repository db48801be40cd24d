// tcp_ping_pong: the time of a round trip over TCP, as a reference for the adapters' latency. The server
// answers each message with one of the same size, and the client prints the median in microseconds. Both wait
// in the kernel.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/socket.h>
#include <vector>

#include "base/fd.h"
#include "base/ip_address.h"

namespace pvrdma::test {
namespace {

using Clock = std::chrono::steady_clock;

bool exchange_all(int fd, std::vector<char>& message, bool send) {
  std::size_t done = 0;
  while (done < message.size()) {
    const auto count = send ? ::send(fd, message.data() + done, message.size() - done, MSG_NOSIGNAL)
                            : ::recv(fd, message.data() + done, message.size() - done, 0);
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

int fail_with(const char* what) {
  fmt::print(stderr, "tcp_ping_pong: {} failed\n", what);
  return 1;
}

int serve(const sockaddr* address, socklen_t length, std::vector<char>& message) {
  const Fd listener(::socket(address->sa_family, SOCK_STREAM, 0));
  const int on = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(listener.get(), address, length) != 0 || ::listen(listener.get(), 1) != 0)
    return fail_with("bind");
  fmt::print("listening\n");
  std::fflush(stdout);
  const Fd client(::accept(listener.get(), nullptr, nullptr));
  ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  while (exchange_all(client.get(), message, false) && exchange_all(client.get(), message, true)) {
  }
  return 0;
}

int measure(const sockaddr* address, socklen_t length, std::vector<char>& message, double seconds) {
  const Fd server(::socket(address->sa_family, SOCK_STREAM, 0));
  const int on = 1;
  if (::connect(server.get(), address, length) != 0) return fail_with("connect");
  ::setsockopt(server.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  std::vector<double> times;
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  while (Clock::now() < end) {
    const Clock::time_point begin = Clock::now();
    if (!exchange_all(server.get(), message, true) || !exchange_all(server.get(), message, false)) {
      return fail_with("an exchange");
    }
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  fmt::print("{:.3f}\n", times[times.size() / 2]);
  return 0;
}

int run(int argc, char** argv) {
  std::string address_text;
  std::uint16_t port = 18900;
  std::uint32_t size = 8;
  double seconds = 2;
  bool server = false;
  CLI::App app("tcp_ping_pong: round trips over TCP");
  app.add_option("--address", address_text, "the server's")->required();
  app.add_option("--port", port);
  app.add_option("--size", size, "bytes of a message")->check(CLI::Range(1, 1 << 20));
  app.add_option("--seconds", seconds)->check(CLI::Range(0.1, 600.0));
  app.add_flag("--server", server);
  CLI11_PARSE(app, argc, argv);
  const auto address = IpAddress::parse(address_text);
  if (!address) return fail_with("reading the address");
  sockaddr_storage where{};
  const socklen_t length = address->to_sockaddr(port, where);
  std::vector<char> message(size);
  const auto* plain = reinterpret_cast<const sockaddr*>(&where);
  return server ? serve(plain, length, message) : measure(plain, length, message, seconds);
}

}  // namespace
}  // namespace pvrdma::test

int main(int argc, char** argv) {
  return pvrdma::test::run(argc, argv);
}
