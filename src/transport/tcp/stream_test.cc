// Streams, plain and TLS, over real sockets.
#include "transport/tcp/stream.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <random>
#include <sys/socket.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "guestmem/sigbus.h"
#include "guestmem/test_ram.h"
#include "tls/test_certificates.h"
#include "transport/tcp/stream_fixture.h"

namespace pvrdma::transport::tcp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

enum class Kind { kPlain, kTls };
enum class Socket { kUnix, kTcp };

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
  int held_back = 0;  // steps in which something had to wait

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
    // The pieces lie apart: every other one is copied to its place later.
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
  static void SetUpTestSuite() { certificates_ = std::make_unique<tls::TestCertificates>(); }
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

  static std::unique_ptr<tls::TestCertificates> certificates_;
};
std::unique_ptr<tls::TestCertificates> StreamTest::certificates_;

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
    // The socket is not readable for bytes that a stream already holds.
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
    // A UNIX socket that is closed with unread bytes resets the connection.
    ASSERT_NO_FATAL_FAILURE(send_all(*streams.server, std::array<std::byte, 10>{}));
  }
  // Closes without TLS's close message.
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
  guestmem::AddressSpace others_memory;
  other.map_into(others_memory, 16 * kPage);
  guestmem::SpanList gone;
  ASSERT_TRUE(resolve(others_memory, 16 * kPage, 2 * kPage, gone));
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

}  // namespace
}  // namespace pvrdma::transport::tcp
