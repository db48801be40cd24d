// Paths that change: no room, cut connections, peers that vanish, a GID that moves.
#include "conformance/conformance_test.h"

namespace pvrdma::conformance {

INSTANTIATE_TEST_SUITE_P(Path, Conformance, testing::ValuesIn(all_paths()), name_of);

namespace {

TEST_P(Conformance, without_room_requests_wait_and_none_is_lost) {
  if (!faulty() && !can().can_be_blocked) GTEST_SKIP() << "this path has room for every request";
  world_.set_faults({});
  // The time for an answer also runs while there is no room, because the peer may be gone for good.
  connect({}, {.timeout = 17});
  const Sge warm = a_->sge(0, 8);
  EXPECT_TRUE(execute(wr::write(0, one(warm), b_->remote())).ok());
  const std::uint64_t retransmits = world_.counters(0).retransmits;
  world_.block();
  world_.pass(std::chrono::milliseconds(5));
  constexpr std::uint64_t kCount = 32;
  std::array<Sge, kCount> from;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    store(*a_, 8 * i, 1000 + i);
    from[i] = a_->sge(8 * i, 8);
    post(*a_, wr::write(i, one(from[i]), b_->remote(8 * i)));
  }
  world_.pass(std::chrono::milliseconds(20));
  EXPECT_TRUE(is_empty(*a_->send_cq));
  EXPECT_EQ(load(*b_, 8 * (kCount - 1)), 0U);
  world_.unblock();
  const auto done = await(*a_->send_cq, kCount);
  for (std::uint64_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i].wr_id, i);
    EXPECT_TRUE(done[i].ok());
    EXPECT_EQ(load(*b_, 8 * i), 1000 + i);
  }
  EXPECT_EQ(world_.counters(0).timeouts, 0U);
  EXPECT_EQ(world_.counters(0).retransmits, retransmits) << "what was not sent is not repeated";
}

TEST_P(Conformance, a_cut_costs_no_retry) {
  if (!can().can_be_cut) GTEST_SKIP() << "this path has no connection that could be cut";
  world_.set_faults({});
  // There are no retries, and the time limit is far longer than a new connection takes.
  connect({.buffer_bytes = 4 << 20}, {.timeout = 20, .retry_cnt = 0});
  constexpr std::uint32_t kBytes = 300'000;
  const Sge result = a_->sge(3 << 20, 8);
  std::uint64_t executed = 0;
  for (std::uint8_t cut = 0; cut < 2; ++cut) {
    for (std::uint32_t i = 0; i < 8; ++i) {
      a_->fill(i * kBytes, kBytes, static_cast<std::uint8_t>(10 * cut + i));
      const Sge from = a_->sge(i * kBytes, kBytes);
      post(*a_, wr::write(i, one(from), b_->remote(i * kBytes)));
      post(*a_, wr::fetch_add(100 + i, one(result), b_->remote(3 << 20), 1));
    }
    world_.find_doorbells();
    EXPECT_GT(world_.cut(), 0);
    const auto done = await(*a_->send_cq, 16);
    for (std::uint64_t i = 0; i < done.size(); ++i) {
      EXPECT_TRUE(done[i].ok());
      EXPECT_EQ(done[i].wr_id, (i % 2) * 100 + i / 2);
    }
    for (std::uint32_t i = 0; i < 8; ++i)
      EXPECT_TRUE(b_->holds(i * kBytes, kBytes, static_cast<std::uint8_t>(10 * cut + i)));
    executed += 8;
    EXPECT_EQ(load(*b_, 3 << 20), executed) << "an atomic was executed twice, or not at all";
  }
  EXPECT_EQ(world_.counters(0).timeouts, 0U);
  EXPECT_GT(world_.counters(0).retransmits, 0U) << "nothing was under way when the connections were cut";
}

TEST_P(Conformance, an_adapter_that_is_gone_exceeds_the_retries) {
  connect();
  const Sge sge = a_->sge(0, 64);
  EXPECT_TRUE(execute(wr::write(1, one(sge), b_->remote())).ok());
  world_.remove(1);
  EXPECT_EQ(execute(wr::write(2, one(sge), {0x1000, 0x200})).status, Status::kRetryExceeded);
  EXPECT_EQ(state_of(*a_), abi::QpState::kErr);
}

TEST_P(Conformance, an_adapter_that_goes_while_it_is_asked_exceeds_the_retries) {
  connect({.buffer_bytes = 4 << 20});
  const Sge sge = a_->sge(0, 2 << 20);
  for (std::uint64_t i = 0; i < 4; ++i) post(*a_, wr::write(i, one(sge), b_->remote()));
  world_.find_doorbells();
  world_.remove(1);
  const auto done = await(*a_->send_cq, 4);
  ASSERT_EQ(done.size(), 4U);
  // A path that delivers at once may have completed the first ones.
  EXPECT_TRUE(done[3].status == Status::kFlushed || done[3].status == Status::kRetryExceeded || done[3].ok());
  EXPECT_EQ(execute(wr::write(9, one(sge), {0x1000, 0x200})).ok(), false);
  EXPECT_EQ(state_of(*a_), abi::QpState::kErr);
}

TEST_P(Conformance, a_transport_that_is_gone_exceeds_the_retries) {
  connect({.buffer_bytes = 4 << 20});
  const Sge sge = a_->sge(0, 1 << 20);
  for (std::uint64_t i = 0; i < 4; ++i) post(*a_, wr::write(i, one(sge), b_->remote()));
  world_.find_doorbells();
  world_.cut();              // a transport that says goodbye would be waited for: its daemon comes back
  world_.drop_transport(1);  // the peer's transport, or this adapter's own within a host
  const auto done = await(*a_->send_cq, 4);
  EXPECT_EQ(done.size(), 4U);
  EXPECT_FALSE(execute(wr::write(9, one(sge), b_->remote())).ok());
  EXPECT_EQ(state_of(*a_), abi::QpState::kErr);
}

TEST_P(Conformance, who_waits_for_room_of_a_transport_that_is_gone_exceeds_the_retries) {
  if (!faulty() && !can().can_be_blocked) GTEST_SKIP() << "this path has room for every request";
  connect();
  world_.block();
  world_.pass(std::chrono::milliseconds(2));
  const Sge sge = a_->sge(0, 64);
  post(*a_, wr::write(1, one(sge), b_->remote()));
  world_.drop_transport(0);
  EXPECT_EQ(await_one(*a_->send_cq).status, Status::kRetryExceeded);
}

class ThreeAdapters : public Conformance {
 protected:
  ThreeAdapters() : Conformance(3) {}
};
INSTANTIATE_TEST_SUITE_P(Path, ThreeAdapters, testing::ValuesIn(all_paths()), name_of);

TEST_P(ThreeAdapters, messages_follow_a_gid_to_another_adapter_and_back) {
  if (can().between_strangers)
    GTEST_SKIP() << "a GID of a stranger has a MAC, which the guest resolves again";
  world_.set_faults({});
  connect({}, {.timeout = 13});
  const abi::Gid moving = test::gid_of(1);
  const Sge sge = a_->sge(0, 64);
  a_->fill(0, 64, 1);
  EXPECT_TRUE(execute(wr::write(1, one(sge), b_->remote())).ok());

  world_.device(2);
  world_.unbind(1, 0, moving);
  world_.bind(2, 1, moving);
  a_->fill(0, 64, 2);
  post(*a_, wr::write(2, one(sge), b_->remote()));
  ASSERT_TRUE(world_.wait([&] { return world_.counters(2).dropped_unknown_qp != 0; }));
  EXPECT_TRUE(b_->holds(0, 64, 1)) << "who lost the GID is not spoken to any more";
  EXPECT_TRUE(is_empty(*a_->send_cq));

  // A connection to the new holder.
  RcEndpoint to(world_.device(0), test::gid_of(0), {.context = &world_.context(0)});
  RcEndpoint holder(world_.device(2), moving, {.context = &world_.context(2)}, 1);
  must(test::connect(to, holder, {.timeout = kTimeout}));
  to.fill(0, 64, 3);
  const Sge other = to.sge(0, 64);
  post(to, wr::write(3, one(other), holder.remote()));
  EXPECT_TRUE(await_one(*to.send_cq).ok());
  EXPECT_TRUE(holder.holds(0, 64, 3));

  // The GID moves back: the old connection has lost only time.
  world_.unbind(2, 1, moving);
  world_.bind(1, 0, moving);
  const WorkCompletion done = await_one(*a_->send_cq);
  EXPECT_TRUE(done.ok());
  EXPECT_EQ(done.wr_id, 2U);
  EXPECT_TRUE(b_->holds(0, 64, 2));
}

}  // namespace
}  // namespace pvrdma::conformance
