#include "verbs/engine_fixture.h"

#include <cstring>

namespace pvrdma::verbs {
namespace {

constexpr guestmem::RingShape shape(guestmem::RingRole role, guestmem::RingWords words,
                                    std::uint32_t first_page, std::uint32_t count, std::uint32_t stride) {
  return {
      .role = role, .words = words, .first_page = first_page, .element_count = count, .stride_bytes = stride};
}

std::uint32_t pages_of(const guestmem::RingShape& ring) {
  return static_cast<std::uint32_t>(ring.data_pages());
}

template <typename Header>
std::vector<std::byte> wqe(const Header& header, const std::vector<abi::Sge>& sges) {
  std::vector<std::byte> out(sizeof header + sges.size() * sizeof(abi::Sge));
  std::memcpy(out.data(), &header, sizeof header);
  if (!sges.empty()) std::memcpy(out.data() + sizeof header, sges.data(), sges.size() * sizeof(abi::Sge));
  return out;
}

}  // namespace

TestCq TestAdapter::make_cq(std::uint32_t cqe_count) {
  const auto ring =
      shape(guestmem::RingRole::kProducer, guestmem::RingWords::kRx, 1, cqe_count, sizeof(abi::Cqe));
  const auto object = memory.object(1 + pages_of(ring));
  const auto cq = engine.create_cq({.context = ContextHandle(uar),
                                    .cqe_count = cqe_count,
                                    .page_count = object.page_count(),
                                    .page_directory = object.directory});
  EXPECT_TRUE(cq);
  return {*cq, test::RingPeer(memory, object.pages, ring)};
}

TestMr TestAdapter::make_mr(std::uint64_t bytes, std::uint32_t access) {
  constexpr std::uint64_t kStart = 0x7f00'1234'5040;  // inside a page, aligned for atomics
  const auto page_count = static_cast<std::uint32_t>(*guestmem::pages_spanned(kStart, bytes));
  const auto object = memory.object(page_count);
  const auto mr = engine.create_mr({.kind = MrKind::kUser,
                                    .pd = pd,
                                    .start = kStart,
                                    .length = bytes,
                                    .access_flags = access,
                                    .page_count = page_count,
                                    .page_directory = object.directory});
  EXPECT_TRUE(mr);
  return {mr->key, mr->handle, kStart, object.pages};
}

TestSrq TestAdapter::make_srq(std::uint32_t max_wr, std::uint32_t limit) {
  const auto ring = shape(guestmem::RingRole::kConsumer, guestmem::RingWords::kRx, 1, max_wr, 64);
  const auto object = memory.object(1 + pages_of(ring));
  const auto srq = engine.create_srq({.pd = pd,
                                      .context = ContextHandle(uar),
                                      .max_wr = max_wr,
                                      .max_sge = 3,
                                      .limit = limit,
                                      .page_count = object.page_count(),
                                      .page_directory = object.directory});
  EXPECT_TRUE(srq);
  return {*srq, test::RingPeer(memory, object.pages, ring)};
}

TestQp TestAdapter::make_qp(const TestCq& send_cq, const TestCq& recv_cq, const QpOptions& options) {
  const auto sends = shape(guestmem::RingRole::kConsumer, guestmem::RingWords::kTx, 1, options.max_send_wr,
                           *abi::send_wqe_stride(options.max_send_sge));
  const auto receives = shape(guestmem::RingRole::kConsumer, guestmem::RingWords::kRx, 1 + pages_of(sends),
                              options.max_recv_wr, *abi::recv_wqe_stride(options.max_recv_sge));
  const auto object = memory.object(1 + pages_of(sends) + (options.srq != nullptr ? 0 : pages_of(receives)));
  const auto qp = engine.create_qp({.pd = pd,
                                    .send_cq = send_cq.handle,
                                    .recv_cq = recv_cq.handle,
                                    .has_srq = options.srq != nullptr,
                                    .srq = options.srq != nullptr ? options.srq->handle : SrqHandle(),
                                    .type = options.type,
                                    .max_send_wr = options.max_send_wr,
                                    .max_recv_wr = options.srq != nullptr ? 0 : options.max_recv_wr,
                                    .max_send_sge = options.max_send_sge,
                                    .max_recv_sge = options.max_recv_sge,
                                    .signal_all = options.signal_all,
                                    .total_pages = object.page_count(),
                                    .send_pages = pages_of(sends),
                                    .page_directory = object.directory});
  EXPECT_TRUE(qp);
  return {qp->handle,
          qp->qpn,
          uar,
          test::RingPeer(memory, object.pages, sends),
          test::RingPeer(memory, object.pages, receives),
          object.pages};
}

void TestAdapter::to_init(const TestQp& qp, const ConnectOptions& connection) {
  abi::QpAttr attr{};
  attr.port_num = 1;
  attr.qp_access_flags = connection.access;
  EXPECT_TRUE(to_state(qp, abi::QpState::kInit,
                       abi::kQpAttrPkeyIndex | abi::kQpAttrPort | abi::kQpAttrAccessFlags, attr));
}

void TestAdapter::to_rtr(const TestQp& qp, const Endpoint& peer, const ConnectOptions& connection) {
  EXPECT_TRUE(try_rtr(qp, peer, connection));
}

Outcome<> TestAdapter::try_rtr(const TestQp& qp, const Endpoint& peer, const ConnectOptions& connection) {
  abi::QpAttr attr{};
  attr.path_mtu = static_cast<std::uint32_t>(connection.path_mtu);
  attr.dest_qp_num = peer.qpn.value;
  attr.rq_psn = connection.rq_psn;
  attr.max_dest_rd_atomic = connection.max_dest_rd_atomic;
  attr.min_rnr_timer = connection.min_rnr_timer;
  attr.ah_attr.ah_flags = abi::kAhGrh;
  attr.ah_attr.grh.dgid.raw = peer.gid.bytes;
  return to_state(qp, abi::QpState::kRtr,
                  abi::kQpAttrAv | abi::kQpAttrPathMtu | abi::kQpAttrDestQpn | abi::kQpAttrRqPsn |
                      abi::kQpAttrMaxDestRdAtomic | abi::kQpAttrMinRnrTimer,
                  attr);
}

void TestAdapter::to_rts(const TestQp& qp, const ConnectOptions& connection) {
  abi::QpAttr attr{};
  attr.timeout = connection.timeout;
  attr.retry_cnt = connection.retry_cnt;
  attr.rnr_retry = connection.rnr_retry;
  attr.sq_psn = connection.sq_psn;
  attr.max_rd_atomic = connection.max_rd_atomic;
  EXPECT_TRUE(to_state(qp, abi::QpState::kRts,
                       abi::kQpAttrTimeout | abi::kQpAttrRetryCnt | abi::kQpAttrRnrRetry | abi::kQpAttrSqPsn |
                           abi::kQpAttrMaxQpRdAtomic,
                       attr));
}

void TestAdapter::post(TestQp& qp, const SendWr& wr) {
  abi::SendWqeHeader header{};
  header.wr_id = wr.wr_id;
  header.num_sge = static_cast<std::uint32_t>(wr.sges.size());
  header.opcode = static_cast<std::uint32_t>(wr.opcode);
  header.send_flags = wr.flags;
  header.ex.raw = wr.extra;
  if (wr.ud) {
    header.set_form(*wr.ud);
  } else if (wr.fast_register) {
    header.set_form(*wr.fast_register);
  } else if (wr.opcode == abi::Opcode::kAtomicCmpAndSwp || wr.opcode == abi::Opcode::kAtomicFetchAndAdd) {
    header.set_form(abi::AtomicFields{wr.remote_addr, wr.compare_add, wr.swap, wr.rkey, 0});
  } else {
    header.set_form(abi::RdmaFields{wr.remote_addr, wr.rkey, 0});
  }
  qp.sends.post(wqe(header, wr.sges));
}

void TestAdapter::post_receive(test::RingPeer& ring, const ReceiveWr& wr) {
  ring.post(wqe(abi::RecvWqeHeader{wr.wr_id, static_cast<std::uint32_t>(wr.sges.size()), 0}, wr.sges));
}

}  // namespace pvrdma::verbs
