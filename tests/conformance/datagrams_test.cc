// Datagrams in both directions: each one arrives whole or not at all, and all arrive if the path loses none.
#include <algorithm>
#include <vector>

#include "conformance/conformance_test.h"
#include "conformance/datagram_end.h"

namespace pvrdma::conformance {
namespace {

constexpr std::uint32_t kGrh = 40;

TEST_P(Conformance, datagrams_arrive_whole_or_not_at_all) {
  constexpr std::uint32_t kAtATime = 400;  // in each direction, more than a path has room for
  constexpr std::uint32_t kRounds = 2;
  constexpr std::uint32_t kSlot = 2048;
  constexpr std::uint32_t kReceives = DatagramEnd::kDepth;
  constexpr std::size_t kSent = DatagramEnd::kBytes / 2;
  const auto bytes_of = [](std::uint32_t number) { return 4 + number * 29 % 1000; };
  std::array<std::unique_ptr<DatagramEnd>, 2> ends;
  const auto receive_into = [&](std::uint32_t who, std::uint64_t slot) {
    const Sge into = ends[who]->mr->sge(static_cast<std::size_t>(slot) * kSlot, kSlot);
    ASSERT_TRUE(ends[who]->qp->post_recv(driver::ReceiveRequest{slot, one(into)}).ok());
  };
  for (std::uint32_t who = 0; who < 2; ++who) {
    ends[who] = std::make_unique<DatagramEnd>(world_.context(who));
    for (std::uint32_t slot = 0; slot < kReceives; ++slot) receive_into(who, slot);
  }

  std::array<std::vector<std::uint32_t>, 2> arrived;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    for (std::uint32_t who = 0; who < 2; ++who) {
      DatagramEnd& end = *ends[who];
      const driver::Destination to = end.to(*ends[1 - who], test::gid_of(1 - who));
      for (std::uint32_t i = 0; i < kAtATime; ++i) {
        const std::uint32_t number = round * kAtATime + i;
        const std::size_t at = kSent + static_cast<std::size_t>(i) * kSlot;
        std::memset(end.buffer->data() + at, static_cast<int>(number & 0xff), bytes_of(number));
        const Sge from = end.mr->sge(at, bytes_of(number));
        ASSERT_TRUE(end.qp->post_send(wr::send_imm_to(i, one(from), to, number)).ok());
      }
      for (const WorkCompletion& sent : await(*end.send_cq, kAtATime)) EXPECT_TRUE(sent.ok());
    }
    world_.pass(std::chrono::milliseconds(5));
    for (std::uint32_t who = 0; who < 2; ++who) {
      WorkCompletion got;
      while (ends[who]->recv_cq->poll(std::span(&got, 1)) == 1) {
        ASSERT_TRUE(got.ok());
        EXPECT_EQ(got.src_qpn, ends[1 - who]->qp->qpn());
        ASSERT_EQ(got.byte_len, kGrh + bytes_of(got.immediate));
        const std::byte* bytes = ends[who]->buffer->data() + got.wr_id * kSlot + kGrh;
        EXPECT_TRUE(std::all_of(bytes, bytes + bytes_of(got.immediate),
                                [&](std::byte byte) { return byte == std::byte(got.immediate & 0xff); }));
        arrived[who].push_back(got.immediate);
        receive_into(who, got.wr_id);
      }
    }
  }
  for (auto& numbers : arrived) {
    const std::size_t messages = numbers.size();
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    if (!faulty() && GetParam().weather.duplicate == 0) {
      EXPECT_EQ(numbers.size(), messages) << "none comes twice";
    }
    if (!faulty() && !can().may_lose_datagrams) {
      EXPECT_EQ(numbers.size(), kRounds * kAtATime);
    }
    EXPECT_GE(numbers.size(), kRounds * kAtATime / 2) << "most of them arrive over any path";
  }
}

}  // namespace
}  // namespace pvrdma::conformance
