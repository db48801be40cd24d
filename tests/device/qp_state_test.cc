// Every QP state and transition, query, SQD, RESET (docs/device.md 3.4, 7.3).
#include <array>
#include <cstring>
#include <optional>

#include "device_test.h"

namespace pvrdma::test {
namespace {

using abi::QpState;

class QpStates : public DeviceTest {
 protected:
  void SetUp() override {
    pd_ = must(driver::ProtectionDomain::create(device(0).kernel()));
    cq_ = must(driver::CompletionQueue::create(device(0).kernel(), 64));
  }
  void TearDown() override {
    cq_.reset();
    pd_.reset();
    DeviceTest::TearDown();
  }
  std::unique_ptr<driver::QueuePair> make(abi::QpType type = abi::QpType::kRc) {
    return must(driver::QueuePair::create(*pd_, {.type = type, .send_cq = cq_.get(), .recv_cq = cq_.get()}));
  }

  // All attributes that a transition of an RC QP may need, valid.
  static abi::QpAttr full(QpState to) {
    abi::QpAttr attr{};
    attr.qp_state = static_cast<std::uint32_t>(to);
    attr.path_mtu = 3;
    attr.dest_qp_num = 77;
    attr.port_num = 1;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.ah_attr.ah_flags = abi::kAhGrh;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = gid_of(1);
    return attr;
  }
  static std::uint32_t mask_for(QpState from, QpState to) {
    if (from == QpState::kReset && to == QpState::kInit) return 0x39;
    if (from == QpState::kInit && to == QpState::kRtr) return 0x129181;
    if (from == QpState::kRtr && to == QpState::kRts) return 0x12e01;
    return 0x1;
  }
  void bring(driver::QueuePair& qp, QpState to) {
    static constexpr std::array kWay{QpState::kReset, QpState::kInit, QpState::kRtr, QpState::kRts,
                                     QpState::kSqd};
    if (to == QpState::kErr) return must(qp.to_error());
    for (std::size_t i = 1; i < kWay.size() && kWay[i - 1] != to; ++i) {
      must(qp.modify(mask_for(kWay[i - 1], kWay[i]), full(kWay[i])));
    }
  }
  QpState actual(driver::QueuePair& qp) { return static_cast<QpState>(must(qp.query()).qp_state); }

  std::unique_ptr<driver::ProtectionDomain> pd_;
  std::unique_ptr<driver::CompletionQueue> cq_;
};

// Few enough to try all: five states that a driver can reach by itself, seven targets, and one number beyond.
TEST_F(QpStates, exactly_the_transitions_of_infiniband) {
  const auto allowed = [](QpState from, QpState to) {
    if (to == QpState::kReset || to == QpState::kErr) return true;
    if (from == QpState::kReset) return to == QpState::kInit;
    if (from == QpState::kInit) return to == QpState::kInit || to == QpState::kRtr;
    if (from == QpState::kRtr) return to == QpState::kRts;
    if (from == QpState::kRts) return to == QpState::kRts || to == QpState::kSqd;
    if (from == QpState::kSqd) return to == QpState::kSqd || to == QpState::kRts;
    return false;
  };
  for (const QpState from :
       {QpState::kReset, QpState::kInit, QpState::kRtr, QpState::kRts, QpState::kSqd, QpState::kErr}) {
    for (std::uint32_t raw = 0; raw <= 7; ++raw) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(from) << " -> " << raw);
      auto qp = make();
      bring(*qp, from);
      ASSERT_EQ(actual(*qp), from);
      const auto to = abi::parse_qp_state(raw);
      abi::QpAttr attr = full(QpState::kReset);
      attr.qp_state = raw;
      const auto done = qp->modify(to ? mask_for(from, *to) : 1, attr);
      EXPECT_EQ(done.has_value(), to && allowed(from, *to));
      EXPECT_EQ(actual(*qp), done ? *to : from);
    }
  }
}

TEST_F(QpStates, each_required_attribute_is_required) {
  struct Step {
    QpState from;
    QpState to;
  };
  for (const Step step : {Step{QpState::kReset, QpState::kInit}, Step{QpState::kInit, QpState::kRtr},
                          Step{QpState::kRtr, QpState::kRts}}) {
    const std::uint32_t mask = mask_for(step.from, step.to);
    for (std::uint32_t bit = 1; bit < 21; ++bit) {
      if ((mask >> bit & 1) == 0) continue;
      SCOPED_TRACE(::testing::Message() << static_cast<int>(step.to) << " without bit " << bit);
      auto qp = make();
      bring(*qp, step.from);
      EXPECT_FALSE(qp->modify(mask & ~(1u << bit), full(step.to)));
      EXPECT_EQ(actual(*qp), step.from);
      EXPECT_TRUE(qp->modify(mask, full(step.to)));
    }
  }
}

TEST_F(QpStates, values_out_of_range_are_refused) {
  const auto refuses = [&](QpState from, QpState to, auto change) {
    auto qp = make();
    bring(*qp, from);
    abi::QpAttr attr = full(to);
    change(attr);
    EXPECT_FALSE(qp->modify(mask_for(from, to), attr));
    EXPECT_EQ(actual(*qp), from);
  };
  refuses(QpState::kReset, QpState::kInit, [](abi::QpAttr& attr) { attr.port_num = 2; });
  refuses(QpState::kReset, QpState::kInit, [](abi::QpAttr& attr) { attr.port_num = 0; });
  refuses(QpState::kReset, QpState::kInit, [](abi::QpAttr& attr) { attr.pkey_index = 1; });
  refuses(QpState::kInit, QpState::kRtr, [](abi::QpAttr& attr) { attr.path_mtu = 0; });
  refuses(QpState::kInit, QpState::kRtr, [](abi::QpAttr& attr) { attr.path_mtu = 6; });
  refuses(QpState::kInit, QpState::kRtr, [](abi::QpAttr& attr) { attr.min_rnr_timer = 32; });
  refuses(QpState::kInit, QpState::kRtr, [](abi::QpAttr& attr) { attr.max_dest_rd_atomic = 255; });
  refuses(QpState::kInit, QpState::kRtr,
          [](abi::QpAttr& attr) { attr.ah_attr.grh.sgid_index = 9; });  // not bound
  refuses(QpState::kInit, QpState::kRtr, [](abi::QpAttr& attr) { attr.ah_attr.grh.sgid_index = 255; });
  refuses(QpState::kInit, QpState::kRtr, [](abi::QpAttr& attr) { attr.ah_attr.ah_flags = 0; });
  refuses(QpState::kInit, QpState::kRtr, [](abi::QpAttr& attr) { attr.dest_qp_num = 1u << 24; });
  refuses(QpState::kRtr, QpState::kRts, [](abi::QpAttr& attr) { attr.timeout = 32; });
  refuses(QpState::kRtr, QpState::kRts, [](abi::QpAttr& attr) { attr.retry_cnt = 8; });
  refuses(QpState::kRtr, QpState::kRts, [](abi::QpAttr& attr) { attr.rnr_retry = 8; });
  refuses(QpState::kRtr, QpState::kRts, [](abi::QpAttr& attr) { attr.max_rd_atomic = 255; });
}

TEST_F(QpStates, the_log_names_what_is_out_of_range) {
  auto qp = make();
  bring(*qp, QpState::kInit);
  abi::QpAttr attr = full(QpState::kRtr);
  attr.max_dest_rd_atomic = 128;
  LogCapture log;
  EXPECT_FALSE(qp->modify(mask_for(QpState::kInit, QpState::kRtr), attr));
  EXPECT_NE(log.text().find("command MODIFY_QP refused: max_dest_rd_atomic is 128, not 0 to 16"),
            std::string::npos);
}

TEST_F(QpStates, attributes_the_mask_does_not_name_are_ignored) {
  auto qp = make();
  abi::QpAttr rubbish;
  std::memset(static_cast<void*>(&rubbish), 0xa5, sizeof(rubbish));
  rubbish.qp_state = static_cast<std::uint32_t>(QpState::kInit);
  rubbish.port_num = 1;
  rubbish.pkey_index = 0;
  rubbish.qp_access_flags = 2;
  must(qp->modify(0x39, rubbish));
  const abi::QpAttr now = must(qp->query());
  EXPECT_EQ(now.qp_access_flags, 2u);
  EXPECT_EQ(now.qkey, 0u);
  EXPECT_EQ(now.rq_psn, 0u);
}

TEST_F(QpStates, query_tells_what_was_set) {
  auto qp = make();
  must(qp->to_init({.access = abi::kAccessRemoteRead}));
  must(qp->to_rtr({.dest_qpn = 0x1234,
                   .route = {.dgid = gid_of(1), .hop_limit = 33, .traffic_class = 5, .flow_label = 0x777},
                   .rq_psn = 0xabcdef,
                   .path_mtu = abi::Mtu::k512,
                   .max_dest_rd_atomic = 4,
                   .min_rnr_timer = 9}));
  must(qp->to_rts(driver::RtsAttributes{
      .sq_psn = 0x123456, .timeout = 3, .retry_cnt = 2, .rnr_retry = 1, .max_rd_atomic = 5}));
  const abi::QpAttr now = must(qp->query());
  EXPECT_EQ(now.qp_state, 3u);
  EXPECT_EQ(now.cur_qp_state, 3u);
  EXPECT_EQ(now.qp_access_flags, 4u);
  EXPECT_EQ(now.dest_qp_num, 0x1234u);
  EXPECT_EQ(now.rq_psn, 0xabcdefu);
  EXPECT_EQ(now.sq_psn, 0x123456u);
  EXPECT_EQ(now.path_mtu, 2u);
  EXPECT_EQ(now.max_dest_rd_atomic, 4);
  EXPECT_EQ(now.min_rnr_timer, 9);
  EXPECT_EQ(now.timeout, 3);
  EXPECT_EQ(now.retry_cnt, 2);
  EXPECT_EQ(now.rnr_retry, 1);
  EXPECT_EQ(now.max_rd_atomic, 5);
  EXPECT_EQ(now.port_num, 1);
  EXPECT_EQ(now.cap.max_send_wr, 64u);
  EXPECT_EQ(now.cap.max_recv_wr, 64u);
  EXPECT_EQ(now.ah_attr.grh.dgid, gid_of(1));
  EXPECT_EQ(now.ah_attr.grh.hop_limit, 33);
  EXPECT_EQ(now.ah_attr.grh.flow_label, 0x777u);
}

TEST_F(QpStates, datagram_qps_go_their_own_way) {
  for (const abi::QpType type : {abi::QpType::kUd, abi::QpType::kGsi}) {
    auto qp = make(type);
    EXPECT_EQ(qp->qpn() == 1, type == abi::QpType::kGsi);
    must(qp->to_init({.qkey = 0x80010000}));
    must(qp->to_rtr());
    must(qp->to_rts(0));
    EXPECT_EQ(must(qp->query()).qkey, 0x80010000u);
    must(qp->to_error());
    must(qp->to_reset());
  }
}

TEST_F(QpStates, there_is_one_gsi_qp) {
  auto first = make(abi::QpType::kGsi);
  EXPECT_FALSE(driver::QueuePair::create(
      *pd_, {.type = abi::QpType::kGsi, .send_cq = cq_.get(), .recv_cq = cq_.get()}));
  must(first->destroy());
  EXPECT_EQ(make(abi::QpType::kGsi)->qpn(), 1u);
}

class RcStates : public RcTest {};

TEST_F(RcStates, an_early_send_waits_for_the_peers_rtr) {
  RcEndpoint late(device(1), gid_of(1));
  RcEndpoint early(device(0), gid_of(0));
  must(early.connect_to(gid_of(1), late.qp->qpn()));
  must(late.qp->to_init({.access = kFullAccess}));
  ASSERT_TRUE(late.recv(1, 0, 8).ok());
  const Sge sge = early.sge(0, 8);
  ASSERT_TRUE(early.qp->post_send(wr::send(1, one(sge))).ok());
  EXPECT_TRUE(is_empty(*early.send_cq));
  must(late.qp->to_rtr({.dest_qpn = early.qp->qpn(), .route = {.dgid = gid_of(0)}, .rq_psn = 0xff'fffe}));
  EXPECT_EQ(await_one(*early.send_cq).status, Status::kSuccess);
  EXPECT_EQ(await_one(*late.recv_cq).status, Status::kSuccess);
}

TEST_F(RcStates, sqd_holds_new_requests_and_tells_when_drained) {
  must(a_->qp->to_sqd());
  auto event = device(0).wait_async_event(kPatience);
  while (event && event->type != abi::EventType::kSqDrained) event = device(0).wait_async_event(kPatience);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->info, a_->qp->handle());
  const Sge sge = a_->sge(0, 8);
  ASSERT_TRUE(a_->qp->post_send(wr::write(1, one(sge), b_->remote())).ok());
  EXPECT_TRUE(is_empty(*a_->send_cq));
  must(a_->qp->sqd_to_rts());
  EXPECT_EQ(await_one(*a_->send_cq).status, Status::kSuccess);
}

TEST_F(RcStates, reset_forgets_everything_and_the_qp_connects_anew) {
  const Sge sge = a_->sge(0, 8);
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(a_->qp->post_send(wr::send(i, one(sge))).ok());  // RNR
    ASSERT_TRUE(b_->recv(7, 0, 8).ok());  // lets one of them continue
    must(a_->qp->to_reset());
    must(b_->qp->to_reset());
    EXPECT_TRUE(is_empty(*a_->send_cq));
    EXPECT_TRUE(is_empty(*b_->recv_cq));
    must(connect(*a_, *b_));
    ASSERT_TRUE(b_->recv(8, 0, 8).ok());
    EXPECT_EQ(execute(wr::send(9, one(sge))).wr_id, 9u);
    EXPECT_EQ(await_one(*b_->recv_cq).wr_id, 8u);
  }
}

}  // namespace
}  // namespace pvrdma::test
