// TLS streams over socket pairs. transport/tcp/tls_stream_test.cc tests what mutual contexts refuse, and what
// happens to records that somebody changes.
#include "tls/stream.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <span>
#include <sys/socket.h>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/check.h"
#include "tls/context.h"
#include "tls/secret.h"
#include "tls/test_certificates.h"

namespace pvrdma::tls {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Streams {
  std::unique_ptr<Stream> client, server;

  // Runs both handshakes until they are done or broken. Bytes that one side writes reach the other at once.
  void shake_hands() const {
    const auto over = [](Io io) { return io == Io::kDone || io == Io::kBroken; };
    for (int round = 0; round < 20; ++round) {
      const Io of_client = client->handshake();
      if (over(server->handshake()) && over(of_client)) return;
    }
    ADD_FAILURE() << "the handshake comes to no end";
  }
};

class TlsStreamTest : public ::testing::Test {
 protected:
  static std::array<Fd, 2> sockets() {
    std::array<int, 2> fds{};
    PVRDMA_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0, "socketpair");
    return {Fd(fds[0]), Fd(fds[1])};
  }

  Streams mutual() {
    auto [near, far] = sockets();
    return {Context::mutual(files_).value()->client(std::move(near)).value(),
            Context::mutual(files_).value()->server(std::move(far)).value()};
  }

  // A client without a certificate that speaks only this version, and a server that does not ask for one.
  Streams server_only(int version, std::uint8_t fragments = TLSEXT_max_fragment_length_DISABLED) {
    auto [near, far] = sockets();
    SSL_CTX* const anonymous = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_tlsext_max_fragment_length(anonymous, fragments);
    SSL_CTX_set_security_level(anonymous, 0);
    SSL_CTX_set_min_proto_version(anonymous, version);
    SSL_CTX_set_max_proto_version(anonymous, version);
    Streams streams{
        Stream::create(std::move(near), *anonymous, Role::kClient).value(),
        Context::server_only(files_.certificate, files_.key).value()->server(std::move(far)).value()};
    SSL_CTX_free(anonymous);
    return streams;
  }

  // Writes until the socket is full. Returns the number of bytes.
  static std::size_t fill(int fd) {
    const std::array<std::byte, 4096> junk{};
    std::size_t bytes = 0;
    for (ssize_t sent = 0; sent >= 0; bytes += static_cast<std::size_t>(sent)) {
      sent = ::send(fd, junk.data(), junk.size(), MSG_DONTWAIT);
      if (sent < 0) break;
    }
    return bytes;
  }
  static void drop(int fd, std::size_t bytes) {
    std::vector<std::byte> junk(bytes);
    ASSERT_EQ(::recv(fd, junk.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
  }

  TestCertificates certificates_;
  const Files files_ = certificates_.issue("a");
};

TEST_F(TlsStreamTest, AHandshakeWaitsForRoomToWrite) {
  const Streams streams = mutual();
  const std::size_t junk = fill(streams.client->fd());
  EXPECT_EQ(streams.client->handshake(), Io::kWantWrite);
  drop(streams.server->fd(), junk);
  EXPECT_EQ(streams.client->handshake(), Io::kWantRead);
  streams.shake_hands();
  EXPECT_EQ(streams.client->handshake(), Io::kDone);
  EXPECT_EQ(streams.server->handshake(), Io::kDone);
  EXPECT_THAT(streams.server->peer_names(), ElementsAre("a"));
}

TEST_F(TlsStreamTest, AServerThatAsksForNoCertificateKnowsNobody) {
  for (const int version : {TLS1_3_VERSION, TLS1_2_VERSION}) {
    const Streams streams = server_only(version);
    streams.shake_hands();
    ASSERT_EQ(streams.server->handshake(), Io::kDone) << streams.server->trouble();
    EXPECT_THAT(streams.server->peer_names(), IsEmpty());
    EXPECT_FALSE(streams.server->peer_is(""));
    EXPECT_THAT(streams.client->peer_names(), ElementsAre("a"));
  }
  const Streams older = server_only(TLS1_1_VERSION);
  older.shake_hands();
  EXPECT_EQ(older.server->handshake(), Io::kBroken);
  EXPECT_THAT(older.server->trouble(),
              HasSubstr("no version of TLS in common; this host speaks TLS 1.2 or newer"));
}

TEST_F(TlsStreamTest, GoesOnWhereAVersionHasNoNewKeys) {
  const Streams streams = server_only(TLS1_2_VERSION);
  streams.shake_hands();
  const std::byte sent{0x5a};
  for (std::uint64_t i = 0; i < kRecordsPerKey + 10; ++i) {
    ASSERT_EQ(streams.client->write({&sent, 1}).io, Io::kDone) << streams.client->trouble();
    std::byte got{};
    ASSERT_EQ(streams.server->read({&got, 1}).io, Io::kDone) << streams.server->trouble();
    ASSERT_EQ(got, sent);
  }
}

// A client that the test drives directly, so that it can do what a Stream never does.
class RawClient {
 public:
  RawClient(Fd socket, const Files& files) : socket_(std::move(socket)) {
    SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
    PVRDMA_CHECK(SSL_CTX_use_certificate_file(context, files.certificate.c_str(), SSL_FILETYPE_PEM) == 1 &&
                     SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) == 1,
                 "the certificate can be used");
    ssl_ = SSL_new(context);
    SSL_CTX_free(context);
    SSL_set_fd(ssl_, socket_.get());
    SSL_set_connect_state(ssl_);
  }
  ~RawClient() { SSL_free(ssl_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void shake_hands(Stream& server) const {
    ::fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
    for (int round = 0; round < 20; ++round) {
      const int done = SSL_do_handshake(ssl_);
      if (server.handshake() == Io::kDone && done == 1) return;
    }
    ADD_FAILURE() << "the handshake comes to no end";
  }
  bool change_key() const {
    return SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) == 1 && SSL_do_handshake(ssl_) == 1;
  }
  bool write(std::span<const std::byte> bytes) const {
    return SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())) == static_cast<int>(bytes.size());
  }

 private:
  const Fd socket_;
  SSL* ssl_ = nullptr;
};

TEST_F(TlsStreamTest, AFloodOfNewKeysEndsTheStreamInTheMiddle) {
  auto [near, far] = sockets();
  const auto server = Context::mutual(files_).value()->server(std::move(far)).value();
  const RawClient client(std::move(near), files_);
  client.shake_hands(*server);
  const std::array<std::byte, 1> data{};
  std::array<std::byte, 100> got{};
  ASSERT_TRUE(client.write(data));
  ASSERT_EQ(server->read(got).bytes, 1u);
  for (std::uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(client.change_key());
  ASSERT_TRUE(client.write(data));
  EXPECT_EQ(server->read(got).io, Io::kBroken);
  EXPECT_THAT(server->trouble(), HasSubstr("17 messages of TLS itself with 1 bytes of data"));
  EXPECT_EQ(server->read(got).io, Io::kBroken);
}

TEST_F(TlsStreamTest, NewKeysAmongMuchDataAreFine) {
  auto [near, far] = sockets();
  const auto server = Context::mutual(files_).value()->server(std::move(far)).value();
  const RawClient client(std::move(near), files_);
  client.shake_hands(*server);
  const std::vector<std::byte> data(kRecordBytes);
  std::vector<std::byte> got(kRecordBytes);
  const std::uint64_t each = kBytesPerControlMessage / kRecordBytes;
  for (std::uint64_t i = 0; i < 3 * kControlMessages * each; ++i) {
    if (i % each == 0) {
      ASSERT_TRUE(client.change_key());
    }
    ASSERT_TRUE(client.write(data));
    ASSERT_EQ(server->read(got).io, Io::kDone) << server->trouble();
  }
}

// RFC 6066: a client may ask for smaller records than our streams write.
TEST_F(TlsStreamTest, APeerThatWantsSmallRecordsGetsEverythingToo) {
  for (const int version : {TLS1_3_VERSION, TLS1_2_VERSION}) {
    const Streams streams = server_only(version, TLSEXT_max_fragment_length_512);
    streams.shake_hands();
    std::vector<std::byte> sent(kRecordBytes);
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i >> 4);
    const Transfer written = streams.server->write(sent);
    ASSERT_EQ(written.io, Io::kDone) << streams.server->trouble();
    ASSERT_EQ(written.bytes, sent.size());
    std::vector<std::byte> got(sent.size());
    for (std::size_t at = 0; at < got.size();) {
      const Transfer read = streams.client->read(std::span(got).subspan(at));
      ASSERT_EQ(read.io, Io::kDone) << streams.client->trouble();
      at += read.bytes;
    }
    EXPECT_EQ(got, sent);
  }
}

TEST_F(TlsStreamTest, ARecordThatWaitsMayLieElsewhereTheNextTime) {
  const Streams streams = mutual();
  streams.shake_hands();
  std::vector<std::byte> bytes(kRecordBytes + 1000, std::byte{7});
  std::size_t records = 0;
  while (streams.client->write(bytes).io == Io::kDone) ++records;
  const std::vector<std::byte> elsewhere = bytes;
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  std::size_t arrived = 0;
  std::vector<std::byte> got(4 * kRecordBytes);
  const auto read_all = [&] {
    for (Transfer read = streams.server->read(got); read.io == Io::kDone; read = streams.server->read(got)) {
      arrived += read.bytes;
      ASSERT_TRUE(std::all_of(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(read.bytes),
                              [](std::byte byte) { return byte == std::byte{7}; }));
    }
  };
  read_all();
  const Transfer repeated = streams.client->write(elsewhere);
  EXPECT_EQ(repeated.io, Io::kDone);
  EXPECT_EQ(repeated.bytes, kRecordBytes) << "one record";
  read_all();
  EXPECT_EQ(arrived, (records + 1) * kRecordBytes);
}

TEST_F(TlsStreamTest, SaysWhatTheDescriptorDoesNot) {
  const Streams streams = mutual();
  streams.shake_hands();
  EXPECT_FALSE(streams.server->holds_input());
  const std::array<std::byte, 100> sent{};
  ASSERT_EQ(streams.client->write(sent).io, Io::kDone);
  ASSERT_EQ(streams.client->write(sent).io, Io::kDone);
  std::array<std::byte, 100> got{};
  ASSERT_EQ(streams.server->read(std::span(got).first(1)).bytes, 1u);
  EXPECT_EQ(::recv(streams.server->fd(), got.data(), 1, MSG_PEEK | MSG_DONTWAIT), -1);
  EXPECT_TRUE(streams.server->holds_input());
  EXPECT_EQ(streams.server->read(got).bytes, 99u);
  EXPECT_TRUE(streams.server->holds_input());
  EXPECT_EQ(streams.server->read(got).bytes, 100u);
  EXPECT_FALSE(streams.server->holds_input());
}

TEST_F(TlsStreamTest, AnEndInOrderIsNoTrouble) {
  Streams streams = mutual();
  streams.shake_hands();
  streams.client->shut_down();
  std::byte one{};
  EXPECT_EQ(streams.server->read({&one, 1}).io, Io::kClosed);
  EXPECT_FALSE(streams.server->is_broken());
  streams.server.reset();
  EXPECT_EQ(streams.client->read({&one, 1}).io, Io::kClosed) << "the end of a stream shuts it down";
}

TEST(TlsSecret, IsTheSameOrNot) {
  EXPECT_TRUE(is_same_secret("0123", "0123"));
  EXPECT_TRUE(is_same_secret("", ""));
  for (const char* other : {"", "012", "01234", "0124", "1123"}) EXPECT_FALSE(is_same_secret("0123", other));
}

}  // namespace
}  // namespace pvrdma::tls
