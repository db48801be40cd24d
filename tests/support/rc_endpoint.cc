#include "support/rc_endpoint.h"

#include "support/must.h"

namespace pvrdma::test {
namespace {

std::unique_ptr<driver::ProtectionDomain> make_pd(driver::Device& device, const EndpointOptions& options) {
  if (options.pd != nullptr) return nullptr;
  return must(
      driver::ProtectionDomain::create(options.context != nullptr ? *options.context : device.kernel()));
}

std::byte pattern(std::size_t i, std::uint8_t seed) {
  return static_cast<std::byte>(i * 7 + (i >> 8) + seed);
}

}  // namespace

abi::Gid gid_of(std::uint32_t index) {
  return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 11, static_cast<std::uint8_t>(51 + index)}};
}

abi::Mac mac_of(const abi::Gid& gid) {
  return {{0x02, 0, 0, 0, 0, static_cast<std::uint8_t>(gid.raw[15] - 50)}};
}

EndpointOptions small_endpoint(driver::Context& context) {
  EndpointOptions options;
  options.context = &context;
  options.cq_entries = 16;
  options.max_send_wr = options.max_recv_wr = 8;
  options.max_send_sge = options.max_recv_sge = 1;
  return options;
}

RcEndpoint::RcEndpoint(driver::Device& on, const abi::Gid& own_gid, const EndpointOptions& options,
                       std::uint8_t own_sgid_index)
    : device(on),
      gid(own_gid),
      sgid_index(own_sgid_index),
      own_pd(make_pd(on, options)),
      pd(options.pd != nullptr ? *options.pd : *own_pd),
      send_cq(must(driver::CompletionQueue::create(pd.context(), options.cq_entries))),
      recv_cq(must(driver::CompletionQueue::create(pd.context(), options.cq_entries))),
      buffer(must(on.ram().allocate(options.buffer_bytes, options.placement))),
      mr(must(driver::MemoryRegion::of_buffer(pd, *buffer, options.mr_access))),
      qp(must(driver::QueuePair::create(pd, {.type = abi::QpType::kRc,
                                             .send_cq = send_cq.get(),
                                             .recv_cq = recv_cq.get(),
                                             .srq = options.srq,
                                             .max_send_wr = options.max_send_wr,
                                             .max_recv_wr = options.max_recv_wr,
                                             .max_send_sge = options.max_send_sge,
                                             .max_recv_sge = options.max_recv_sge,
                                             .signaling = options.signaling}))) {}

Result<> RcEndpoint::connect_to(const abi::Gid& peer_gid, std::uint32_t qpn, const ConnectOptions& options) {
  if (auto done = qp->to_init({.access = options.access}); !done) return done;
  if (auto done = qp->to_rtr({.dest_qpn = qpn,
                              .route = {.dgid = peer_gid, .sgid_index = sgid_index, .dmac = mac_of(peer_gid)},
                              .rq_psn = options.first_psn,
                              .path_mtu = options.path_mtu,
                              .max_dest_rd_atomic = options.max_dest_rd_atomic,
                              .min_rnr_timer = options.min_rnr_timer});
      !done) {
    return done;
  }
  return qp->to_rts(driver::RtsAttributes{.sq_psn = options.first_psn,
                                          .timeout = options.timeout,
                                          .retry_cnt = options.retry_cnt,
                                          .rnr_retry = options.rnr_retry,
                                          .max_rd_atomic = options.max_rd_atomic});
}

void RcEndpoint::fill(std::size_t offset, std::size_t count, std::uint8_t seed) const {
  for (std::size_t i = 0; i < count; ++i) bytes(offset)[i] = pattern(i, seed);
}

bool RcEndpoint::holds(std::size_t offset, std::size_t count, std::uint8_t seed) const {
  for (std::size_t i = 0; i < count; ++i) {
    if (bytes(offset)[i] != pattern(i, seed)) return false;
  }
  return true;
}

driver::Posted RcEndpoint::recv(std::uint64_t wr_id, std::size_t offset, std::uint32_t count) {
  const driver::Sge element = sge(offset, count);
  return qp->post_recv(driver::ReceiveRequest{wr_id, std::span(&element, count == 0 ? 0 : 1)});
}

Result<> connect(RcEndpoint& a, RcEndpoint& b, const ConnectOptions& options) {
  if (auto done = a.connect_to(b.gid, b.qp->qpn(), options); !done) return done;
  return b.connect_to(a.gid, a.qp->qpn(), options);
}

}  // namespace pvrdma::test
