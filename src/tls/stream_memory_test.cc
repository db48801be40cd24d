// TLS connections while OpenSSL has no memory: each attempt fails or succeeds, and the next one works. A
// program of its own, because the first connection of a process makes what all others use.
#include <array>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "gtest/gtest.h"

#include "base/check.h"
#include "support/openssl_memory.h"
#include "tls/context.h"
#include "tls/stream.h"
#include "tls/test_certificates.h"

namespace pvrdma::tls {
namespace {

std::array<Fd, 2> sockets() {
  std::array<int, 2> fds{};
  PVRDMA_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0, "socketpair");
  return {Fd(fds[0]), Fd(fds[1])};
}

TEST(TlsStreamMemoryTest, TheFirstConnectionsFailUntilThereIsMemory) {
  TestCertificates certificates;
  const auto context = Context::mutual(certificates.issue("esx1")).value();
  std::uint64_t failures = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    auto [near, far] = sockets();
    const test::NoOpensslMemory none(nth);
    const auto stream = context->server(std::move(near));
    if (stream && !none.has_failed()) break;
    if (!stream) ++failures;
  }
  EXPECT_GT(failures, 5U);
}

}  // namespace
}  // namespace pvrdma::tls
