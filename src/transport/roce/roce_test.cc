// Tests how a frame reaches its connection, and how a dropped frame is counted.
#include "transport/roce/roce.h"

#include <gtest/gtest.h>

#include "roce/frame.h"
#include "transport/roce/fake_link.h"
#include "verbs/connected_qp_fixture.h"
#include "verbs/host_account.h"

namespace pvrdma::transport::roce {
namespace {

using pvrdma::roce::DropReason;
using pvrdma::roce::Frame;
using pvrdma::roce::Opcode;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using verbs::kPeer;
using verbs::kRqPsn;

constexpr SegmentId kSegment{1, 7};
constexpr Mac kMac{{2, 0, 0, 0, 0, 1}};

class RoceTest : public verbs::ConnectedQp, public NativeInbound {
 protected:
  RoceTest() {
    a.wire.open_other = [this](const verbs::Connection& ends, verbs::PathSlot& slot) {
      roce_.open({.segment = kSegment, .sender = &a.engine, .sender_mac = kMac}, ends, traffic_, slot);
    };
  }

  Admission admit(SegmentId segment, const verbs::Gid&, const verbs::Gid&, const Mac&) override {
    EXPECT_EQ(segment, kSegment);
    return admission;
  }
  void on_room(SegmentId) override {}

  // The frame of an RDMA write that the peer sends.
  Frame frame() const {
    Frame made;
    made.envelope.source = kPeer.gid;
    made.envelope.destination = a.gid;
    made.packet.opcode = Opcode::kWriteOnly;
    made.packet.destination = qp.qpn;
    made.packet.psn = verbs::Psn(kRqPsn);
    made.packet.ack_request = true;
    made.packet.remote_addr = mr.start;
    made.packet.rkey = mr.key;
    return made;
  }
  static FakeLink::Bytes built(const Frame& frame) {
    FakeLink::Bytes bytes(pvrdma::roce::kFrameBytesMax);
    bytes.resize(pvrdma::roce::build(frame, bytes.data()));
    return bytes;
  }
  void deliver(const Frame& frame) { link_.deliver(built(frame), a.now); }

  Admission admission{Entry::kAdmitted, &a.engine};
  Traffic traffic_;
  Roce roce_{*this, {.connections_max = 1}};
  FakeLink& link_ = FakeLink::add(roce_, kSegment);
};

TEST_F(RoceTest, AFrameGoesToItsConnectionAndIsAnswered) {
  deliver(frame());
  const auto sent = link_.sent();
  ASSERT_THAT(sent, SizeIs(1));
  const auto answer = pvrdma::roce::parse(sent[0]);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->packet.opcode, Opcode::kAcknowledge);
  EXPECT_EQ(answer->packet.destination, kPeer.qpn);
  EXPECT_EQ(answer->envelope.source_mac, kMac);
  EXPECT_EQ(answer->envelope.destination, kPeer.gid);
}

// The filter sees the answers, requests and datagrams of its adapter, and of no other.
TEST_F(RoceTest, WhatAnAdapterSendsPassesItsFilter) {
  class Bin final : public pvrdma::roce::FrameFilter, public pvrdma::roce::FrameSink {
   public:
    FrameSink& before(FrameSink&) override { return *this; }
    std::byte* place() override { return place_.data(); }
    void send(std::size_t) override { ++frames; }
    std::size_t room() const override { return 8; }
    int frames = 0;

   private:
    std::array<std::byte, pvrdma::roce::kFrameBytesMax> place_{};
  } bin;
  roce_.set_filter(a.engine, &bin);
  deliver(frame());
  EXPECT_EQ(bin.frames, 1) << "an acknowledgement";
  a.send(qp, write(1, 8));
  EXPECT_EQ(bin.frames, 2);
  const Place place{.segment = kSegment, .sender = &a.engine, .sender_mac = kMac};
  roce_.send_datagram(place, {}, {}, traffic_, a.now);
  EXPECT_EQ(bin.frames, 3);
  EXPECT_THAT(link_.sent(), IsEmpty());

  verbs::TestAdapter other{53};
  roce_.send_datagram({.segment = kSegment, .sender = &other.engine}, {}, {}, traffic_, a.now);
  EXPECT_THAT(link_.sent(), SizeIs(1)) << "another adapter's";
  roce_.set_filter(a.engine, nullptr);
  roce_.send_datagram(place, {}, {}, traffic_, a.now);
  EXPECT_THAT(link_.sent(), SizeIs(1));
  EXPECT_EQ(bin.frames, 3);
}

TEST_F(RoceTest, WhatIsDamagedIsDropped) {
  auto bytes = built(frame());
  bytes.back() ^= std::byte{1};
  link_.deliver(bytes, a.now);
  EXPECT_EQ(roce_.errors().bad_frames[static_cast<std::size_t>(DropReason::kIcrc)], 1u);
  EXPECT_THAT(link_.sent(), IsEmpty());
}

TEST_F(RoceTest, WhatMayNotEnterIsDropped) {
  for (const Entry entry : {Entry::kUnknownGid, Entry::kForeignSource, Entry::kNotAllowed}) {
    admission = {entry, &a.engine};
    deliver(frame());
    EXPECT_EQ(roce_.errors().refused[static_cast<std::size_t>(entry)], 1u);
  }
  admission = {Entry::kAdmitted, nullptr};
  deliver(frame());
  EXPECT_EQ(roce_.errors().port_down, 1u);
  EXPECT_THAT(link_.sent(), IsEmpty());
}

TEST_F(RoceTest, WhatIsOfAnotherVlanIsDropped) {
  Frame tagged = frame();
  for (const std::uint16_t vlan : {std::uint16_t{0}, kSegment.vlan}) {
    tagged.envelope.vlan = vlan;
    deliver(tagged);
    EXPECT_THAT(link_.sent(), SizeIs(1)) << vlan;
  }
  for (const int vlan : {kSegment.vlan + 1, 0xfff}) {
    tagged.envelope.vlan = static_cast<std::uint16_t>(vlan);
    deliver(tagged);
  }
  EXPECT_EQ(roce_.errors().foreign_vlan, 2u);
  EXPECT_THAT(link_.sent(), IsEmpty());
}

TEST_F(RoceTest, WhatIsOfNoSegmentIsDropped) {
  roce_.assign(0, std::nullopt);
  deliver(frame());
  EXPECT_EQ(roce_.errors().refused[static_cast<std::size_t>(Entry::kUnknownGid)], 1u);
  EXPECT_THAT(link_.sent(), IsEmpty());
}

TEST_F(RoceTest, WhatIsOfNoConnectionIsDropped) {
  Frame to_nobody = frame();
  to_nobody.packet.destination = verbs::Qpn(qp.qpn.value + 1);
  deliver(to_nobody);
  EXPECT_EQ(roce_.errors().no_qp, 1u);
  Frame from_another = frame();
  from_another.envelope.source = verbs::test_gid(77);
  deliver(from_another);
  EXPECT_EQ(roce_.errors().bad_address, 1u);
  EXPECT_THAT(link_.sent(), IsEmpty());
  EXPECT_EQ(a.engine.query_qp(qp.handle)->rq_psn, kRqPsn);
}

TEST_F(RoceTest, AnExhaustedPoolLeadsNowhere) {
  verbs::TestQp other = a.make_qp(send_cq, recv_cq);
  a.connect(other, kPeer, connection());
  a.send(other, write(1));
  EXPECT_EQ(roce_.errors().no_connection, 1u);
  EXPECT_THAT(link_.sent(), IsEmpty());
  const std::vector<verbs::QpInfo> listed = a.engine.list_qps();
  ASSERT_THAT(listed, SizeIs(2));
  EXPECT_EQ(listed[1].qpn, other.qpn);
  EXPECT_EQ(listed[1].path_trouble,
            "it has no part of the budget of connections to native endpoints (budgets.native_connections)");
  a.send(qp, write(2));
  EXPECT_THAT(link_.sent(), SizeIs(1)) << "who has one is served";
  EXPECT_EQ(roce_.errors().no_connection, 1u);
}

class PathMtuTest : public RoceTest {
 protected:
  std::string trouble_with(abi::Mtu path_mtu) {
    verbs::ConnectOptions options = connection();
    options.path_mtu = path_mtu;
    a.reset(qp);
    a.connect(qp, kPeer, options);
    return a.engine.list_qps()[0].path_trouble;
  }
};

TEST_F(PathMtuTest, OneAboveTheLinksIsCountedAndNamed) {
  link_.mtu = 1500;
  EXPECT_EQ(trouble_with(abi::Mtu::k1024), "");
  EXPECT_EQ(roce_.errors().path_mtu_above_link, 0u);
  EXPECT_EQ(
      trouble_with(abi::Mtu::k2048),
      "its path MTU is 2048, which takes packets of up to 2132 bytes, and the MTU of its RoCE link fake is "
      "1500");
  EXPECT_EQ(roce_.errors().path_mtu_above_link, 1u);
  a.send(qp, write(1, 2048));
  for (int lost = 0; lost < 20 && a.events.failures.empty(); ++lost) advance(verbs::kAckTimeout);
  EXPECT_THAT(
      a.events.failures,
      ::testing::ElementsAre(::testing::HasSubstr("timeout and retry_cnt allow: its path MTU is 2048")));
}

TEST_F(PathMtuTest, TheLinkCarriesItsOwnMtuAndAllWithoutOne) {
  link_.mtu = 4096 + pvrdma::roce::kOverheadBytesMax;
  EXPECT_EQ(trouble_with(abi::Mtu::k4096), "");
  link_.mtu = *link_.mtu - 1;
  EXPECT_NE(trouble_with(abi::Mtu::k4096), "");
  link_.mtu.reset();
  EXPECT_EQ(trouble_with(abi::Mtu::k4096), "");
}

// Adapters that share the budget of connections to native endpoints.
class NativeBudgetTest : public ::testing::Test, public NativeInbound {
 protected:
  static constexpr std::uint64_t kTotal = 400;  // 100 of them are reserved for adapters that have none
  struct Guest {
    Guest(std::uint8_t host, NativeBudgetTest& test, std::uint64_t connections)
        : adapter(host, 1, {}, 32u << 20, budgets_of(connections), &test.host_) {
      adapter.wire.open_other = [this, &test](const verbs::Connection& ends, verbs::PathSlot& slot) {
        test.roce_.open({.segment = kSegment, .sender = &adapter.engine, .sender_mac = kMac}, ends,
                        test.traffic_, slot);
      };
    }
    static Budgets budgets_of(std::uint64_t connections) {
      Budgets budgets;
      budgets.native_connections = connections;
      return budgets;
    }
    verbs::TestQp initialized() {
      const verbs::TestQp qp = adapter.make_qp(cq, cq, {.max_send_wr = 1, .max_recv_wr = 1});
      adapter.to_init(qp);
      return qp;
    }
    // Sends nothing.
    verbs::Outcome<> connect(const verbs::TestQp& qp) {
      adapter.account.forget_refusal();
      return adapter.try_rtr(qp, kPeer);
    }
    verbs::TestAdapter adapter;
    verbs::TestCq cq = adapter.make_cq();
  };

  Admission admit(SegmentId, const verbs::Gid&, const verbs::Gid&, const Mac&) override {
    return {Entry::kUnknownGid, nullptr};
  }
  void on_room(SegmentId) override {}

  static TotalBudgets totals() {
    TotalBudgets budgets;
    budgets.native_connections = kTotal;
    return budgets;
  }
  verbs::HostAccount host_{totals()};
  Traffic traffic_;
  Roce roce_{*this, {.connections_max = kTotal}};
  FakeLink& link_ = FakeLink::add(roce_, kSegment);
};

TEST_F(NativeBudgetTest, AQpBeyondTheBudgetIsRefusedAtRtrAndMayTryAgain) {
  Guest guest(51, *this, 1);
  const verbs::TestQp one = guest.initialized();
  const verbs::TestQp two = guest.initialized();
  ASSERT_TRUE(guest.connect(one));
  EXPECT_EQ(guest.connect(two), verbs::refuse(verbs::CommandError::kNoMemory));
  EXPECT_EQ(guest.adapter.account.last_refusal(),
            "its budget of 1 connection to native endpoints is used up (budgets.native_connections)");
  EXPECT_EQ(guest.adapter.state(two), abi::QpState::kInit);
  EXPECT_EQ(guest.adapter.account.use(Budget::kNatives).use, 1u);
  EXPECT_TRUE(guest.adapter.engine.destroy_qp(one.handle, guest.adapter.now));
  EXPECT_TRUE(guest.connect(two));
  EXPECT_EQ(guest.adapter.state(two), abi::QpState::kRtr);
}

// A guest that connects QPs and sends nothing takes no other guest's connections.
TEST_F(NativeBudgetTest, OneGuestLeavesConnectionsForTheOthers) {
  Guest greedy(51, *this, kTotal);
  std::uint64_t connected = 0;
  while (connected <= kTotal && greedy.connect(greedy.initialized())) ++connected;
  EXPECT_EQ(connected, kTotal - kTotal / verbs::HostAccount::kKeptParts);
  EXPECT_EQ(
      greedy.adapter.account.last_refusal(),
      "the budget of 400 connections to native endpoints for all adapters together is used up, except the "
      "part reserved for others (budgets.total_native_connections)");
  Guest other(52, *this, kTotal);
  EXPECT_TRUE(other.connect(other.initialized()));
}

}  // namespace
}  // namespace pvrdma::transport::roce
