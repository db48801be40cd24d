// Tests native endpoints: which peers count as native, which ports may speak to them, and what may come in
// from outside the cluster.
#include <gtest/gtest.h>
#include <optional>

#include "fabric/fabric.h"
#include "fabric/fabric_fixture.h"
#include "support/manual_clock.h"

namespace pvrdma::fabric {
namespace {

using transport::Entry;
using transport::HostId;
using transport::SegmentId;

constexpr SegmentId kBlue{.dvs = 1, .vlan = 105};
constexpr HostId kEsx2{2};

verbs::Gid ipv4(std::uint8_t last) {
  return to_gid(*IpAddress::parse("10.0.0." + std::to_string(last)));
}

class NativeTest : public testing::Test {
 protected:
  NativeTest() {
    fabric_.use(local_);
    fabric_.use(tcp_);
    fabric_.use(roce_);
    roce_.linked.insert(kBlue);
    EXPECT_TRUE(a_.port.bind_gid(ipv4(1)));
    EXPECT_TRUE(b_.port.bind_gid(ipv4(2)));
    set_view();
  }

  void set_view(std::vector<RemoteGid> gids = {}, std::optional<NativeRule> rule = NativeRule{kBlue, {}}) {
    View view;
    view.hosts.push_back({.id = kEsx2, .name = "esx-02", .path = PathKind::kTcp, .reason = "no HCA"});
    view.gids = std::move(gids);
    if (rule) view.natives.push_back(*rule);
    fabric_.set_view(std::move(view));
  }
  // Sends from the port, over a new connection or `end`. Returns the kind of path that the request took.
  PathKind way(Node& from, std::uint8_t source, std::uint8_t destination) {
    End end;
    return way(from, source, destination, end);
  }
  PathKind way(Node& from, std::uint8_t source, std::uint8_t destination, End& end) {
    for (RecordingTransport* each : {&local_, &tcp_, &roce_}) each->deliveries.clear();
    end.send_request(from.port, ipv4(source), ipv4(destination));
    for (RecordingTransport* each : {&local_, &tcp_, &roce_}) {
      if (!each->deliveries.empty()) return each->kind();
    }
    return PathKind::kNone;
  }
  Entry admit(std::uint8_t source, std::uint8_t destination, const Mac& mac) {
    const auto admission = fabric_.admit(kBlue, ipv4(source), ipv4(destination), mac);
    EXPECT_EQ(admission.engine != nullptr, admission.verdict == Entry::kAdmitted);
    return admission.verdict;
  }
  std::uint64_t refused(const Node& node) const {
    return node.port.counters().dropped_for(DropReason::kNativeRefused);
  }
  PathInfo path(Node& from, std::uint8_t to) const {
    return from.port.fabric_switch().path_to(ipv4(to), &from.port);
  }

  static constexpr Mac kMacA{{2, 0, 0, 0, 0, 1}};
  static constexpr Mac kMacB{{2, 0, 0, 0, 0, 2}};

  test::ManualClock clock_;
  RecordingTransport local_{PathKind::kLocal};
  RecordingTransport tcp_{PathKind::kTcp};
  RecordingTransport roce_{PathKind::kRoce};
  Fabric fabric_{clock_};
  Node a_{"VM-01", fabric_.segment(kBlue), {.mac = kMacA, .may_reach_natives = true}};
  Node b_{"VM-02", fabric_.segment(kBlue), {.mac = kMacB}};
};

TEST_F(NativeTest, AGidThatNoPortHoldsIsReachedByRoce) {
  EXPECT_EQ(way(a_, 1, 9), PathKind::kRoce);
  EXPECT_EQ(path(a_, 9).kind, PathKind::kRoce);
  EXPECT_EQ(path(a_, 9).reason, "no port of the cluster holds the GID");
  EXPECT_TRUE(path(a_, 9).peer_host.empty());
}

TEST_F(NativeTest, PeersOfTheClusterKeepTheirPaths) {
  set_view({{kBlue, ipv4(9), kEsx2}});
  EXPECT_EQ(way(a_, 1, 9), PathKind::kTcp);
  EXPECT_EQ(way(a_, 1, 2), PathKind::kLocal);
}

TEST_F(NativeTest, RoceGivesWayWhenThePeersRecordComes) {
  End end;
  EXPECT_EQ(way(a_, 1, 9, end), PathKind::kRoce);
  set_view({{kBlue, ipv4(9), kEsx2}});
  EXPECT_EQ(way(a_, 1, 9, end), PathKind::kTcp);
  set_view();
  ASSERT_TRUE(b_.port.bind_gid(ipv4(9)));
  EXPECT_EQ(way(a_, 1, 9, end), PathKind::kLocal);
}

TEST_F(NativeTest, AGidThatWasJustLetGoIsNobodys) {
  set_view({{kBlue, ipv4(9), kEsx2}});
  set_view();
  EXPECT_EQ(way(a_, 1, 9), PathKind::kNone);
  EXPECT_EQ(path(a_, 9).reason, "the port that held the GID has just unbound it");
  EXPECT_EQ(admit(9, 1, kMacA), Entry::kForeignSource);
  clock_.advance(RemoteDirectory::kLeftFor);
  EXPECT_EQ(path(a_, 9).kind, PathKind::kRoce);
  EXPECT_EQ(admit(9, 1, kMacA), Entry::kAdmitted);
}

TEST_F(NativeTest, WithoutARuleThereAreNone) {
  set_view({}, std::nullopt);
  EXPECT_EQ(way(a_, 1, 9), PathKind::kNone);
  EXPECT_EQ(a_.port.counters().dropped_for(DropReason::kUnknownGid), 1u);
  EXPECT_EQ(admit(9, 1, kMacA), Entry::kNotAllowed);
}

TEST_F(NativeTest, APortNeedsTheRight) {
  EXPECT_EQ(way(b_, 2, 9), PathKind::kNone);
  EXPECT_EQ(refused(b_), 1u);
  EXPECT_NE(path(b_, 9).reason.find("hardware version 18"), std::string::npos);
  EXPECT_EQ(admit(9, 2, kMacB), Entry::kNotAllowed);
}

TEST_F(NativeTest, ARuleMayNameThePeers) {
  set_view({}, NativeRule{kBlue, {*IpNetwork::parse("10.0.0.8/29")}});
  EXPECT_EQ(way(a_, 1, 9), PathKind::kRoce);
  EXPECT_EQ(admit(9, 1, kMacA), Entry::kAdmitted);
  EXPECT_EQ(path(a_, 20).kind, PathKind::kNone);
  EXPECT_EQ(admit(20, 1, kMacA), Entry::kNotAllowed);
}

TEST_F(NativeTest, WithoutALinkThereIsNoWay) {
  roce_.linked.clear();
  EXPECT_EQ(way(a_, 1, 9), PathKind::kNone);
  EXPECT_EQ(a_.port.counters().dropped_for(DropReason::kNoPath), 1u);
  EXPECT_EQ(path(a_, 9).reason, "this host has no RoCE link to the segment's native endpoints");
}

TEST_F(NativeTest, NobodyComesInWithTheNameOfAPort) {
  set_view({{kBlue, ipv4(7), kEsx2}});
  EXPECT_EQ(admit(2, 1, kMacA), Entry::kForeignSource) << "a port here";
  EXPECT_EQ(admit(7, 1, kMacA), Entry::kForeignSource) << "a port of another host";
  EXPECT_EQ(admit(1, 1, kMacA), Entry::kForeignSource) << "its own";
}

TEST_F(NativeTest, WhatIsForAnotherMacOrGidDoesNotComeIn) {
  EXPECT_EQ(admit(9, 1, kMacA), Entry::kAdmitted);
  EXPECT_EQ(admit(9, 1, kMacB), Entry::kUnknownGid);
  EXPECT_EQ(admit(9, 8, kMacA), Entry::kUnknownGid);
}

TEST_F(NativeTest, AnAdapterThatIsOffGetsNothing) {
  a_.port.detach();
  const auto admission = fabric_.admit(kBlue, ipv4(9), ipv4(1), kMacA);
  EXPECT_EQ(admission.verdict, Entry::kAdmitted);
  EXPECT_EQ(admission.engine, nullptr);
}

// Answers to it could not be delivered.
TEST_F(NativeTest, AnAdapterThatIsOffSendsNothing) {
  a_.port.detach();
  EXPECT_EQ(way(a_, 1, 9), PathKind::kNone);
  EXPECT_EQ(a_.port.counters().dropped_for(DropReason::kPortDetached), 1u);
}

}  // namespace
}  // namespace pvrdma::fabric
