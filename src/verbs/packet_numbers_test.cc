// Packet numbers beside message numbers: what QUERY_QP returns, and that both ends agree.
#include "verbs/connected_qp_fixture.h"

namespace pvrdma::verbs {
namespace {

using abi::Opcode;
using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(PacketCount, IsAtLeastOneAndRoundsUp) {
  const struct {
    std::uint32_t bytes;
    abi::Mtu mtu;
    std::uint32_t packets;
  } cases[] = {{0, abi::Mtu::k256, 1},
               {1, abi::Mtu::k1024, 1},
               {1024, abi::Mtu::k1024, 1},
               {1025, abi::Mtu::k1024, 2},
               {4096, abi::Mtu::k256, 16},
               {4097, abi::Mtu::k4096, 2},
               {1u << 30, abi::Mtu::k256, 1u << 22},
               {0xffff'ffff, abi::Mtu::k256, 1u << 24}};
  for (const auto& c : cases) EXPECT_EQ(packet_count(c.bytes, c.mtu), c.packets) << c.bytes;
}

abi::QpAttr query(const TestAdapter& a, const TestQp& qp) {
  return *a.engine.query_qp(qp.handle);
}

class RequesterPsn : public ConnectedQp {};

TEST_F(RequesterPsn, EachMessageCarriesThatOfItsFirstPacket) {
  for (const std::uint32_t bytes : {0u, 8u, 1024u, 1025u, 5000u}) a.post(qp, write(bytes + 1, bytes));
  a.post(qp, read(3, 2049));
  a.post(qp, fetch_add(4));
  a.post(qp, send_wr(5, 1));
  a.ring(qp);
  std::vector<std::uint32_t> psns;
  for (const auto& one : sent()) psns.push_back(one.message.psn.value);
  EXPECT_THAT(psns, ElementsAre(100, 101, 102, 103, 105, 110, 113, 114));
  EXPECT_EQ(query(a, qp).sq_psn, 115u);
}

TEST_F(RequesterPsn, PiecesOfAMessageCarryTheSame) {
  a.wire.bytes_at_once = 1500;
  a.send(qp, write(1, 4096));
  a.send(qp, write(2, 8));
  std::vector<std::pair<std::uint32_t, std::uint32_t>> seen;
  for (const auto& one : sent()) seen.emplace_back(one.message.psn.value, one.message.bytes);
  EXPECT_THAT(seen, ElementsAre(std::pair(100u, 1500u), std::pair(100u, 1500u), std::pair(100u, 1096u),
                                std::pair(104u, 8u)));
}

TEST_F(RequesterPsn, TheQueryTellsWhatIsToBeSentNext) {
  a.wire.bytes_at_once = 2048;
  a.wire.room = 1;
  a.send(qp, write(1, 4096));
  EXPECT_EQ(query(a, qp).sq_psn, 102u) << "two of four packets are out";
  a.wire.room = -1;
  a.engine.on_path_ready();
  a.settle();
  EXPECT_EQ(query(a, qp).sq_psn, 104u);
}

class ResponderPsn : public ConnectedQp {};

TEST_F(ResponderPsn, TheQueryTellsWhatIsExpectedNext) {
  Request piece = request(RequestOp::kWrite, kRqPsn, 4096);
  piece.psn = Psn(kRqPsn);
  piece.bytes = 2500;
  ask_filled(piece);
  EXPECT_EQ(query(a, qp).rq_psn, kRqPsn + 2) << "the third packet is not whole";
  piece.offset = 2500;
  piece.bytes = 1596;
  ask_filled(piece);
  EXPECT_EQ(query(a, qp).rq_psn, kRqPsn + 4);
}

TEST_F(ResponderPsn, TheRequesterCounts) {
  Request write = request(RequestOp::kWrite, kRqPsn, 1024);
  write.psn = Psn(0xff'ffff);  // as a peer with another MTU, or a lying one, would send: it harms only itself
  ask_filled(write);
  EXPECT_EQ(query(a, qp).rq_psn, 0u);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
}

TEST_F(ResponderPsn, AnEarlyMessageChangesNothing) {
  Request write = request(RequestOp::kWrite, kRqPsn + 1, 1024);
  write.psn = Psn(kRqPsn + 50);
  ask_filled(write);
  EXPECT_EQ(query(a, qp).rq_psn, kRqPsn);
}

TEST(PacketNumbers, BothEndsAgreeWhateverWasSent) {
  TestAdapter a{51};
  TestAdapter b{52};
  a.wire.peer = &b.engine;
  b.wire.peer = &a.engine;
  TestCq cq = a.make_cq();
  TestCq peers_cq = b.make_cq();
  const TestMr mr = a.make_mr(1u << 20);
  const TestMr peers_mr = b.make_mr(1u << 20);
  TestQp qp = a.make_qp(cq, cq);
  TestQp peer = b.make_qp(peers_cq, peers_cq);
  constexpr std::uint32_t kFirst = 0xff'fff0;  // wraps
  a.connect(qp, b.endpoint(peer), {.sq_psn = kFirst, .rq_psn = 7, .path_mtu = abi::Mtu::k512});
  b.connect(peer, a.endpoint(qp), {.sq_psn = 7, .rq_psn = kFirst, .path_mtu = abi::Mtu::k512});

  const auto post = [&](Opcode opcode, std::uint32_t bytes) {
    SendWr wr{.wr_id = 1, .opcode = opcode, .remote_addr = peers_mr.start, .rkey = peers_mr.key};
    if (bytes != 0) wr.sges = {mr.sge(0, bytes)};
    a.send(qp, wr);
    a.settle();
  };
  b.receive(peer, {.wr_id = 1, .sges = {peers_mr.sge(0, 4096)}});
  post(Opcode::kRdmaWrite, 700'000);  // 1368 packets, in pieces
  post(Opcode::kSend, 600);           // 2
  post(Opcode::kRdmaRead, 1537);      // 4
  post(Opcode::kAtomicCmpAndSwp, 8);  // 1
  post(Opcode::kRdmaWrite, 0);        // 1
  EXPECT_THAT(a.poll(cq), SizeIs(5));
  const std::uint32_t next = (kFirst + 1376) & Psn::kMask;
  EXPECT_EQ(query(a, qp).sq_psn, next);
  EXPECT_EQ(query(b, peer).rq_psn, next);
  EXPECT_EQ(query(b, peer).sq_psn, 7u);
  EXPECT_EQ(query(a, qp).rq_psn, 7u);
}

}  // namespace
}  // namespace pvrdma::verbs
