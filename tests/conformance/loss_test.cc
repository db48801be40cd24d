// A path may lose, duplicate, delay, reorder, damage and refuse messages. Still, each request is executed
// exactly once, and nothing is lost.
#include "conformance/conformance_test.h"

namespace pvrdma::conformance {
namespace {

// Much worse than the suite's ordinary faults, but eight attempts in a row never fail.
transport::FaultSettings bad_faults() {
  return {.drop_ppm = 20'000,
          .duplicate_ppm = 100'000,
          .delay_ppm = 50'000,
          .reorder_ppm = 50'000,
          .corrupt_ppm = 20'000,
          .late_max = std::chrono::milliseconds(2),
          .refuse_ppm = 50'000,
          .refusal_max = std::chrono::milliseconds(1)};
}

TEST_P(Conformance, atomics_count_exactly_once) {
  world_.set_faults(bad_faults());
  connect();
  constexpr std::uint64_t kCount = 200;
  constexpr std::uint64_t kAtATime = 16;
  std::uint64_t expected = 0;
  for (std::uint64_t begun = 0; begun < kCount; begun += kAtATime) {
    std::array<Sge, kAtATime> results;
    for (std::uint64_t i = 0; i < kAtATime; ++i) {
      results[i] = a_->sge(8 * i, 8);
      post(*a_, wr::fetch_add(i, one(results[i]), b_->remote(64), 1));
    }
    for (const WorkCompletion& done : await(*a_->send_cq, kAtATime)) {
      EXPECT_TRUE(done.ok());
      EXPECT_EQ(load(*a_, 8 * done.wr_id), expected++)
          << "the result of another one, or of a second execution";
    }
  }
  EXPECT_EQ(load(*b_, 64), expected);
  if (faulty()) {
    EXPECT_GT(world_.counters(1).duplicates, 0U) << "no atomic was asked for twice";
  }
}

TEST_P(Conformance, writes_land_exactly_once_and_in_order) {
  world_.set_faults(bad_faults());
  connect({.buffer_bytes = 1 << 20});
  // All writes go to one place, so a late second execution of an older one would show.
  constexpr std::uint32_t kBytes = 20'000;
  constexpr std::uint32_t kAtATime = 8;
  for (std::uint32_t round = 0; round < 12; ++round) {
    std::array<Sge, kAtATime> from;
    for (std::uint32_t i = 0; i < kAtATime; ++i) {
      a_->fill(i * kBytes, kBytes, static_cast<std::uint8_t>(round * kAtATime + i));
      from[i] = a_->sge(i * kBytes, kBytes);
      post(*a_, wr::write(i, one(from[i]), b_->remote(32)));
    }
    for (const WorkCompletion& done : await(*a_->send_cq, kAtATime)) EXPECT_TRUE(done.ok());
    const auto stamp = static_cast<std::uint8_t>(round * kAtATime + kAtATime - 1);
    EXPECT_TRUE(b_->holds(32, kBytes, stamp)) << round;
    // Copies of earlier requests that are still in flight must not be executed now.
    b_->fill(32, kBytes, 0x99);
    world_.pass(std::chrono::milliseconds(faulty() ? 5 : 0));
    EXPECT_TRUE(b_->holds(32, kBytes, 0x99)) << "round " << round << ": executed again";
  }
}

TEST_P(Conformance, sends_arrive_exactly_once_and_in_order) {
  world_.set_faults(bad_faults());
  connect();
  constexpr std::uint32_t kCount = 192;
  constexpr std::uint32_t kAtATime = 32;
  std::uint32_t next = 0;
  for (std::uint32_t begun = 0; begun < kCount; begun += kAtATime) {
    for (std::uint32_t i = 0; i < kAtATime; ++i) ASSERT_TRUE(b_->recv(begun + i, i * 1024, 1024).ok());
    std::array<Sge, kAtATime> from;
    for (std::uint32_t i = 0; i < kAtATime; ++i) {
      a_->fill(i * 1024, 1024, static_cast<std::uint8_t>(begun + i));
      from[i] = a_->sge(i * 1024, 1024);
      post(*a_, wr::send_imm(begun + i, one(from[i]), begun + i));
    }
    for (const WorkCompletion& done : await(*a_->send_cq, kAtATime)) EXPECT_TRUE(done.ok());
    for (const WorkCompletion& got : await(*b_->recv_cq, kAtATime)) {
      EXPECT_TRUE(got.ok());
      EXPECT_EQ(got.wr_id, next);
      EXPECT_EQ(got.immediate, next);
      EXPECT_TRUE(b_->holds((next % kAtATime) * 1024, 1024, static_cast<std::uint8_t>(next)));
      ++next;
    }
  }
  EXPECT_TRUE(is_empty(*b_->recv_cq));
}

TEST_P(Conformance, the_faults_that_are_set_come_about) {
  if (!faulty()) GTEST_SKIP() << "no fault decorator is around this path";
  world_.set_faults(bad_faults());
  connect({.buffer_bytes = 1 << 20});
  const Sge from = a_->sge(0, 9000);
  for (std::uint64_t i = 0; i < 200; ++i)
    ASSERT_TRUE(
        execute(i % 2 == 0 ? wr::write(i, one(from), b_->remote()) : wr::read(i, one(from), b_->remote()))
            .ok());
  const transport::FaultCounters faults = world_.faults();
  EXPECT_GT(faults.dropped, 0U);
  EXPECT_GT(faults.duplicated, 0U);
  EXPECT_GT(faults.delayed, 0U);
  EXPECT_GT(faults.reordered, 0U);
  EXPECT_GT(faults.corrupted, 0U);
  EXPECT_GT(faults.refused, 0U);
  EXPECT_EQ(faults.bare_paths, 0U);
  EXPECT_GT(world_.counters(0).retransmits, 0U);
}

// --- Long messages. ---

constexpr std::uint32_t kLong = 5'000'003;

TEST_P(Conformance, long_messages_go_in_pieces_both_ways_at_once) {
  connect({.buffer_bytes = 12 << 20});
  constexpr std::size_t kInto = 6 << 20;
  a_->fill(7, kLong, 1);
  b_->fill(7, kLong, 2);
  const auto scattered = [](RcEndpoint& end, std::size_t at) {
    return std::array{end.sge(at, 1), end.sge(at + 1, 3'000'000), end.sge(at + 3'000'001, 999),
                      end.sge(at + 3'001'000, kLong - 3'001'000)};
  };
  const auto from_a = scattered(*a_, 7);
  const auto from_b = scattered(*b_, 7);
  const auto into_a = scattered(*a_, kInto);
  const auto into_b = scattered(*b_, kInto);
  ASSERT_TRUE(a_->qp->post_recv(driver::ReceiveRequest{1, into_a}).ok());
  ASSERT_TRUE(b_->qp->post_recv(driver::ReceiveRequest{2, into_b}).ok());
  post(*a_, wr::send(3, from_a));
  post(*b_, wr::send(4, from_b));
  EXPECT_TRUE(await_one(*a_->send_cq).ok());
  EXPECT_TRUE(await_one(*b_->send_cq).ok());
  EXPECT_EQ(await_one(*a_->recv_cq).byte_len, kLong);
  EXPECT_EQ(await_one(*b_->recv_cq).byte_len, kLong);
  EXPECT_TRUE(b_->holds(kInto, kLong, 1));
  EXPECT_TRUE(a_->holds(kInto, kLong, 2));
}

TEST_P(Conformance, long_writes_and_reads_pass_each_other) {
  connect({.buffer_bytes = 12 << 20});
  constexpr std::size_t kInto = 6 << 20;
  a_->fill(7, kLong, 3);
  b_->fill(7, kLong, 4);
  const Sge written = a_->sge(7, kLong);
  const Sge read = b_->sge(kInto, kLong);
  post(*a_, wr::write(1, one(written), b_->remote(kInto)));
  EXPECT_TRUE(await_one(*a_->send_cq).ok());
  EXPECT_TRUE(b_->holds(kInto, kLong, 3));
  const Sge fetched = a_->sge(kInto, kLong);
  post(*b_, wr::read(2, one(read), a_->remote(7)));
  post(*a_, wr::read(3, one(fetched), b_->remote(7)));
  EXPECT_EQ(await_one(*b_->send_cq).byte_len, kLong);
  EXPECT_EQ(await_one(*a_->send_cq).byte_len, kLong);
  EXPECT_TRUE(b_->holds(kInto, kLong, 3));
  EXPECT_TRUE(a_->holds(kInto, kLong, 4));
}

}  // namespace
}  // namespace pvrdma::conformance
