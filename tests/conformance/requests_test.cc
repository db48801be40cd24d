// Every kind of request over every path: order, contents, completions, and refusals by a peer.
#include "conformance/conformance_test.h"

namespace pvrdma::conformance {
namespace {

TEST_P(Conformance, requests_complete_in_order) {
  connect();
  constexpr std::uint64_t kCount = 60;
  std::vector<driver::SendRequest> requests;
  std::vector<Sge> sges(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    a_->fill(i * 1000, 900, static_cast<std::uint8_t>(i));
    sges[i] = a_->sge(i * 1000, i % 7 == 0 ? 0 : 900);
    requests.push_back(i % 5 == 4 ? wr::read(i, one(sges[i]), b_->remote(i * 1000))
                                  : wr::write(i, one(sges[i]), b_->remote(i * 1000)));
  }
  ASSERT_EQ(a_->qp->post_send(requests).count, kCount);
  const auto done = await(*a_->send_cq, kCount);
  for (std::uint64_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i].wr_id, i);
    EXPECT_EQ(done[i].status, Status::kSuccess);
    if (i % 5 != 4 && sges[i].length != 0) {
      EXPECT_TRUE(b_->holds(i * 1000, 900, static_cast<std::uint8_t>(i))) << i;
    }
  }
}

TEST_P(Conformance, a_mapped_doorbell_is_no_call) {
  if (GetParam().doorbells != DoorbellMode::kMapped) GTEST_SKIP() << "the doorbells are trapped";
  connect();
  const std::uint64_t calls = world_.calls(0) + world_.calls(1);
  ASSERT_TRUE(b_->recv(1, 0, 64).ok());
  EXPECT_TRUE(execute(wr::send(1, one(a_->sge(0, 64)))).ok());
  EXPECT_TRUE(await_one(*b_->recv_cq).ok());
  EXPECT_EQ(world_.calls(0) + world_.calls(1), calls);
}

TEST_P(Conformance, sends_meet_receives_in_order) {
  connect();
  for (std::uint32_t round = 0; round < 10; ++round) {
    for (std::uint32_t i = 0; i < 16; ++i) ASSERT_TRUE(b_->recv(i, i * 2048, 2048).ok());
    for (std::uint32_t i = 0; i < 16; ++i) {
      const std::uint32_t bytes = i == 3 ? 0 : 100 * i + 1;
      a_->fill(i * 2048, bytes, static_cast<std::uint8_t>(round + i));
      const Sge sge = a_->sge(i * 2048, bytes);
      post(*a_, wr::send_imm(i, one(sge), i));
    }
    const auto sent = await(*a_->send_cq, 16);
    const auto got = await(*b_->recv_cq, 16);
    for (std::uint32_t i = 0; i < got.size(); ++i) {
      const std::uint32_t bytes = i == 3 ? 0 : 100 * i + 1;
      EXPECT_TRUE(sent[i].ok());
      EXPECT_EQ(sent[i].wr_id, i);
      EXPECT_EQ(got[i].wr_id, i);
      EXPECT_EQ(got[i].byte_len, bytes);
      EXPECT_EQ(got[i].immediate, i);
      EXPECT_TRUE(b_->holds(i * 2048, bytes, static_cast<std::uint8_t>(round + i)));
    }
  }
}

// QUERY_QP reports the same PSNs at both ends, however the path splits messages (ADR 13).
TEST_P(Conformance, both_ends_count_the_same_packets) {
  connect({}, {.timeout = kTimeout, .first_psn = 0xff'fffa});  // wraps
  const auto psn = [](RcEndpoint& end) { return must(end.qp->query()); };
  const std::uint32_t mtu = 1024;
  ASSERT_TRUE(b_->recv(1, 0, 4096).ok());
  EXPECT_TRUE(execute(wr::write(1, one(a_->sge(0, 40'000)), b_->remote())).ok());    // 40 packets
  EXPECT_TRUE(execute(wr::send(2, one(a_->sge(0, mtu + 1)))).ok());                  // 2
  EXPECT_TRUE(execute(wr::read(3, one(a_->sge(0, 3 * mtu)), b_->remote())).ok());    // 3
  EXPECT_TRUE(execute(wr::write(4, {}, b_->remote())).ok());                         // 1
  EXPECT_TRUE(execute(wr::fetch_add(5, one(a_->sge(0, 8)), b_->remote(), 1)).ok());  // 1
  EXPECT_EQ(psn(*a_).sq_psn, (0xff'fffaU + 47) & 0xff'ffffU);
  EXPECT_EQ(psn(*b_).rq_psn, psn(*a_).sq_psn);
  EXPECT_EQ(psn(*a_).rq_psn, psn(*b_).sq_psn);
}

TEST_P(Conformance, a_shared_receive_queue_feeds_two_connections) {
  auto user = must(driver::Context::create_user(world_.device(1)));
  auto pd = must(driver::ProtectionDomain::create(*user));
  auto srq = must(driver::SharedReceiveQueue::create(*pd, {.max_wr = 32}));
  std::array<std::unique_ptr<RcEndpoint>, 2> senders;
  std::array<std::unique_ptr<RcEndpoint>, 2> receivers;
  for (int i = 0; i < 2; ++i) {
    senders[i] = endpoint(0);
    receivers[i] = endpoint(1, {.srq = srq.get(), .pd = pd.get()});
    must(test::connect(*senders[i], *receivers[i], {.timeout = kTimeout}));
  }
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Sge into = receivers[0]->sge(i * 100, 100);
    ASSERT_TRUE(srq->post_recv(driver::ReceiveRequest{i, one(into)}).ok());
  }
  for (std::uint64_t i = 0; i < 20; ++i) {
    senders[i % 2]->fill(0, 100, static_cast<std::uint8_t>(i));
    const Sge from = senders[i % 2]->sge(0, 100);
    post(*senders[i % 2], wr::send(i, one(from)));
    EXPECT_TRUE(await_one(*senders[i % 2]->send_cq).ok());
    const WorkCompletion got = await_one(*receivers[i % 2]->recv_cq);
    EXPECT_EQ(got.wr_id, i);
    EXPECT_EQ(got.qpn, receivers[i % 2]->qp->qpn());
    EXPECT_TRUE(receivers[0]->holds(i * 100, 100, static_cast<std::uint8_t>(i)));
  }
  receivers = {};
  srq.reset();
}

TEST_P(Conformance, a_write_with_immediate_takes_one_receive) {
  connect();
  for (std::uint32_t i = 0; i < 20; ++i) {
    a_->fill(0, 5000, static_cast<std::uint8_t>(i));
    ASSERT_TRUE(b_->recv(42 + i, 0, 0).ok());
    const Sge sge = a_->sge(0, i == 7 ? 0 : 5000);
    EXPECT_TRUE(execute(wr::write_imm(i, one(sge), b_->remote(64), 0xcafe + i)).ok());
    const WorkCompletion got = await_one(*b_->recv_cq);
    EXPECT_EQ(got.opcode, Kind::kRecvRdmaWithImm);
    EXPECT_EQ(got.wr_id, 42 + i);
    EXPECT_EQ(got.byte_len, sge.length);
    EXPECT_EQ(got.immediate, 0xcafe + i);
    if (sge.length != 0) {
      EXPECT_TRUE(b_->holds(64, 5000, static_cast<std::uint8_t>(i)));
    }
  }
}

TEST_P(Conformance, reads_fetch_what_is_there) {
  connect();
  for (std::uint32_t i = 0; i < 30; ++i) {
    const std::uint32_t bytes = i * 1000;
    b_->fill(100, bytes, static_cast<std::uint8_t>(i));
    const std::array into{a_->sge(5, bytes / 2), a_->sge(5 + bytes / 2, bytes - bytes / 2)};
    post(*a_, wr::read(i, into, b_->remote(100)));
    const WorkCompletion done = await_one(*a_->send_cq);
    EXPECT_EQ(done.status, Status::kSuccess);
    EXPECT_EQ(done.byte_len, bytes);
    EXPECT_TRUE(a_->holds(5, bytes, static_cast<std::uint8_t>(i)));
  }
}

TEST_P(Conformance, atomics_give_the_value_before) {
  connect();
  store(*b_, 64, 100);
  const Sge result = a_->sge(8, 8);
  for (std::uint64_t i = 0; i < 50; ++i) {
    EXPECT_TRUE(execute(wr::fetch_add(i, one(result), b_->remote(64), 3)).ok());
    EXPECT_EQ(load(*a_, 8), 100 + 3 * i);
  }
  EXPECT_TRUE(execute(wr::compare_swap(1, one(result), b_->remote(64), 250, 7)).ok());
  EXPECT_EQ(load(*a_, 8), 250U);
  EXPECT_TRUE(execute(wr::compare_swap(2, one(result), b_->remote(64), 250, 9)).ok());
  EXPECT_EQ(load(*a_, 8), 7U);
  EXPECT_EQ(load(*b_, 64), 7U);
}

TEST_P(Conformance, messages_of_nothing_complete_at_both_ends) {
  connect();
  ASSERT_TRUE(b_->recv(1, 0, 100).ok());
  EXPECT_TRUE(execute(wr::send(1, {})).ok());
  EXPECT_EQ(await_one(*b_->recv_cq).byte_len, 0U);
  EXPECT_TRUE(execute(wr::write(2, {}, {0x1234, 0xdead00})).ok()) << "needs no key";
  EXPECT_TRUE(execute(wr::read(3, {}, b_->remote())).ok());
  EXPECT_TRUE(is_empty(*b_->recv_cq));
}

// --- Refusals: the status, and both ends' states. Without faults, because a QP that has refused is in ERR
// and does not repeat a lost NAK. ---

TEST_P(Conformance, a_wrong_rkey_is_refused) {
  world_.set_faults({});
  connect();
  const Sge sge = a_->sge(0, 64);
  b_->fill(0, 64, 33);
  EXPECT_EQ(execute(wr::write(1, one(sge), {b_->remote().addr, b_->mr->rkey() ^ 0x8000})).status,
            Status::kRemoteAccess);
  EXPECT_TRUE(b_->holds(0, 64, 33));
  EXPECT_EQ(state_of(*a_), abi::QpState::kErr);
  EXPECT_EQ(state_of(*b_), abi::QpState::kErr);
}

TEST_P(Conformance, a_byte_out_of_bounds_is_refused) {
  world_.set_faults({});
  connect();
  const Sge sge = a_->sge(0, 64);
  EXPECT_EQ(execute(wr::read(1, one(sge), b_->remote(b_->mr->length() - 63))).status, Status::kRemoteAccess);
  EXPECT_EQ(state_of(*a_), abi::QpState::kErr);
  EXPECT_EQ(state_of(*b_), abi::QpState::kErr);
}

TEST_P(Conformance, what_the_qp_does_not_allow_is_refused) {
  world_.set_faults({});
  connect({}, {.access = abi::kAccessRemoteRead, .timeout = kTimeout});
  const Sge sge = a_->sge(0, 64);
  EXPECT_TRUE(execute(wr::read(1, one(sge), b_->remote())).ok());
  EXPECT_EQ(execute(wr::write(2, one(sge), b_->remote())).status, Status::kRemoteAccess);
  EXPECT_EQ(execute(wr::write(3, one(sge), b_->remote())).status, Status::kFlushed);
  EXPECT_EQ(state_of(*a_), abi::QpState::kErr);
  EXPECT_EQ(state_of(*b_), abi::QpState::kErr);
}

// --- Receivers that are not ready. ---

TEST_P(Conformance, a_send_waits_for_a_receive) {
  connect();
  a_->fill(0, 3000, 9);
  const Sge sge = a_->sge(0, 3000);
  post(*a_, wr::send(1, one(sge)));
  ASSERT_TRUE(world_.wait([&] { return world_.counters(0).rnr_naks_received >= 3; }));
  EXPECT_TRUE(is_empty(*a_->send_cq));
  ASSERT_TRUE(b_->recv(5, 100, 3000).ok());
  EXPECT_TRUE(await_one(*a_->send_cq).ok());
  EXPECT_EQ(await_one(*b_->recv_cq).byte_len, 3000U);
  EXPECT_TRUE(b_->holds(100, 3000, 9));
}

TEST_P(Conformance, a_sender_gives_up_after_its_rnr_retries) {
  connect({}, {.timeout = kTimeout, .rnr_retry = 2});
  const Sge sge = a_->sge(0, 8);
  EXPECT_EQ(execute(wr::send(1, one(sge))).status, Status::kRnrRetryExceeded);
  EXPECT_EQ(state_of(*a_), abi::QpState::kErr);
  EXPECT_EQ(state_of(*b_), abi::QpState::kRts) << "it has nothing to be sorry for";
  EXPECT_GE(world_.counters(1).rnr_naks_sent, 3U);
}

}  // namespace
}  // namespace pvrdma::conformance
