// The server's requests to its client, DMA_READ and DMA_WRITE, in one session with a client that answers
// well, late, wrongly, twice or never.
#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "support/manual_clock.h"
#include "vfio_user/fake_handler.h"
#include "vfio_user/raw_peer.h"
#include "vfio_user/session.h"

namespace pvrdma::vfio_user {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kAddress = 0x1000;

class RequestsTest : public testing::Test {
 protected:
  test::ManualClock clock_;
  SocketPair pair_;
  RawPeer peer_{std::move(pair_.theirs)};
  FakeHandler device_;
  int rooms_ = 0;
  std::optional<Session> session_;
  std::vector<std::string> ends_;  // results of requests, in their order

  void SetUp() override { start(); }

  void start(const Bytes& version = qemu_version()) {
    if (session_ && session_->established()) device_.disconnected("test");
    SocketPair pair;
    peer_ = RawPeer(std::move(pair.theirs));
    session_.emplace(std::move(pair.ours), device_, "test",
                     SessionSurroundings{.clock = &clock_, .request_room = [this] { ++rooms_; }});
    peer_.send(version);
    ASSERT_EQ(run(), "");
    ASSERT_TRUE(peer_.receive());
    device_.calls.clear();
    ends_.clear();
  }

  std::string run() {
    while (true) {
      const auto worked = session_->run();
      if (!worked) return worked.error().message;
      if (!*worked && !session_->has_more()) return "";
    }
  }

  RequestDone note(std::string name) {
    return [this, name = std::move(name)](int error, std::span<const std::byte> data) {
      std::string end = fmt::format("{} {} {}", name, error, data.size());
      if (!data.empty())
        end += fmt::format(" {}..{}", std::to_integer<int>(data.front()), std::to_integer<int>(data.back()));
      ends_.push_back(std::move(end));
    };
  }

  RawReply read_request(std::uint32_t size, std::string name = "read") {
    const auto made = session_->dma_read(kAddress, size, note(std::move(name)));
    EXPECT_TRUE(made) << made.error().message;
    auto request = peer_.receive();
    EXPECT_TRUE(request);
    return request ? std::move(*request) : RawReply{};
  }

  static Bytes answer(std::uint16_t id, std::uint32_t size) {
    Bytes payload = bytes_of(wire::DmaAccess{kAddress, size});
    for (std::uint32_t i = 0; i < size; ++i) payload.push_back(static_cast<std::byte>(i + 1));
    return message(id, Command::kDmaRead, payload, kFlagTypeReply);
  }
  static Bytes error_answer(std::uint16_t id, Command command, std::uint32_t error) {
    return bytes_of(wire::Header{id, command, kHeaderBytes, kErrorReply, error});
  }
};

TEST_F(RequestsTest, ReadsAndWritesTheClientsMemory) {
  const RawReply read = read_request(8);
  EXPECT_EQ(read.header.command, Command::kDmaRead);
  EXPECT_EQ(read.header.flags, kFlagTypeCommand);
  EXPECT_EQ(read.payload, bytes_of(wire::DmaAccess{kAddress, 8}));

  const Bytes data(5, std::byte{7});
  ASSERT_TRUE(session_->dma_write(kAddress, data, note("write")));
  const auto written = peer_.receive();
  EXPECT_EQ(written->header.command, Command::kDmaWrite);
  EXPECT_EQ(written->payload, bytes_of(wire::DmaAccess{kAddress, 5},
                                       std::array<std::byte, 5>{std::byte{7}, std::byte{7}, std::byte{7},
                                                                std::byte{7}, std::byte{7}}));
  EXPECT_NE(written->header.id, read.header.id);

  ASSERT_TRUE(session_->dma_write_posted(kAddress, data));
  EXPECT_EQ(peer_.receive()->header.flags, kFlagNoReply);
  EXPECT_THAT(ends_, IsEmpty());

  // The client may answer in any order.
  peer_.send(message(written->header.id, Command::kDmaWrite, bytes_of(wire::DmaAccess{kAddress, 5}),
                     kFlagTypeReply));
  peer_.send(answer(read.header.id, 8));
  EXPECT_EQ(run(), "");
  EXPECT_THAT(ends_, ElementsAre("write 0 0", "read 0 8 1..8"));
  EXPECT_EQ(session_->next_deadline(), Instant::never());
}

// The protocol's text defines a short count, but QEMU does not send it.
TEST_F(RequestsTest, AWritesReplyMayHaveAShortCount) {
  ASSERT_TRUE(session_->dma_write(kAddress, Bytes(5), note("write")));
  const auto request = peer_.receive();
  Bytes payload = bytes_of(kAddress, std::uint32_t{5});
  peer_.send(message(request->header.id, Command::kDmaWrite, payload, kFlagTypeReply));
  EXPECT_EQ(run(), "");
  EXPECT_THAT(ends_, ElementsAre("write 0 0"));
}

TEST_F(RequestsTest, TheClientsErrorsEndTheRequestOnly) {
  const struct {
    std::uint32_t sent;
    int told;
  } table[] = {{EINVAL, EINVAL}, {4095, 4095}, {0, EIO}, {4096, EIO}, {0xffffffff, EIO}};
  for (const auto& row : table) {
    const RawReply request = read_request(8);
    peer_.send(error_answer(request.header.id, Command::kDmaRead, row.sent));
    EXPECT_EQ(run(), "");
    EXPECT_THAT(ends_, ElementsAre(fmt::format("read {} 0", row.told)));
    ends_.clear();
  }
}

TEST_F(RequestsTest, RepliesThatLieEndTheSession) {
  const auto reply = [](std::uint16_t id, Command command, const Bytes& payload) {
    return message(id, command, payload, kFlagTypeReply);
  };
  const struct {
    std::function<Bytes(std::uint16_t id)> reply;
    const char* reason;
  } table[] = {
      {[](std::uint16_t id) { return answer(static_cast<std::uint16_t>(id + 1), 8); }, "answers no request"},
      {[](std::uint16_t id) { return answer(id, 7); }, "does not have the requested size"},
      {[](std::uint16_t id) { return answer(id, 9); }, "does not have the requested size"},
      {[&](std::uint16_t id) { return reply(id, Command::kDmaRead, {}); },
       "does not have the requested size"},
      {[&](std::uint16_t id) {
         return reply(id, Command::kDmaWrite, bytes_of(wire::DmaAccess{kAddress, 8}));
       },
       "answers no request"},
      {[&](std::uint16_t id) {
         return reply(id, Command::kDmaRead, bytes_of(wire::DmaAccess{kAddress, 9}, std::uint64_t{0}));
       },
       "another range"},
      {[&](std::uint16_t id) {
         return reply(id, Command::kDmaRead, bytes_of(wire::DmaAccess{kAddress + 1, 8}, std::uint64_t{0}));
       },
       "another range"},
      {[&](std::uint16_t id) { return reply(id, Command::kRegionRead, {}); }, "is not a command"},
      {[](std::uint16_t id) {
         return error_answer(static_cast<std::uint16_t>(id + 1), Command::kDmaRead, EINVAL);
       },
       "answers no request"},
  };
  for (const auto& row : table) {
    start();
    const RawReply request = read_request(8);
    peer_.send(row.reply(request.header.id));
    EXPECT_THAT(run(), HasSubstr(row.reason));
    EXPECT_THAT(ends_, IsEmpty()) << "the owner tells it";
    session_->take_requests().fail_all(ECONNRESET);
    EXPECT_THAT(ends_, ElementsAre("read 104 0"));
  }
}

TEST_F(RequestsTest, ASecondReplyAndAReplyToAPostedWriteEndTheSession) {
  const RawReply request = read_request(8);
  peer_.send(answer(request.header.id, 8));
  peer_.send(answer(request.header.id, 8));
  EXPECT_THAT(run(), HasSubstr("DMA_READ message that answers no request"));
  EXPECT_THAT(ends_, ElementsAre("read 0 8 1..8"));

  start();
  ASSERT_TRUE(session_->dma_write_posted(kAddress, Bytes(8)));
  const auto posted = peer_.receive();
  peer_.send(
      message(posted->header.id, Command::kDmaWrite, bytes_of(wire::DmaAccess{kAddress, 8}), kFlagTypeReply));
  EXPECT_THAT(run(), HasSubstr("DMA_WRITE message that answers no request"));
}

TEST_F(RequestsTest, AnAnswerThatIsLateIsNeverTakenForAnothers) {
  const RawReply late = read_request(8, "late");
  const Instant deadline = session_->next_deadline();
  EXPECT_EQ(deadline, clock_.now() + Session::kRequestTimeLimit);
  session_->expire_requests(deadline + -Duration(1));
  EXPECT_THAT(ends_, IsEmpty());
  session_->expire_requests(deadline);
  EXPECT_THAT(ends_, ElementsAre("late 110 0"));
  EXPECT_EQ(session_->next_deadline(), Instant::never());
  ends_.clear();

  // All ids except the one whose reply is late.
  for (int i = 0; i < 70'000; ++i) {
    ASSERT_TRUE(session_->dma_write_posted(kAddress, Bytes(1)));
    ASSERT_NE(peer_.receive()->header.id, late.header.id);
  }
  peer_.send(answer(late.header.id, 8));
  EXPECT_EQ(run(), "");
  EXPECT_THAT(ends_, IsEmpty());
  peer_.send(answer(late.header.id, 8));
  EXPECT_THAT(run(), HasSubstr("answers no request"));
}

TEST_F(RequestsTest, AClientThatNeverAnswersGetsNoFurtherRequests) {
  std::vector<RawReply> requests;
  for (std::size_t i = 0; i < RequestTable::kMaxUnderWay; ++i) requests.push_back(read_request(1));
  EXPECT_EQ(session_->dma_read(kAddress, 1, note("more")).error().code, EAGAIN);
  clock_.set(session_->next_deadline());
  session_->expire_requests(clock_.now());
  EXPECT_EQ(ends_, std::vector<std::string>(RequestTable::kMaxUnderWay, "read 110 0"));
  EXPECT_EQ(session_->dma_read(kAddress, 1, note("more")).error().code, EAGAIN);
  peer_.send(answer(requests[3].header.id, 1));
  EXPECT_EQ(run(), "");
  read_request(1);
}

TEST_F(RequestsTest, WhatCannotBeAsked) {
  EXPECT_EQ(session_->dma_read(kAddress, 0, note("")).error().code, EINVAL);
  EXPECT_EQ(session_->dma_write_posted(~0ull, Bytes(2)).error().code, EINVAL);
  EXPECT_EQ(session_->dma_read(kAddress, kMaxDataTransferBytes + 1, note("")).error().code, EMSGSIZE);
  start(message(0, Command::kVersion, version_payload(R"({"capabilities": {"max_data_xfer_size": 100}})")));
  EXPECT_EQ(session_->max_request_bytes(), 100u);
  EXPECT_EQ(session_->dma_write(kAddress, Bytes(101), note("")).error().code, EMSGSIZE);
  read_request(100);

  SocketPair pair;
  FakeHandler other;
  Session before_version(std::move(pair.ours), other, "test");
  EXPECT_EQ(before_version.dma_read(kAddress, 1, note("")).error().code, ENOTCONN);
  EXPECT_THAT(ends_, IsEmpty());
}

TEST_F(RequestsTest, AnAnswerMayMakeTheNextRequest) {
  ASSERT_TRUE(session_->dma_read(kAddress, 1, [this](int, std::span<const std::byte>) {
    ASSERT_TRUE(session_->dma_read(kAddress, 2, note("second")));
  }));
  peer_.send(answer(peer_.receive()->header.id, 1));
  EXPECT_EQ(run(), "");
  peer_.send(answer(peer_.receive()->header.id, 2));
  EXPECT_EQ(run(), "");
  EXPECT_THAT(ends_, ElementsAre("second 0 2 1..2"));
}

// 16 MiB, of which the socket takes only a part at a time. The session sends as fast as the client reads, and
// keeps one message.
TEST_F(RequestsTest, ABurstOfPostedWritesGoesAtTheClientsPace) {
  constexpr std::size_t kMessages = 64;
  const Bytes data(256 * 1024, std::byte{5});
  std::size_t made = 0, received = 0;
  while (received < kMessages) {
    while (made < kMessages && session_->can_request()) {
      ASSERT_TRUE(session_->dma_write_posted(made * data.size(), data));
      ++made;
    }
    if (made < kMessages) {
      EXPECT_TRUE(session_->wants_write());
      EXPECT_TRUE(session_->wants_read());
      EXPECT_EQ(session_->dma_write_posted(0, data).error().code, EAGAIN);
    }
    // Between two messages, the session answers the client's requests.
    if (received == 3) peer_.send(message(9, Command::kReset));
    Bytes piece(64 * 1024);
    const auto next = [&] {
      Bytes bytes;
      while (bytes.size() < kHeaderBytes || bytes.size() < read<wire::Header>(bytes).size_bytes) {
        const std::size_t end =
            bytes.size() < kHeaderBytes ? kHeaderBytes : read<wire::Header>(bytes).size_bytes;
        const ssize_t got = ::recv(peer_.fd(), piece.data(), std::min(piece.size(), end - bytes.size()), 0);
        if (got <= 0) break;
        bytes.insert(bytes.end(), piece.begin(), piece.begin() + got);
        EXPECT_EQ(run(), "");
      }
      return bytes;
    }();
    ASSERT_GE(next.size(), kHeaderBytes);
    const auto header = read<wire::Header>(next);
    if (header.command == Command::kReset) continue;
    ASSERT_EQ(header.size_bytes, next.size());
    EXPECT_EQ(read<wire::DmaAccess>(next, kHeaderBytes).address, received * data.size());
    ++received;
  }
  EXPECT_GT(rooms_, 10);
  EXPECT_FALSE(session_->wants_write());
  EXPECT_THAT(device_.take_calls(), ElementsAre("reset"));
}

// Both sides write before they read. They make progress only because the session reads replies while its own
// reply is pending.
TEST_F(RequestsTest, AnswersAreReadWhileAReplyIsPending) {
  device_.max_kept_calls = 0;
  constexpr std::uint32_t kSize = 1u << 20;
  const RawReply request = read_request(kSize);
  const Bytes region_read = message(1, Command::kRegionRead, bytes_of(wire::RegionAccess{0, 0, 0x4000}));
  int asked = 0;
  while (!session_->wants_write()) {
    ASSERT_LT(asked, 10'000);
    ASSERT_TRUE(peer_.send(region_read));
    ++asked;
    ASSERT_EQ(run(), "");
  }
  EXPECT_TRUE(session_->wants_read());

  Bytes reply = answer(request.header.id, kSize);
  reply.insert(reply.end(), region_read.begin(), region_read.end());
  ++asked;
  ASSERT_EQ(::fcntl(peer_.fd(), F_SETFL, O_NONBLOCK), 0);
  for (std::size_t sent = 0; sent < reply.size();) {
    const ssize_t took = ::send(peer_.fd(), reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
    ASSERT_GT(took, 0) << "the session does not read any more";
    sent += static_cast<std::size_t>(took);
    ASSERT_EQ(run(), "");
  }
  EXPECT_EQ(ends_.size(), 1u);
  EXPECT_FALSE(session_->wants_read()) << "a command is next";

  ASSERT_EQ(::fcntl(peer_.fd(), F_SETFL, 0), 0);
  for (int i = 0; i < asked; ++i) {
    while (peer_.nothing_to_receive()) ASSERT_EQ(run(), "");
    ASSERT_EQ(run(), "");
    ASSERT_EQ(peer_.receive()->payload.size(), 16u + 0x4000u);
  }
  EXPECT_EQ(run(), "");
  EXPECT_TRUE(peer_.nothing_to_receive());
  EXPECT_FALSE(session_->wants_write());
}

TEST_F(RequestsTest, AClientThatGoesIsNoticedByTheNextRun) {
  read_request(8);
  peer_.close();
  ASSERT_TRUE(session_->dma_write_posted(kAddress, Bytes(8)));
  EXPECT_NE(run(), "");
  EXPECT_THAT(ends_, IsEmpty());
}

}  // namespace
}  // namespace pvrdma::vfio_user
