// Streams, plain and TLS, over real sockets; and what TLS refuses.
#include "transport/tcp/stream.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <fcntl.h>
#include <fstream>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <optional>
#include <poll.h>
#include <random>
#include <sys/socket.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "guestmem/sigbus.h"
#include "guestmem/test_ram.h"
#include "transport/tcp/plain_stream.h"
#include "transport/tcp/test_certificates.h"
#include "transport/tcp/tls_context.h"
#include "transport/tcp/tls_stream.h"

namespace pvrdma::transport::tcp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

enum class Kind { kPlain, kTls };
enum class Socket { kUnix, kTcp };

struct Sockets {
  Fd client, server;
};

Sockets unix_sockets() {
  std::array<int, 2> fds{};
  PVRDMA_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0, "socketpair");
  return {Fd(fds[0]), Fd(fds[1])};
}

Sockets tcp_sockets() {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  PVRDMA_CHECK(::bind(listener.get(), raw, size) == 0 && ::listen(listener.get(), 1) == 0 &&
                   ::getsockname(listener.get(), raw, &size) == 0,
               "listens on loopback");
  Sockets sockets;
  sockets.client = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  PVRDMA_CHECK(::connect(sockets.client.get(), raw, size) == 0, "connects");
  sockets.server = Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  PVRDMA_CHECK(bool(sockets.server), "accepts");
  return sockets;
}

struct Streams {
  std::unique_ptr<Stream> client, server;
};

// Until something comes to either; a hang guard, nothing else.
void wait_for_bytes(const Streams& streams) {
  std::array<pollfd, 2> fds{{{streams.client->fd(), POLLIN, 0}, {streams.server->fd(), POLLIN, 0}}};
  PVRDMA_CHECK(::poll(fds.data(), fds.size(), 30000) > 0, "nothing moves any more");
}

// Until both are done, or one has failed and the other has noticed or is done.
std::pair<Stream::Handshake, Stream::Handshake> shake_hands(Streams& streams) {
  using enum Stream::Handshake;
  while (true) {
    const auto client = streams.client->handshake();
    const auto server = streams.server->handshake();
    const auto over = [](auto state) { return state == kDone || state == kFailed; };
    if (over(client) && over(server)) return {client, server};
    if (!over(client) || !over(server)) {
      // What one has just written may be there for the other already.
      if (streams.client->handshake() == client && !over(server)) wait_for_bytes(streams);
    }
  }
}

std::unique_ptr<TlsContext> context(const TlsFiles& files) {
  auto made = TlsContext::create(files);
  PVRDMA_CHECK(made.has_value(), "the test's certificates are fine");
  return std::move(*made);
}

Streams tls_streams(const TlsFiles& client, const TlsFiles& server, Sockets sockets) {
  Streams streams;
  streams.client = *context(client)->client(std::move(sockets.client));
  streams.server = *context(server)->server(std::move(sockets.server));
  return streams;
}

Streams plain_streams(Sockets sockets) {
  return {make_plain_stream(std::move(sockets.client)), make_plain_stream(std::move(sockets.server))};
}

std::vector<std::byte> random_bytes(std::size_t size, std::mt19937& random) {
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

iovec piece(const std::byte* data, std::size_t size) {
  return {const_cast<std::byte*>(data), size};
}

void send_all(Stream& stream, std::span<const std::byte> bytes) {
  const iovec one = piece(bytes.data(), bytes.size());
  const Transfer sent = stream.write_some({&one, 1});
  ASSERT_EQ(sent.io, Io::kDone);
  ASSERT_EQ(sent.bytes, bytes.size());
}

bool resolve(guestmem::AddressSpace& memory, std::uint64_t at, std::size_t size, guestmem::SpanList& spans) {
  std::byte* const data = memory.translate(guestmem::GuestPhys(at), size, guestmem::Access::kWrite);
  return data != nullptr && spans.append(data, size);
}

std::size_t below(std::size_t limit, std::mt19937& random) {
  return random() % limit;
}

// One direction of a transfer, driven in small steps of random shape.
struct Direction {
  Stream& from;
  Stream& to;
  std::vector<std::byte> sent;
  std::vector<std::byte> received;
  std::size_t taken = 0;
  std::size_t arrived = 0;
  int held_back = 0;  // steps with something that had to wait

  void write(std::mt19937& random) {
    if (from.wants_write()) {
      ++held_back;
      from.flush();
    }
    if (taken == sent.size()) return;
    std::vector<iovec> pieces;
    std::size_t at = taken;
    for (std::size_t left = 1 + below(40, random); left != 0 && at != sent.size(); --left) {
      const std::size_t longest = below(4, random) == 0 ? 100'000 : 300;
      const std::size_t size = std::min(below(longest, random), sent.size() - at);
      pieces.push_back(piece(sent.data() + at, size));
      at += size;
    }
    if (at == taken) return;
    const Transfer moved = from.write_some(pieces);
    ASSERT_THAT(moved.io, ::testing::AnyOf(Io::kDone, Io::kWouldBlock)) << from.trouble();
    if (moved.io == Io::kWouldBlock) ++held_back;
    ASSERT_EQ(moved.io == Io::kDone, moved.bytes != 0);
    ASSERT_LE(moved.bytes, at - taken);
    taken += moved.bytes;
  }

  void read(std::mt19937& random) {
    if (arrived == sent.size()) return;
    const std::size_t wanted =
        std::min(1 + below(below(3, random) == 0 ? 200'000 : 2000, random), sent.size() - arrived);
    if (below(2, random) == 0) {
      const Transfer got = to.read_some({received.data() + arrived, wanted});
      ASSERT_THAT(got.io, ::testing::AnyOf(Io::kDone, Io::kWouldBlock)) << to.trouble();
      ASSERT_EQ(got.io == Io::kDone, got.bytes != 0);
      ASSERT_LE(got.bytes, wanted);
      arrived += got.bytes;
      return;
    }
    const Transfer held = to.ready(wanted);
    ASSERT_THAT(held.io, ::testing::AnyOf(Io::kDone, Io::kWouldBlock)) << to.trouble();
    ASSERT_EQ(held.io == Io::kDone, held.bytes >= wanted);
    const std::size_t take = std::min(held.bytes, wanted);
    // The pieces lie apart: every second one is put where it belongs later.
    std::vector<std::byte> scattered(2 * take);
    guestmem::SpanList target;
    std::vector<std::pair<std::size_t, std::size_t>> places;
    for (std::size_t at = 0; at != take;) {
      std::size_t size = std::min(1 + below(5000, random), take - at);
      if (places.size() + 1 == guestmem::SpanList::kCapacity) size = take - at;
      ASSERT_TRUE(target.append(scattered.data() + 2 * at, size));
      places.emplace_back(2 * at, size);
      at += size;
    }
    ASSERT_EQ(to.read_into(target), take);
    for (const auto& [place, size] : places) {
      std::copy_n(scattered.data() + place, size, received.data() + arrived);
      arrived += size;
    }
  }
};

struct Case {
  Kind kind;
  Socket socket;
};

class StreamTest : public ::testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() { certificates_ = std::make_unique<TestCertificates>(); }
  static void TearDownTestSuite() { certificates_.reset(); }

  Streams connected() {
    Sockets sockets = GetParam().socket == Socket::kUnix ? unix_sockets() : tcp_sockets();
    if (GetParam().kind == Kind::kPlain) return plain_streams(std::move(sockets));
    Streams streams = tls_streams(certificates_->issue("a"), certificates_->issue("b"), std::move(sockets));
    PVRDMA_CHECK(shake_hands(streams) == std::pair(Stream::Handshake::kDone, Stream::Handshake::kDone),
                 "the handshake succeeds");
    return streams;
  }
  bool is_tls() const { return GetParam().kind == Kind::kTls; }

  static std::unique_ptr<TestCertificates> certificates_;
};
std::unique_ptr<TestCertificates> StreamTest::certificates_;

INSTANTIATE_TEST_SUITE_P(All, StreamTest,
                         ::testing::Values(Case{Kind::kPlain, Socket::kUnix},
                                           Case{Kind::kPlain, Socket::kTcp}, Case{Kind::kTls, Socket::kUnix},
                                           Case{Kind::kTls, Socket::kTcp}),
                         [](const auto& test) {
                           return std::string(test.param.kind == Kind::kPlain ? "Plain" : "Tls") +
                                  (test.param.socket == Socket::kUnix ? "Unix" : "Tcp");
                         });

TEST_P(StreamTest, MovesEveryByteBothWays) {
  std::mt19937 random(4711);
  Streams streams = connected();
  constexpr std::size_t kBytes = 5'000'000;
  std::array<Direction, 2> ways{{{*streams.client, *streams.server, random_bytes(kBytes, random), {}},
                                 {*streams.server, *streams.client, random_bytes(kBytes, random), {}}}};
  for (Direction& way : ways) {
    way.received.resize(kBytes);
    while (way.held_back == 0 && way.taken != kBytes) ASSERT_NO_FATAL_FAILURE(way.write(random));
    ASSERT_GT(way.held_back, 0) << "the sockets took everything at once: the test is too small";
  }
  const auto is_over = [](const Direction& way) { return way.arrived == kBytes; };
  while (!std::all_of(ways.begin(), ways.end(), is_over)) {
    const std::size_t before = ways[0].arrived + ways[1].arrived + ways[0].taken + ways[1].taken;
    for (Direction& way : ways) {
      for (std::size_t n = below(8, random); n != 0; --n) ASSERT_NO_FATAL_FAILURE(way.write(random));
      for (std::size_t n = below(8, random); n != 0; --n) ASSERT_NO_FATAL_FAILURE(way.read(random));
    }
    const bool all_taken = ways[0].taken == kBytes && ways[1].taken == kBytes;
    const std::size_t after = ways[0].arrived + ways[1].arrived + ways[0].taken + ways[1].taken;
    // What a stream holds already makes no socket readable.
    const auto is_dry = [&](const Direction& way) {
      return is_over(way) || way.to.ready(1).io == Io::kWouldBlock;
    };
    if (after == before && all_taken && !streams.client->wants_write() && !streams.server->wants_write() &&
        std::all_of(ways.begin(), ways.end(), is_dry))
      wait_for_bytes(streams);
  }
  for (const Direction& way : ways) EXPECT_TRUE(way.sent == way.received);
}

TEST_P(StreamTest, SaysWhatIsLeftBeforeTheEnd) {
  std::mt19937 random(1);
  Streams streams = connected();
  EXPECT_EQ(streams.server->ready(1).io, Io::kWouldBlock);
  std::byte one{};
  EXPECT_EQ(streams.server->read_some({&one, 1}).io, Io::kWouldBlock);

  const auto sent = random_bytes(40'000, random);
  ASSERT_NO_FATAL_FAILURE(send_all(*streams.client, sent));
  streams.client.reset();
  Transfer held = streams.server->ready(50'000);
  while (held.io == Io::kWouldBlock) held = streams.server->ready(50'000);
  EXPECT_EQ(held.io, Io::kClosed);
  ASSERT_EQ(held.bytes, sent.size());

  std::vector<std::byte> received(sent.size());
  guestmem::SpanList target;
  ASSERT_TRUE(target.append(received.data(), received.size()));
  EXPECT_EQ(streams.server->read_into(target), sent.size());
  EXPECT_TRUE(received == sent);
  EXPECT_EQ(streams.server->read_some({&one, 1}).io, Io::kClosed);
  EXPECT_THAT(streams.server->trouble(), IsEmpty());
}

TEST(PlainStreamTest, KeepsTheRestOfAPacketBackAfterALargeWrite) {
  const Streams streams = plain_streams(tcp_sockets());
  const auto keeps_back = [&] {
    int corked = 0;
    socklen_t size = sizeof corked;
    EXPECT_EQ(::getsockopt(streams.client->fd(), IPPROTO_TCP, TCP_CORK, &corked, &size), 0);
    return corked != 0;
  };
  const std::vector<std::byte> bytes(64 * 1024);
  ASSERT_NO_FATAL_FAILURE(send_all(*streams.client, std::span(bytes).first(2048)));
  EXPECT_FALSE(keeps_back());
  ASSERT_NO_FATAL_FAILURE(send_all(*streams.client, bytes));
  EXPECT_TRUE(keeps_back());
  ASSERT_NO_FATAL_FAILURE(send_all(*streams.client, std::span(bytes).first(2048)));
  EXPECT_TRUE(keeps_back());
  streams.client->push();
  EXPECT_FALSE(keeps_back());
}

TEST_P(StreamTest, BreaksWhenThePeerResets) {
  Streams streams = connected();
  Fd kept(::fcntl(streams.client->fd(), F_DUPFD_CLOEXEC, 0));
  if (GetParam().socket == Socket::kTcp) {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ASSERT_EQ(::setsockopt(kept.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  } else {
    // A UNIX socket resets when it is closed with bytes unread.
    ASSERT_NO_FATAL_FAILURE(send_all(*streams.server, std::array<std::byte, 10>{}));
  }
  // Without TLS's farewell.
  ASSERT_GE(::dup2(unix_sockets().client.get(), streams.client->fd()), 0);
  kept.reset();

  Transfer held = streams.server->ready(1);
  while (held.io == Io::kWouldBlock) held = streams.server->ready(1);
  EXPECT_EQ(held.io, Io::kBroken);
  EXPECT_THAT(streams.server->trouble(), HasSubstr("connection broke"));
}

TEST_P(StreamTest, GuestMemoryThatIsGoneReadsAsZerosAndEndsNothing) {
  ASSERT_TRUE(guestmem::install_sigbus_handler());
  constexpr std::size_t kPage = 4096;
  guestmem::TestRam ram(4 * kPage);
  guestmem::AddressSpace memory;
  ram.map_into(memory, 0);
  guestmem::SpanList spans;
  ASSERT_TRUE(resolve(memory, 0, 4 * kPage, spans));
  std::memset(ram.at(0), 7, 4 * kPage);
  Streams streams = connected();

  ram.truncate(2 * kPage);
  ASSERT_EQ(spans.size(), 1u);
  std::vector<std::byte> received(4 * kPage + 1);
  std::size_t sent = 0;
  while (sent != 4 * kPage) {
    const iovec rest = piece(spans[0].data + sent, 4 * kPage - sent);
    const Transfer moved = streams.client->write_some({&rest, 1});
    ASSERT_EQ(moved.io, Io::kDone) << streams.client->trouble();
    sent += moved.bytes;
  }
  while (streams.server->ready(4 * kPage).io == Io::kWouldBlock) {
  }
  guestmem::SpanList target;
  ASSERT_TRUE(target.append(received.data(), 4 * kPage));
  ASSERT_EQ(streams.server->read_into(target), 4 * kPage);
  for (std::size_t i = 0; i < 4 * kPage; ++i) ASSERT_EQ(received[i], std::byte(i < 2 * kPage ? 7 : 0)) << i;

  guestmem::TestRam other(2 * kPage);
  other.map_into(memory, 16 * kPage);
  guestmem::SpanList gone;
  ASSERT_TRUE(resolve(memory, 16 * kPage, 2 * kPage, gone));
  other.truncate(kPage);
  std::mt19937 random(2);
  const auto message = random_bytes(2 * kPage, random);
  ASSERT_NO_FATAL_FAILURE(send_all(*streams.client, message));
  ASSERT_NO_FATAL_FAILURE(send_all(*streams.client, std::span(message).first(100)));
  while (streams.server->ready(2 * kPage + 100).io == Io::kWouldBlock) {
  }
  EXPECT_EQ(streams.server->read_into(gone), 2 * kPage);
  EXPECT_EQ(std::memcmp(other.at(0), message.data(), kPage), 0);
  std::array<std::byte, 100> next{};
  EXPECT_EQ(streams.server->read_some(next).bytes, next.size()) << "the stream is where it should be";
  EXPECT_TRUE(std::equal(next.begin(), next.end(), message.begin()));
}

TEST_P(StreamTest, KnowsThePeersName) {
  Streams streams = connected();
  EXPECT_TRUE(streams.client->peer_is("b"));
  EXPECT_EQ(streams.client->peer_is("c"), !is_tls()) << "without TLS nothing is proven";
  if (is_tls()) {
    EXPECT_THAT(streams.client->peer_names(), ElementsAre("b"));
    EXPECT_THAT(streams.server->peer_names(), ElementsAre("a"));
  } else {
    EXPECT_THAT(streams.client->peer_names(), IsEmpty());
  }
}

class TlsTest : public ::testing::Test {
 protected:
  // What both sides say after a handshake that must fail: the sentence, or "" if one had nothing to say.
  // A TLS 1.3 client is done before the server has seen its certificate, and learns at its first read.
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
  std::pair<std::string, std::string> refuse(const TlsFiles& client, const TlsFiles& server) {
    return refuse(tls_streams(client, server, tcp_sockets()));
  }

  // A peer with rules of its own, as OpenSSL makes it.
  struct ForeignContext {
    SSL_CTX* raw = SSL_CTX_new(TLS_method());
    ~ForeignContext() { SSL_CTX_free(raw); }
  };

  TestCertificates certificates_;
  const TlsFiles a_ = certificates_.issue("a");
  const TlsFiles b_ = certificates_.issue("b");
};

TEST_F(TlsTest, RefusesCertificatesThatAreNotValidNow) {
  const TlsFiles expired =
      certificates_.issue_as({.common_name = "old", .valid_from_s = -7200, .valid_until_s = -3600});
  const TlsFiles early =
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
  TestCertificates others("another authority");
  TestCertificates imitators;  // of the same name
  for (const auto& [authority, alert] : {std::pair(&others, "unknown CA"), {&imitators, "decrypt error"}}) {
    TlsFiles foreign = authority->issue("a");
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
  Streams streams{*make_tls_stream(std::move(sockets.client), *anonymous.raw, TlsRole::kClient),
                  *context(b_)->server(std::move(sockets.server))};
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
  auto [client, server] =
      refuse(Streams{*make_tls_stream(std::move(sockets.client), *older.raw, TlsRole::kClient),
                     *context(b_)->server(std::move(sockets.server))});
  EXPECT_THAT(server, HasSubstr("no version of TLS in common"));
  EXPECT_THAT(client, HasSubstr("no version of TLS in common"));
  sockets = tcp_sockets();
  std::tie(client, server) =
      refuse(Streams{*context(b_)->client(std::move(sockets.client)),
                     *make_tls_stream(std::move(sockets.server), *older.raw, TlsRole::kServer)});
  EXPECT_THAT(server, HasSubstr("no version of TLS in common"));
  EXPECT_THAT(client, HasSubstr("no version of TLS in common"));
}

TEST_F(TlsTest, SaysThatThePeerDoesNotSpeakTls) {
  Sockets sockets = tcp_sockets();
  auto server = *context(b_)->server(std::move(sockets.server));
  const std::string_view garbage = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
  ASSERT_EQ(::send(sockets.client.get(), garbage.data(), garbage.size(), 0), ssize_t(garbage.size()));
  while (server->handshake() == Stream::Handshake::kWantRead) {
  }
  EXPECT_EQ(server->handshake(), Stream::Handshake::kFailed);
  EXPECT_THAT(server->trouble(), HasSubstr("the peer does not speak TLS"));
}

TEST_F(TlsTest, TakesNamesFromTheCertificate) {
  const TlsFiles both =
      certificates_.issue_as({.common_name = "other", .dns_names = {"esx-01", "esx-01.example.org"}});
  const TlsFiles common_name = certificates_.issue_as({.common_name = "esx-02"});
  const TlsFiles wildcard = certificates_.issue_as({.common_name = "x", .dns_names = {"*.example.org"}});
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

// Two connections with the test in the middle, which sees and changes ciphertext.
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
  constexpr std::uint64_t kRecords = kRecordsPerKey + 100;
  const std::byte sent{0x5a};
  std::size_t longer = 0;  // writes that carried the news of a key as well
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

TEST_F(TlsTest, FilesThatCannotBeUsedAreNamed) {
  const std::string folder = certificates_.folder().string();
  const std::string text = folder + "/text.pem";
  std::ofstream(text) << "no certificate at all\n";
  const std::string locked = folder + "/locked.key";
  {
    EVP_PKEY* const key = EVP_EC_gen("P-256");
    std::FILE* const file = std::fopen(locked.c_str(), "w");
    std::string secret = "secret";
    PEM_write_PrivateKey(file, key, EVP_aes_128_cbc(), reinterpret_cast<unsigned char*>(secret.data()),
                         static_cast<int>(secret.size()), nullptr, nullptr);
    std::fclose(file);
    EVP_PKEY_free(key);
  }
  struct Mistake {
    TlsFiles files;
    std::string sentence;
  };
  const std::vector<Mistake> mistakes = {
      {{folder + "/none", a_.certificate, a_.key}, "cannot read " + folder + "/none: No such file"},
      {{folder, a_.certificate, a_.key}, "cannot read " + folder + ": it is a folder"},
      {{text, a_.certificate, a_.key}, text + " is no PEM file with certificates"},
      {{a_.ca, folder + "/none", a_.key}, "cannot read " + folder + "/none"},
      {{a_.ca, text, a_.key}, text + " is no PEM file with a certificate"},
      {{a_.ca, a_.certificate, folder + "/none"}, "cannot read " + folder + "/none"},
      {{a_.ca, a_.certificate, text}, text + " is no PEM file with a private key"},
      {{a_.ca, a_.certificate, b_.key},
       "the key in " + b_.key + " does not belong to the certificate in " + a_.certificate},
      {{a_.ca, a_.certificate, locked}, "the key in " + locked + " has a passphrase"},
  };
  for (const Mistake& mistake : mistakes) {
    const auto made = TlsContext::create(mistake.files);
    ASSERT_FALSE(made.has_value()) << mistake.sentence;
    EXPECT_THAT(made.error().message, HasSubstr(mistake.sentence));
  }
}

TEST_F(TlsTest, WarnsOfAKeyThatEveryoneMayReadAndOfAnOldCertificate) {
  using std::filesystem::perms;
  const TlsFiles open =
      certificates_.issue_as({.common_name = "old", .valid_from_s = -200, .valid_until_s = -100});
  const auto warnings = [](const TlsFiles& files) {
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(TlsContext::create(files).has_value());
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(warnings(a_), IsEmpty());
  std::filesystem::permissions(open.key, perms::others_read, std::filesystem::perm_options::add);
  const std::string said = warnings(open);
  EXPECT_THAT(said, HasSubstr("everyone on this host may read the private key in " + open.key));
  EXPECT_THAT(said, HasSubstr("the certificate in " + open.certificate + " expired on 20"));
}

}  // namespace
}  // namespace pvrdma::transport::tcp
