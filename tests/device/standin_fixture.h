// A stand-in that serves an adapter of a ServedHost, with programs that speak its protocol.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <sys/eventfd.h>
#include <thread>

#include "abi/cqe.h"
#include "abi/ring.h"
#include "driver/posting.h"
#include "driver/work_request.h"
#include "standin/standin.h"
#include "support/served_host.h"
#include "support/wire_client.h"

namespace pvrdma::test {

class RunningStandIn {
 public:
  explicit RunningStandIn(const std::string& socket, std::optional<Duration> idle_end = std::nullopt)
      : folder_("/tmp/pvrdma-standin-XXXXXX") {
    if (::mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("no folder");
    standin_ = must(standin::StandIn::create({.socket = socket,
                                              .folder = folder_,
                                              .addresses = {must(IpAddress::parse("10.99.0.1"))},
                                              .group = {},
                                              .idle_end = idle_end}));
    thread_ = std::thread([this] { end_ = standin_->run(stop_.get()); });
  }
  ~RunningStandIn() {
    stop();
    standin_.reset();
    std::filesystem::remove_all(folder_);
  }

  const std::string& folder() const { return folder_; }
  // Waits for the loop's end.
  standin::End join() {
    if (thread_.joinable()) thread_.join();
    return end_;
  }
  standin::End stop() {
    const std::uint64_t one = 1;
    (void)!::write(stop_.get(), &one, sizeof(one));
    return join();
  }

 private:
  std::string folder_;
  Fd stop_{::eventfd(0, EFD_CLOEXEC)};
  std::unique_ptr<standin::StandIn> standin_;
  std::thread thread_;
  standin::End end_{};
};

// A program with one uverbs file, a context, a PD and a memory window.
class Program {
 public:
  explicit Program(const std::string& folder, std::size_t memory_bytes = 1 << 20)
      : wire(folder), memory(memory_bytes) {
    EXPECT_EQ(wire.hello().header.error, 0);
    file = wire.open_file();
    auto context = wire.command(file, IB_USER_VERBS_CMD_GET_CONTEXT, response_only<ib_uverbs_get_context>());
    EXPECT_EQ(context.header.error, 0);
    async = std::move(context.fds.at(0));
    doorbells_at = context.header.value;
    if (context.fds.size() > 1) doorbells = std::move(context.fds[1]);
    EXPECT_EQ(wire.add_window(memory.fd(), 0, memory_bytes).header.value, 0u);
    pd = wire.command(file, IB_USER_VERBS_CMD_ALLOC_PD, response_only<ib_uverbs_alloc_pd>())
             .as<ib_uverbs_alloc_pd_resp>()
             .pd_handle;
  }

  template <typename T>
  static T response_only() {
    T request{};
    request.response = WireClient::kResponseAddress;
    return request;
  }

  struct Cq {
    std::uint32_t handle;
    ProgramMemory::Piece pages;
  };
  static constexpr std::uint32_t kEntries = 16;

  WireClient::Reply try_create_cq(const ProgramMemory::Piece& pages, std::int32_t channel,
                                  std::uint64_t user_handle, std::uint32_t entries = kEntries) const {
    auto request = response_only<ib_uverbs_create_cq>();
    request.user_handle = user_handle;
    request.cqe = entries;
    request.comp_channel = channel;
    const pvrdma_create_cq buffer{.buf_addr = pages.address(), .buf_size = pages.bytes, .reserved = 0};
    return wire.command(file, IB_USER_VERBS_CMD_CREATE_CQ, request, std::span(&pages.run, 1), buffer);
  }
  Cq create_cq(std::int32_t channel = -1, std::uint64_t user_handle = 0xc0) {
    const auto pages = memory.take(2);
    const auto reply = try_create_cq(pages, channel, user_handle);
    EXPECT_EQ(reply.header.error, 0);
    return {reply.as<ib_uverbs_create_cq_resp>().cq_handle, pages};
  }

  // Takes a completion, if there is one.
  std::optional<abi::Cqe> poll(const Cq& cq) const {
    const driver::ConsumerRing ring(driver::RingState(cq.pages.data + offsetof(abi::RingState, rx)),
                                    cq.pages.data + abi::kPageBytes, kEntries, sizeof(abi::Cqe));
    const std::byte* element = nullptr;
    if (ring.front(element) != driver::RingStatus::kReady) return std::nullopt;
    abi::Cqe cqe;
    std::memcpy(&cqe, element, sizeof(cqe));
    ring.consume();
    return cqe;
  }

  struct Qp {
    std::uint32_t handle;
    std::uint32_t qpn;
    ProgramMemory::Piece send;
  };
  WireClient::Reply try_create_qp(const ProgramMemory::Piece& send, const ProgramMemory::Piece& recv,
                                  std::uint32_t cq, std::uint32_t pd_handle) const {
    auto request = response_only<ib_uverbs_create_qp>();
    request.user_handle = 0x99;
    request.pd_handle = pd_handle;
    request.send_cq_handle = request.recv_cq_handle = cq;
    request.max_send_wr = request.max_recv_wr = kEntries;
    request.max_send_sge = request.max_recv_sge = 1;
    request.max_inline_data = 64;
    request.qp_type = static_cast<std::uint8_t>(abi::QpType::kRc);
    const pvrdma_create_qp buffers{.rbuf_addr = recv.address(),
                                   .sbuf_addr = send.address(),
                                   .rbuf_size = recv.bytes,
                                   .sbuf_size = send.bytes,
                                   .qp_addr = 0};
    const std::array runs{send.run, recv.run};
    return wire.command(file, IB_USER_VERBS_CMD_CREATE_QP, request, runs, buffers);
  }
  Qp create_qp(std::uint32_t cq) {
    const auto send = memory.take(2);
    const auto recv = memory.take(1);
    const auto reply = try_create_qp(send, recv, cq, pd);
    EXPECT_EQ(reply.header.error, 0);
    const auto made = reply.as<ib_uverbs_create_qp_resp>();
    return {made.qp_handle, made.qpn, send};
  }

  WireClient::Reply try_reg_mr(const ProgramMemory::Piece& pages, std::uint32_t access,
                               std::span<const pvrdma_wire_run> runs) const {
    auto request = response_only<ib_uverbs_reg_mr>();
    request.start = request.hca_va = pages.address();
    request.length = pages.bytes;
    request.pd_handle = pd;
    request.access_flags = access;
    return wire.command(file, IB_USER_VERBS_CMD_REG_MR, request, runs);
  }
  static constexpr std::uint32_t kAllAccess =
      abi::kAccessLocalWrite | abi::kAccessRemoteWrite | abi::kAccessRemoteRead;
  ib_uverbs_reg_mr_resp reg_mr(const ProgramMemory::Piece& pages) const {
    const auto reply = try_reg_mr(pages, kAllAccess, std::span(&pages.run, 1));
    EXPECT_EQ(reply.header.error, 0);
    return reply.as<ib_uverbs_reg_mr_resp>();
  }

  // INIT, RTR, RTS towards `peer` on the adapter with the GID `dgid`.
  void connect(const Qp& qp, const Qp& peer, const abi::Gid& dgid) const {
    ib_uverbs_modify_qp init{};
    init.qp_handle = qp.handle;
    init.attr_mask = abi::kQpAttrState | abi::kQpAttrPkeyIndex | abi::kQpAttrPort | abi::kQpAttrAccessFlags;
    init.qp_state = static_cast<std::uint8_t>(abi::QpState::kInit);
    init.port_num = 1;
    init.qp_access_flags = kAllAccess;
    EXPECT_EQ(wire.command(file, IB_USER_VERBS_CMD_MODIFY_QP, init).header.error, 0);
    ib_uverbs_modify_qp rtr{};
    rtr.qp_handle = qp.handle;
    rtr.attr_mask = abi::kQpAttrState | abi::kQpAttrAv | abi::kQpAttrPathMtu | abi::kQpAttrDestQpn |
                    abi::kQpAttrRqPsn | abi::kQpAttrMaxDestRdAtomic | abi::kQpAttrMinRnrTimer;
    rtr.qp_state = static_cast<std::uint8_t>(abi::QpState::kRtr);
    rtr.path_mtu = static_cast<std::uint8_t>(abi::Mtu::k1024);
    rtr.dest_qp_num = peer.qpn;
    rtr.max_dest_rd_atomic = 1;
    std::copy(dgid.raw.begin(), dgid.raw.end(), rtr.dest.dgid);
    rtr.dest.sgid_index = 1;
    rtr.dest.hop_limit = 64;
    rtr.dest.is_global = 1;
    rtr.dest.port_num = 1;
    EXPECT_EQ(wire.command(file, IB_USER_VERBS_CMD_MODIFY_QP, rtr).header.error, 0);
    ib_uverbs_modify_qp rts{};
    rts.qp_handle = qp.handle;
    rts.attr_mask = abi::kQpAttrState | abi::kQpAttrTimeout | abi::kQpAttrRetryCnt | abi::kQpAttrRnrRetry |
                    abi::kQpAttrSqPsn | abi::kQpAttrMaxQpRdAtomic;
    rts.qp_state = static_cast<std::uint8_t>(abi::QpState::kRts);
    rts.timeout = 14;
    rts.retry_cnt = rts.rnr_retry = 7;
    rts.max_rd_atomic = 1;
    EXPECT_EQ(wire.command(file, IB_USER_VERBS_CMD_MODIFY_QP, rts).header.error, 0);
  }

  // Queues a request without a doorbell.
  void put(const Qp& qp, const driver::SendRequest& request) const {
    const driver::WorkRing ring(driver::RingState(qp.send.data + offsetof(abi::RingState, tx)),
                                qp.send.data + abi::kPageBytes, kEntries, *abi::send_wqe_stride(1));
    EXPECT_EQ(driver::put(ring, 1, request), driver::PostStatus::kOk);
  }

  WireClient wire;
  ProgramMemory memory;
  std::uint32_t file = 0;
  Fd async;
  Fd doorbells;  // empty: trapped
  std::uint64_t doorbells_at = 0;
  std::uint32_t pd = 0;
};

// The next event, or nothing if there is none within `timeout_ms`.
template <typename Event>
std::optional<Event> next_event(const Fd& channel, int timeout_ms = 10'000) {
  pollfd waiting{channel.get(), POLLIN, 0};
  Event event{};
  if (::poll(&waiting, 1, timeout_ms) != 1) return std::nullopt;
  if (::read(channel.get(), &event, sizeof(event)) != sizeof(event)) return std::nullopt;
  return event;
}

// A host with one adapter and its stand-in, for each kind of doorbells.
class StandInTest : public ::testing::TestWithParam<DoorbellMode> {
 protected:
  StandInTest() : host_({.adapter_count = 1, .doorbells = GetParam()}), standin_(host_.socket_path(0)) {}

  const abi::Gid gid_ = standin::gid_of(must(IpAddress::parse("10.99.0.1")));
  ServedHost host_;
  RunningStandIn standin_;
};

inline std::string doorbells_name(const ::testing::TestParamInfo<DoorbellMode>& mode) {
  return mode.param == DoorbellMode::kMapped ? "Mapped" : "Trapped";
}

}  // namespace pvrdma::test
