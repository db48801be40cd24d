// tls_copy: the throughput of a plain OpenSSL stream copy over N connections, as a reference for the adapters
// with TLS. One thread on each side serves all connections in turn, as a shard does. TLS 1.3, AES-128-GCM, no
// client certificate. The client prints bytes per second.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <fcntl.h>
#include <fmt/core.h>
#include <memory>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <vector>

#include "base/fd.h"
#include "base/ip_address.h"

namespace pvrdma::test {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string address;
  std::string certificate;
  std::string key;
  std::uint16_t port = 18901;
  std::uint32_t connections = 4;
  double seconds = 2;
  bool server = false;
};

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

struct Connection {
  Fd fd;
  std::unique_ptr<SSL, FreeSsl> ssl;
};

int fail_with(const char* what) {
  fmt::print(stderr, "tls_copy: {} failed\n", what);
  ERR_print_errors_fp(stderr);
  return 1;
}

bool hand_shake(SSL_CTX* context, Fd fd, bool server, std::vector<Connection>& connections) {
  Connection connection{std::move(fd), std::unique_ptr<SSL, FreeSsl>(SSL_new(context))};
  SSL_set_fd(connection.ssl.get(), connection.fd.get());
  if ((server ? SSL_accept(connection.ssl.get()) : SSL_connect(connection.ssl.get())) != 1) return false;
  ::fcntl(connection.fd.get(), F_SETFL, O_NONBLOCK);
  connections.push_back(std::move(connection));
  return true;
}

// Moves bytes on all connections until `end` or until a peer closes. Returns the number of bytes.
std::uint64_t copy(std::vector<Connection>& connections, bool receive, Clock::time_point end) {
  std::vector<char> buffer(64 * 1024);
  std::vector<pollfd> waits;
  for (const Connection& each : connections) {
    waits.push_back({each.fd.get(), static_cast<short>(receive ? POLLIN : POLLOUT), 0});
  }
  std::uint64_t total = 0;
  while (Clock::now() < end) {
    ::poll(waits.data(), waits.size(), 100);
    for (const Connection& each : connections) {
      const int size = static_cast<int>(buffer.size());
      const int count = receive ? SSL_read(each.ssl.get(), buffer.data(), size)
                                : SSL_write(each.ssl.get(), buffer.data(), size);
      if (count > 0) {
        total += static_cast<std::uint64_t>(count);
        continue;
      }
      const int why = SSL_get_error(each.ssl.get(), count);
      if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) return total;
    }
  }
  return total;
}

int run(const Options& options) {
  const auto address = IpAddress::parse(options.address);
  if (!address) return fail_with("reading the address");
  sockaddr_storage where{};
  const socklen_t length = address->to_sockaddr(options.port, where);
  const std::unique_ptr<SSL_CTX, FreeContext> context(
      SSL_CTX_new(options.server ? TLS_server_method() : TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256");
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  std::vector<Connection> connections;
  if (options.server) {
    if (SSL_CTX_use_certificate_chain_file(context.get(), options.certificate.c_str()) != 1 ||
        SSL_CTX_use_PrivateKey_file(context.get(), options.key.c_str(), SSL_FILETYPE_PEM) != 1) {
      return fail_with("reading certificate and key");
    }
    const Fd listener(::socket(address->family(), SOCK_STREAM, 0));
    const int on = 1;
    ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&where), length) != 0 ||
        ::listen(listener.get(), 64) != 0) {
      return fail_with("bind");
    }
    fmt::print("listening\n");
    std::fflush(stdout);
    for (std::uint32_t i = 0; i < options.connections; ++i) {
      if (!hand_shake(context.get(), Fd(::accept(listener.get(), nullptr, nullptr)), true, connections)) {
        return fail_with("a handshake");
      }
    }
    copy(connections, true, Clock::time_point::max());
    return 0;
  }
  for (std::uint32_t i = 0; i < options.connections; ++i) {
    Fd fd(::socket(address->family(), SOCK_STREAM, 0));
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&where), length) != 0) return fail_with("connect");
    if (!hand_shake(context.get(), std::move(fd), false, connections)) return fail_with("a handshake");
  }
  const Clock::time_point begin = Clock::now();
  const std::uint64_t bytes = copy(
      connections, false,
      begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds)));
  fmt::print("{:.3f}\n",
             static_cast<double>(bytes) / std::chrono::duration<double>(Clock::now() - begin).count());
  return 0;
}

}  // namespace
}  // namespace pvrdma::test

int main(int argc, char** argv) {
  pvrdma::test::Options options;
  CLI::App app("tls_copy: a stream copy over TLS");
  app.add_option("--address", options.address, "the server's")->required();
  app.add_option("--port", options.port);
  app.add_option("--connections", options.connections)->check(CLI::Range(1, 64));
  app.add_option("--seconds", options.seconds)->check(CLI::Range(0.1, 600.0));
  app.add_option("--certificate", options.certificate);
  app.add_option("--key", options.key);
  app.add_flag("--server", options.server);
  CLI11_PARSE(app, argc, argv);
  return pvrdma::test::run(options);
}
