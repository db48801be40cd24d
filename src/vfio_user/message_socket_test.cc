// MessageSocket: pieces, bursts, descriptors, back-pressure.
#include "vfio_user/message_socket.h"

#include <algorithm>
#include <future>
#include <memory>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "gtest/gtest.h"

#include "base/reaper.h"
#include "support/open_fds.h"
#include "vfio_user/raw_peer.h"

namespace pvrdma::vfio_user {
namespace {

class MessageSocketTest : public testing::Test {
 protected:
  SocketPair pair_;
  RawPeer peer_{std::move(pair_.theirs)};
  std::optional<MessageSocket> socket_{std::in_place, std::move(pair_.ours)};

  // Receives until a message is complete; returns nothing if the socket has no more input.
  std::optional<Message> next() {
    while (true) {
      auto message = socket_->next_message();
      if (!message) ADD_FAILURE() << message.error().message;
      if (!message || *message) return message ? *message : std::nullopt;
      const auto received = socket_->receive();
      if (!received || !*received) return std::nullopt;
    }
  }

  // The error that ends the stream.
  Error failure() {
    while (true) {
      const auto message = socket_->next_message();
      if (!message) return message.error();
      if (*message) continue;
      const auto received = socket_->receive();
      if (!received) return received.error();
      if (!*received) return {};
    }
  }
};

Fd make_eventfd() {
  return Fd(::eventfd(0, EFD_CLOEXEC));
}

// Whether two descriptors refer to the same eventfd, which their common counter shows.
bool same_counter(int a, int b) {
  const std::uint64_t value = 7;
  std::uint64_t seen = 0;
  return ::write(a, &value, 8) == 8 && ::read(b, &seen, 8) == 8 && seen == value;
}

TEST_F(MessageSocketTest, ByteByByte) {
  const Bytes bytes = message(7, Command::kRegionRead, Bytes(16, std::byte{5}));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    ASSERT_FALSE(next().has_value());
    ASSERT_TRUE(peer_.send(std::span(bytes).subspan(i, 1)));
  }
  const auto got = next();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->header.id, 7);
  EXPECT_TRUE(std::ranges::equal(got->payload, Bytes(16, std::byte{5})));
  EXPECT_FALSE(next().has_value());
}

TEST_F(MessageSocketTest, ABurstAndEveryPlaceToCutIt) {
  Bytes stream;
  for (std::uint16_t id = 0; id < 4; ++id) {
    const Bytes one = message(id, Command::kReset, Bytes(id * 3u, std::byte{1}));
    stream.insert(stream.end(), one.begin(), one.end());
  }
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    std::uint16_t expected = 0;
    for (const auto part : {std::span(stream).first(cut), std::span(stream).subspan(cut)}) {
      ASSERT_TRUE(part.empty() || peer_.send(part));
      while (const auto got = next()) {
        EXPECT_EQ(got->header.id, expected);
        EXPECT_EQ(got->payload.size(), expected * 3u);
        ++expected;
      }
    }
    EXPECT_EQ(expected, 4) << "cut at " << cut;
  }
}

TEST_F(MessageSocketTest, TheLargestMessage) {
  const Bytes bytes = message(1, Command::kRegionWrite, Bytes(kMaxMessageBytes - kHeaderBytes, std::byte{9}));
  std::size_t sent = 0;
  std::optional<Message> got;
  while (!got && sent < bytes.size()) {
    const std::size_t part = std::min<std::size_t>(bytes.size() - sent, 50'000);
    ASSERT_TRUE(peer_.send(std::span(bytes).subspan(sent, part)));
    sent += part;
    got = next();
  }
  ASSERT_TRUE(got);
  EXPECT_EQ(got->payload.size(), kMaxMessageBytes - kHeaderBytes);
  EXPECT_EQ(got->payload.back(), std::byte{9});
}

TEST_F(MessageSocketTest, ImpossibleSizes) {
  for (const std::uint32_t size : {0u, 15u, static_cast<std::uint32_t>(kMaxMessageBytes + 1), 0xffffffffu}) {
    SocketPair pair;
    RawPeer peer(std::move(pair.theirs));
    MessageSocket socket(std::move(pair.ours));
    ASSERT_TRUE(peer.send(bytes_of(wire::Header{1, Command::kReset, size, 0, 0})));
    ASSERT_TRUE(socket.receive().value());
    const auto message = socket.next_message();
    ASSERT_FALSE(message);
    EXPECT_EQ(message.error().code, EPROTO);
  }
}

TEST_F(MessageSocketTest, EndOfStreamBetweenAndInsideMessages) {
  peer_.send(message(1, Command::kReset));
  peer_.close();
  EXPECT_EQ(failure().code, 0);

  for (const std::size_t part : {1u, 15u, 16u, 20u}) {
    SocketPair pair;
    RawPeer peer(std::move(pair.theirs));
    socket_.emplace(std::move(pair.ours));
    const Bytes bytes = message(1, Command::kReset, Bytes(8));
    peer.send(std::span(bytes).first(part));
    peer.close();
    EXPECT_EQ(failure().code, EPROTO) << part;
  }
}

TEST_F(MessageSocketTest, DescriptorsBelongToTheMessageTheyWereSentWith) {
  const Fd first = make_eventfd(), second = make_eventfd();
  // All messages wait in the socket before the first receive, like QEMU's DMA_MAPs.
  peer_.send(message(1, Command::kReset));
  peer_.send(message(2, Command::kDmaMap, Bytes(32)), {first.get()});
  peer_.send(message(3, Command::kReset));
  peer_.send(message(4, Command::kDmaMap, Bytes(32)), {second.get()});
  peer_.send(message(5, Command::kReset));
  for (std::uint16_t id = 1; id <= 5; ++id) {
    const auto got = next();
    ASSERT_TRUE(got);
    EXPECT_EQ(got->header.id, id);
    ASSERT_EQ(got->fds.size(), id % 2 == 0 ? 1u : 0u) << id;
    const Fd& sent = id == 2 ? first : second;
    if (id % 2 == 0) {
      EXPECT_TRUE(same_counter(sent.get(), got->fds[0].get()));
    }
    for (const ClientFd& fd : got->fds) EXPECT_NE(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST_F(MessageSocketTest, DescriptorsOfAMessageInPieces) {
  const Fd eventfd = make_eventfd();
  const Bytes bytes = message(1, Command::kSetIrqs, Bytes(20));
  for (const std::size_t cut : {1u, 15u, 16u, 17u, 35u}) {
    peer_.send(std::span(bytes).first(cut), {eventfd.get()});
    peer_.send(std::span(bytes).subspan(cut), {eventfd.get()});
    // The following message must not get these descriptors.
    peer_.send(message(2, Command::kReset));
    auto got = next();
    ASSERT_TRUE(got);
    EXPECT_EQ(got->fds.size(), 2u) << cut;
    got = next();
    ASSERT_TRUE(got);
    EXPECT_EQ(got->header.id, 2);
    EXPECT_TRUE(got->fds.empty()) << cut;
  }
}

TEST_F(MessageSocketTest, TakenDescriptorsStayAndOthersAreClosed) {
  const std::size_t before = test::count_open_fds();
  {
    const Fd eventfd = make_eventfd();
    peer_.send(message(1, Command::kSetIrqs), {eventfd.get(), eventfd.get(), eventfd.get()});
    ClientFd taken;
    {
      const auto got = next();
      ASSERT_TRUE(got);
      ASSERT_EQ(got->fds.size(), 3u);
      taken = std::move(got->fds[1]);
    }
    EXPECT_FALSE(next().has_value());
    EXPECT_TRUE(same_counter(eventfd.get(), taken.get()));
    EXPECT_EQ(test::count_open_fds(), before + 2);
  }
  EXPECT_EQ(test::count_open_fds(), before);
}

TEST_F(MessageSocketTest, TooManyDescriptorsEndTheStreamAndDoNotLeak) {
  const Fd eventfd = make_eventfd();
  const std::size_t before = test::count_open_fds();
  for (const std::size_t count : {9u, 10u, 64u, 253u}) {
    SocketPair pair;
    RawPeer peer(std::move(pair.theirs));
    socket_.emplace(std::move(pair.ours));
    ASSERT_TRUE(peer.send(message(1, Command::kSetIrqs), std::vector<int>(count, eventfd.get())));
    EXPECT_EQ(failure().code, EPROTO) << count;
    socket_.reset();
    peer.close();
    EXPECT_EQ(test::count_open_fds() + 1, before) << count;  // plus the fixture's own socket
  }
}

TEST_F(MessageSocketTest, DescriptorsInManyPiecesAreCountedTogether) {
  const Fd eventfd = make_eventfd();
  const Bytes bytes = message(1, Command::kSetIrqs, Bytes(20));
  for (std::size_t i = 0; i < 9; ++i) peer_.send(std::span(bytes).subspan(i, 1), {eventfd.get()});
  EXPECT_EQ(failure().code, EPROTO);
}

// Its destructor blocks until the gate opens.
class Stubborn final : public Reapable {
 public:
  explicit Stubborn(std::shared_future<void> gate) : gate_(std::move(gate)) {}
  ~Stubborn() override { gate_.wait(); }

 private:
  std::shared_future<void> gate_;
};

TEST_F(MessageSocketTest, WhoseDescriptorsTakeForeverToCloseIsNotReadAnyMore) {
  const auto reaper = Reaper::create().value();
  std::promise<void> gate;
  const std::shared_ptr<ReaperQueue> queue = reaper->open_queue();
  SocketPair pair;
  RawPeer peer(std::move(pair.theirs));
  MessageSocket socket(ClientFd(std::move(pair.ours), queue), queue);
  ASSERT_TRUE(peer.send(message(1, Command::kReset)));
  EXPECT_TRUE(socket.receive().value_or(false));
  const auto opened = gate.get_future().share();
  while (queue->has_room()) queue->release(std::make_unique<Stubborn>(opened));
  const auto received = socket.receive();
  gate.set_value();
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, EBUSY);
}

TEST_F(MessageSocketTest, SendsADescriptor) {
  const Fd eventfd = make_eventfd();
  const Bytes bytes = message(3, Command::kGetRegionInfo, Bytes(32));
  std::ranges::copy(bytes, socket_->output().begin());
  ASSERT_TRUE(socket_->send(bytes.size(), eventfd.get()));
  auto got = peer_.receive();
  ASSERT_TRUE(got);
  ASSERT_EQ(got->fds.size(), 1u);
  EXPECT_TRUE(same_counter(eventfd.get(), got->fds[0].get()));
}

TEST_F(MessageSocketTest, WhatTheSocketDoesNotTakeStaysPending) {
  const Bytes bytes = message(1, Command::kRegionRead, Bytes(1 << 20, std::byte{3}));
  std::ranges::copy(bytes, socket_->output().begin());
  ASSERT_TRUE(socket_->send(bytes.size()));
  ASSERT_TRUE(socket_->output_pending());

  Bytes received(bytes.size());
  std::size_t at = 0;
  while (at < received.size()) {
    const ssize_t got = ::recv(peer_.fd(), received.data() + at, received.size() - at, MSG_DONTWAIT);
    if (got > 0) at += static_cast<std::size_t>(got);
    ASSERT_TRUE(!socket_->output_pending() || socket_->flush());
  }
  EXPECT_FALSE(socket_->output_pending());
  EXPECT_EQ(received, bytes);
}

TEST_F(MessageSocketTest, SendingToNobodyIsAnErrorAndNoSignal) {
  peer_.close();
  std::ranges::copy(message(1, Command::kReset), socket_->output().begin());
  const auto sent = socket_->send(kHeaderBytes);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, EPIPE);
}

}  // namespace
}  // namespace pvrdma::vfio_user
