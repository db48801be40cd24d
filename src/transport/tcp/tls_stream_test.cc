// What TLS between hosts refuses, and what happens to a stream that somebody in the middle changes.
#include "transport/tcp/tls_stream.h"

#include <array>
#include <fstream>
#include <openssl/ssl.h>
#include <optional>
#include <random>
#include <sys/socket.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tls/test_certificates.h"
#include "transport/tcp/stream_fixture.h"

namespace pvrdma::transport::tcp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TlsTest : public ::testing::Test {
 protected:
  // Each side's sentence after a handshake that must fail, or "" if a side has no error. A TLS 1.3 client is
  // done before the server has seen its certificate, and learns of the refusal at its first read.
  std::pair<std::string, std::string> refuse(Streams streams) {
    const auto states = shake_hands(streams);
    EXPECT_FALSE(states.first == Stream::Handshake::kDone && states.second == Stream::Handshake::kDone);
    for (Stream* stream : {streams.client.get(), streams.server.get()}) {
      if (stream->handshake() != Stream::Handshake::kDone) continue;
      std::byte one{};
      Transfer got = stream->read_some({&one, 1});
      while (got.io == Io::kWouldBlock) got = stream->read_some({&one, 1});
      EXPECT_EQ(got.io, Io::kBroken);
    }
    return {streams.client->trouble(), streams.server->trouble()};
  }
  std::pair<std::string, std::string> refuse(const tls::Files& client, const tls::Files& server) {
    return refuse(tls_streams(client, server, tcp_sockets()));
  }

  // A peer with its own TLS settings, made directly with OpenSSL.
  struct ForeignContext {
    SSL_CTX* raw = SSL_CTX_new(TLS_method());
    ForeignContext() { SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr); }
    ~ForeignContext() { SSL_CTX_free(raw); }
  };
  static std::unique_ptr<Stream> foreign_stream(Fd socket, const ForeignContext& context, tls::Role role) {
    return make_tls_stream(*tls::Stream::create(std::move(socket), *context.raw, role));
  }

  tls::TestCertificates certificates_;
  const tls::Files a_ = certificates_.issue("a");
  const tls::Files b_ = certificates_.issue("b");
};

TEST_F(TlsTest, RefusesCertificatesThatAreNotValidNow) {
  const tls::Files expired =
      certificates_.issue_as({.common_name = "old", .valid_from_s = -7200, .valid_until_s = -3600});
  const tls::Files early =
      certificates_.issue_as({.common_name = "early", .valid_from_s = 3600, .valid_until_s = 7200});
  auto [client, server] = refuse(a_, expired);
  EXPECT_THAT(client, HasSubstr("the peer's certificate (/CN=old) expired on 20"));
  EXPECT_THAT(server, HasSubstr("TLS alert \"certificate expired\""));
  std::tie(client, server) = refuse(expired, b_);
  EXPECT_THAT(server, HasSubstr("the peer's certificate (/CN=old) expired on 20"));
  EXPECT_THAT(client, HasSubstr("TLS alert \"certificate expired\""));
  std::tie(client, server) = refuse(early, b_);
  EXPECT_THAT(server, HasSubstr("is not valid before 20"));
  EXPECT_THAT(client, HasSubstr("TLS alert \"bad certificate\""));
}

TEST_F(TlsTest, RefusesCertificatesOfAnotherAuthority) {
  tls::TestCertificates others("another authority");
  tls::TestCertificates imitators;  // another authority with the same name
  for (const auto& [authority, alert] : {std::pair(&others, "unknown CA"), {&imitators, "decrypt error"}}) {
    tls::Files foreign = authority->issue("a");
    foreign.ca = a_.ca;
    auto [client, server] = refuse(foreign, b_);
    EXPECT_THAT(server, HasSubstr("was not signed by the authority that this host trusts"));
    EXPECT_THAT(client, HasSubstr(std::string("TLS alert \"") + alert + "\""));
    std::tie(client, server) = refuse(a_, foreign);
    EXPECT_THAT(client, HasSubstr("was not signed by the authority that this host trusts"));
    EXPECT_THAT(server, HasSubstr(std::string("TLS alert \"") + alert + "\""));
  }
}

TEST_F(TlsTest, RefusesAClientWithoutACertificate) {
  Sockets sockets = tcp_sockets();
  const ForeignContext anonymous;
  Streams streams{foreign_stream(std::move(sockets.client), anonymous, tls::Role::kClient),
                  make_tls_stream(*context(b_)->server(std::move(sockets.server)))};
  ASSERT_EQ(SSL_CTX_load_verify_file(anonymous.raw, b_.ca.c_str()), 1);
  const auto [client, server] = refuse(std::move(streams));
  EXPECT_EQ(server, "the peer showed no certificate");
  EXPECT_THAT(client, HasSubstr("TLS alert \"certificate required\""));
}

TEST_F(TlsTest, RefusesOlderVersions) {
  const ForeignContext older;
  ASSERT_EQ(SSL_CTX_set_max_proto_version(older.raw, TLS1_2_VERSION), 1);
  ASSERT_EQ(SSL_CTX_load_verify_file(older.raw, b_.ca.c_str()), 1);
  ASSERT_EQ(SSL_CTX_use_certificate_file(older.raw, a_.certificate.c_str(), SSL_FILETYPE_PEM), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey_file(older.raw, a_.key.c_str(), SSL_FILETYPE_PEM), 1);
  Sockets sockets = tcp_sockets();
  auto [client, server] = refuse(Streams{foreign_stream(std::move(sockets.client), older, tls::Role::kClient),
                                         make_tls_stream(*context(b_)->server(std::move(sockets.server)))});
  EXPECT_THAT(server, HasSubstr("no version of TLS in common"));
  EXPECT_THAT(client, HasSubstr("no version of TLS in common"));
  sockets = tcp_sockets();
  std::tie(client, server) =
      refuse(Streams{make_tls_stream(*context(b_)->client(std::move(sockets.client))),
                     foreign_stream(std::move(sockets.server), older, tls::Role::kServer)});
  EXPECT_THAT(server, HasSubstr("no version of TLS in common"));
  EXPECT_THAT(client, HasSubstr("no version of TLS in common"));
}

TEST_F(TlsTest, SaysThatThePeerDoesNotSpeakTls) {
  Sockets sockets = tcp_sockets();
  auto server = make_tls_stream(*context(b_)->server(std::move(sockets.server)));
  const std::string_view garbage = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
  ASSERT_EQ(::send(sockets.client.get(), garbage.data(), garbage.size(), 0), ssize_t(garbage.size()));
  while (server->handshake() == Stream::Handshake::kWantRead) {
  }
  EXPECT_EQ(server->handshake(), Stream::Handshake::kFailed);
  EXPECT_THAT(server->trouble(), HasSubstr("the peer does not speak TLS"));
}

TEST_F(TlsTest, TakesNamesFromTheCertificate) {
  const tls::Files both =
      certificates_.issue_as({.common_name = "other", .dns_names = {"esx-01", "esx-01.example.org"}});
  const tls::Files common_name = certificates_.issue_as({.common_name = "esx-02"});
  const tls::Files wildcard = certificates_.issue_as({.common_name = "x", .dns_names = {"*.example.org"}});
  Streams streams = tls_streams(both, common_name, tcp_sockets());
  shake_hands(streams);
  EXPECT_THAT(streams.server->peer_names(), ElementsAre("esx-01", "esx-01.example.org"));
  EXPECT_TRUE(streams.server->peer_is("ESX-01"));
  EXPECT_FALSE(streams.server->peer_is("other")) << "a DNS name makes the common name void";
  EXPECT_FALSE(streams.server->peer_is("esx-0"));
  EXPECT_FALSE(streams.server->peer_is(""));
  EXPECT_THAT(streams.client->peer_names(), ElementsAre("esx-02"));
  streams = tls_streams(a_, wildcard, tcp_sockets());
  shake_hands(streams);
  EXPECT_FALSE(streams.client->peer_is("esx-01.example.org")) << "wildcards would stand for other hosts";
}

TEST_F(TlsTest, AHandshakeThatWaitsForRoomAsksForWriting) {
  Streams streams = tls_streams(a_, b_, unix_sockets());
  EXPECT_FALSE(streams.client->wants_write());
  std::vector<std::byte> junk(4096);
  std::size_t filled = 0;
  for (ssize_t sent = 0; sent >= 0; filled += static_cast<std::size_t>(std::max<ssize_t>(sent, 0)))
    sent = ::send(streams.client->fd(), junk.data(), junk.size(), MSG_DONTWAIT);
  EXPECT_EQ(streams.client->handshake(), Stream::Handshake::kWantWrite);
  EXPECT_TRUE(streams.client->wants_write()) << "nothing comes that would wake a reader";
  junk.resize(filled);
  ASSERT_EQ(::recv(streams.server->fd(), junk.data(), filled, MSG_WAITALL), ssize_t(filled));
  EXPECT_EQ(streams.client->handshake(), Stream::Handshake::kWantRead);
  EXPECT_FALSE(streams.client->wants_write());
  EXPECT_EQ(shake_hands(streams), std::pair(Stream::Handshake::kDone, Stream::Handshake::kDone));
  EXPECT_FALSE(streams.client->wants_write());
}

// Two connections with the test in the middle, which sees and changes the ciphertext.
class TlsRelayTest : public TlsTest {
 protected:
  TlsRelayTest() {
    Sockets near = unix_sockets();
    Sockets far = unix_sockets();
    relay_ = {std::move(near.server), std::move(far.client)};
    streams_ = tls_streams(a_, b_, {std::move(near.client), std::move(far.server)});
    for (int round = 0; round < 10; ++round) {
      streams_.client->handshake();
      pass(relay_.client, relay_.server);
      streams_.server->handshake();
      pass(relay_.server, relay_.client);
    }
    PVRDMA_CHECK(streams_.client->handshake() == Stream::Handshake::kDone &&
                     streams_.server->handshake() == Stream::Handshake::kDone,
                 "the handshake succeeds through the relay");
  }

  static std::vector<std::byte> take(const Fd& from) {
    std::array<std::byte, 8192> bytes;
    const ssize_t got = ::recv(from.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    return {bytes.begin(), bytes.begin() + std::max<ssize_t>(got, 0)};
  }
  static void put(const Fd& to, std::span<const std::byte> bytes) {
    EXPECT_EQ(::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
  }
  static void pass(const Fd& from, const Fd& to) {
    if (const auto bytes = take(from); !bytes.empty()) put(to, bytes);
  }

  std::vector<std::byte> message(std::size_t size) {
    std::mt19937 random(3);
    return random_bytes(size, random);
  }

  Sockets relay_;
  Streams streams_;
  std::array<std::byte, 64> some_{};
  std::byte last_{};  // the last byte that arrived
};

TEST_F(TlsRelayTest, AConnectionCutInsideARecordIsBroken) {
  ASSERT_NO_FATAL_FAILURE(send_all(*streams_.client, message(1000)));
  const auto record = take(relay_.client);
  put(relay_.server, std::span(record).first(500));
  EXPECT_EQ(streams_.server->read_some(some_).io, Io::kWouldBlock) << "half a record is nothing";
  EXPECT_EQ(streams_.server->ready(10).bytes, 0u);
  relay_.server.reset();
  EXPECT_EQ(streams_.server->ready(10).io, Io::kBroken);
  EXPECT_EQ(streams_.server->trouble(), "the peer cut the connection");
  EXPECT_EQ(streams_.server->read_some(some_).io, Io::kBroken);
}

TEST_F(TlsRelayTest, AChangedByteBreaksTheConnectionAndReachesNobody) {
  ASSERT_NO_FATAL_FAILURE(send_all(*streams_.client, message(1000)));
  auto record = take(relay_.client);
  record[300] ^= std::byte{1};
  put(relay_.server, record);
  const Transfer held = streams_.server->ready(1000);
  EXPECT_EQ(held.io, Io::kBroken);
  EXPECT_EQ(held.bytes, 0u);
  EXPECT_EQ(streams_.server->trouble(), "a TLS record was changed on its way");
  pass(relay_.server, relay_.client);
  EXPECT_EQ(streams_.client->read_some(some_).io, Io::kBroken);
  EXPECT_THAT(streams_.client->trouble(), HasSubstr("TLS alert \"bad record mac\""));
}

TEST_F(TlsRelayTest, AReplayedRecordBreaksTheConnection) {
  ASSERT_NO_FATAL_FAILURE(send_all(*streams_.client, message(50)));
  const auto record = take(relay_.client);
  put(relay_.server, record);
  put(relay_.server, record);
  EXPECT_EQ(streams_.server->read_some(some_).bytes, 50u);
  EXPECT_EQ(streams_.server->read_some(some_).io, Io::kBroken);
}

TEST_F(TlsRelayTest, ShortPiecesShareARecord) {
  const auto bytes = message(3000);
  std::vector<iovec> pieces;
  for (std::size_t at = 0; at < bytes.size(); at += 100) pieces.push_back(piece(bytes.data() + at, 100));
  EXPECT_EQ(streams_.client->write_some(pieces).bytes, bytes.size());
  EXPECT_EQ(take(relay_.client).size(), 5 + 3000 + 1 + 16u) << "one header, one type, one tag";
}

TEST_F(TlsRelayTest, ChangesItsKeyBeforeItIsWornOut) {
  constexpr std::uint64_t kRecords = tls::kRecordsPerKey + 100;
  const std::byte sent{0x5a};
  std::size_t longer = 0;  // writes that also announced a new key
  for (std::uint64_t i = 0; i < kRecords; ++i) {
    ASSERT_NO_FATAL_FAILURE(send_all(*streams_.client, {&sent, 1}));
    const auto record = take(relay_.client);
    if (record.size() > 5 + 1 + 1 + 16u) ++longer;
    put(relay_.server, record);
    std::byte got{};
    const Transfer read = streams_.server->read_some({&got, 1});
    ASSERT_EQ(read.io, Io::kDone) << streams_.server->trouble();
    ASSERT_EQ(got, sent);
  }
  EXPECT_EQ(longer, 1u);
}

TEST_F(TlsRelayTest, ARecordThatWaitsBehindANewKeyKeepsItsBytes) {
  const int least = 1;  // the kernel raises it to its minimum
  ASSERT_EQ(::setsockopt(streams_.client->fd(), SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
  const auto drain = [&] {
    for (auto bytes = take(relay_.client); !bytes.empty(); bytes = take(relay_.client)) {
      put(relay_.server, bytes);
      std::byte got{};
      while (streams_.server->read_some({&got, 1}).io == Io::kDone) last_ = got;
    }
  };
  const std::byte old{0x11};
  std::uint64_t records = 0;
  const auto send_one = [&] {
    ++records;
    ASSERT_NO_FATAL_FAILURE(send_all(*streams_.client, {&old, 1}));
  };
  while (!streams_.client->wants_write()) send_one();
  const std::uint64_t fit = records - 1;
  do drain();
  while (streams_.client->flush() != Io::kDone);
  while (records != tls::kRecordsPerKey - 1 - fit) {
    send_one();
    drain();
  }
  for (std::uint64_t i = 0; i < fit; ++i) send_one();
  ASSERT_FALSE(streams_.client->wants_write());
  const std::byte fresh{0x22};
  ASSERT_NO_FATAL_FAILURE(send_all(*streams_.client, {&fresh, 1}));  // announces a new key
  ASSERT_TRUE(streams_.client->wants_write());
  do drain();
  while (streams_.client->flush() != Io::kDone);
  drain();
  EXPECT_EQ(last_, fresh);
}

}  // namespace
}  // namespace pvrdma::transport::tcp
