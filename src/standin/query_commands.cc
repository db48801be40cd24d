// The uverbs commands that ask about the device and its objects, or change an object.
#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <rdma/ib_user_ioctl_verbs.h>

#include "abi/commands.h"
#include "standin/open_file.h"

namespace pvrdma::standin {
namespace {

constexpr std::uint8_t kLinkLayerEthernet = 2;
// ib_device_cap_flags that Linux's driver adds to the device's.
constexpr std::uint32_t kPortActiveEvent = 1u << 10;
constexpr std::uint32_t kRnrNakGeneration = 1u << 12;
constexpr std::uint32_t kAtomicHca = 1;  // ib_atomic_cap

ib_uverbs_query_device_resp device_attributes(const abi::Caps& caps) {
  const bool atomics = (caps.atomic_ops & (abi::kAtomicCompareSwap | abi::kAtomicFetchAdd)) != 0;
  ib_uverbs_query_device_resp out{};
  out.fw_ver = caps.fw_ver;
  out.node_guid = caps.node_guid.raw;
  out.sys_image_guid = caps.sys_image_guid.raw;
  out.max_mr_size = caps.max_mr_size;
  out.page_size_cap = caps.page_size_cap;
  out.vendor_id = caps.vendor_id;
  out.vendor_part_id = abi::kPciDeviceId;
  out.hw_ver = caps.hw_ver;
  out.max_qp = caps.max_qp;
  out.max_qp_wr = caps.max_qp_wr;
  out.device_cap_flags = caps.device_cap_flags | kPortActiveEvent | kRnrNakGeneration;
  out.max_sge = caps.max_sge;
  out.max_sge_rd = caps.max_sge_rd != 0 ? caps.max_sge_rd : caps.max_sge;
  out.max_cq = caps.max_cq;
  out.max_cqe = caps.max_cqe;
  out.max_mr = caps.max_mr;
  out.max_pd = caps.max_pd;
  out.max_qp_rd_atom = caps.max_qp_rd_atom;
  out.max_qp_init_rd_atom = caps.max_qp_init_rd_atom;
  out.atomic_cap = atomics ? kAtomicHca : 0;
  out.max_ah = caps.max_ah;
  out.max_srq = caps.max_srq;
  out.max_srq_wr = caps.max_srq_wr;
  out.max_srq_sge = caps.max_srq_sge;
  out.max_pkeys = caps.max_pkeys;
  out.local_ca_ack_delay = caps.local_ca_ack_delay;
  out.phys_port_cnt = caps.phys_port_cnt;
  return out;
}

abi::AhAttr route_of(const ib_uverbs_qp_dest& dest, const abi::Mac& next_hop) {
  abi::AhAttr ah{};
  std::copy_n(dest.dgid, ah.grh.dgid.raw.size(), ah.grh.dgid.raw.begin());
  ah.grh.flow_label = dest.flow_label;
  ah.grh.sgid_index = dest.sgid_index;
  ah.grh.hop_limit = dest.hop_limit;
  ah.grh.traffic_class = dest.traffic_class;
  ah.dlid = dest.dlid;
  ah.sl = dest.sl;
  ah.src_path_bits = dest.src_path_bits;
  ah.static_rate = dest.static_rate;
  ah.ah_flags = dest.is_global != 0 ? abi::kAhGrh : 0;
  ah.port_num = dest.port_num;
  ah.dmac = next_hop;
  return ah;
}

ib_uverbs_qp_dest dest_of(const abi::AhAttr& ah) {
  ib_uverbs_qp_dest dest{};
  std::copy(ah.grh.dgid.raw.begin(), ah.grh.dgid.raw.end(), dest.dgid);
  dest.flow_label = ah.grh.flow_label;
  dest.dlid = ah.dlid;
  dest.sgid_index = ah.grh.sgid_index;
  dest.hop_limit = ah.grh.hop_limit;
  dest.traffic_class = ah.grh.traffic_class;
  dest.sl = ah.sl;
  dest.src_path_bits = ah.src_path_bits;
  dest.static_rate = ah.static_rate;
  dest.is_global = (ah.ah_flags & abi::kAhGrh) != 0 ? 1 : 0;
  dest.port_num = ah.port_num;
  return dest;
}

}  // namespace

Result<> OpenFile::query_device(const UverbsCommand& command, UverbsAnswer& answer) {
  ib_uverbs_query_device request;
  if (!command.read(request)) return too_short();
  answer.response_address = request.response;
  answer.put(command, device_attributes(adapter_.device().caps()));
  return {};
}

Result<> OpenFile::query_device_extended(const UverbsCommand& command, UverbsAnswer& answer) {
  ib_uverbs_ex_query_device request;
  if (!command.read(request)) return too_short();
  if (request.comp_mask != 0 || request.reserved != 0)
    return fail(EINVAL, "extended QUERY_DEVICE with a mask that is not 0");
  if (command.response_room_bytes < offsetof(ib_uverbs_ex_query_device_resp, odp_caps))
    return fail(ENOSPC, "extended QUERY_DEVICE with no room for the response");
  ib_uverbs_ex_query_device_resp out{};
  out.base = device_attributes(adapter_.device().caps());
  out.response_length =
      static_cast<std::uint32_t>(std::min<std::size_t>(sizeof(out), command.response_room_bytes));
  out.device_cap_flags_ex = out.base.device_cap_flags;
  answer.response_address = command.response_address;
  answer.put(command, out);
  return {};
}

Result<> OpenFile::query_port(const UverbsCommand& command, UverbsAnswer& answer) {
  ib_uverbs_query_port request;
  if (!command.read(request)) return too_short();
  if (request.port_num != kPort) return fail(EINVAL, fmt::format("there is no port {}", request.port_num));
  const auto port = adapter_.device().query_port(kPort);
  if (!port) return Failure(port.error());
  ib_uverbs_query_port_resp out{};
  out.port_cap_flags = port->port_cap_flags | IB_UVERBS_PCF_CM_SUP | IB_UVERBS_PCF_IP_BASED_GIDS;
  out.max_msg_sz = port->max_msg_sz;
  out.bad_pkey_cntr = port->bad_pkey_cntr;
  out.qkey_viol_cntr = port->qkey_viol_cntr;
  out.gid_tbl_len = port->gid_tbl_len;
  out.pkey_tbl_len = port->pkey_tbl_len;
  out.lid = port->lid;
  out.sm_lid = port->sm_lid;
  out.state = static_cast<std::uint8_t>(port->state);
  out.max_mtu = static_cast<std::uint8_t>(port->max_mtu);
  out.active_mtu = static_cast<std::uint8_t>(port->active_mtu);
  out.lmc = port->lmc;
  out.max_vl_num = port->max_vl_num;
  out.sm_sl = port->sm_sl;
  out.subnet_timeout = port->subnet_timeout;
  out.init_type_reply = port->init_type_reply;
  out.active_width = port->active_width;
  out.active_speed = port->active_speed;
  out.phys_state = port->phys_state;
  out.link_layer = kLinkLayerEthernet;
  out.flags = IB_UVERBS_QPF_GRH_REQUIRED;
  answer.response_address = request.response;
  answer.put(command, out);
  return {};
}

Result<> OpenFile::query_srq(const UverbsCommand& command, UverbsAnswer& answer) {
  ib_uverbs_query_srq request;
  if (!command.read(request)) return too_short();
  if (!srqs_.contains(request.srq_handle)) return no_such("SRQ", request.srq_handle);
  const auto asked = commands().call<abi::QuerySrqResponse>(
      abi::Command::kQuerySrq, abi::QuerySrqRequest{.srq_handle = request.srq_handle});
  if (!asked) return Failure(asked.error());
  answer.response_address = request.response;
  answer.put(command, ib_uverbs_query_srq_resp{.max_wr = asked->attrs.max_wr,
                                               .max_sge = asked->attrs.max_sge,
                                               .srq_limit = asked->attrs.srq_limit,
                                               .reserved = 0});
  return {};
}

Result<> OpenFile::modify_srq(const UverbsCommand& command) {
  ib_uverbs_modify_srq request;
  if (!command.read(request)) return too_short();
  if (!srqs_.contains(request.srq_handle)) return no_such("SRQ", request.srq_handle);
  if (request.attr_mask != abi::kSrqAttrLimit)
    return fail(EINVAL,
                fmt::format("MODIFY_SRQ with mask {:#x}: only the limit can change", request.attr_mask));
  return commands().run(abi::Command::kModifySrq,
                        abi::ModifySrqRequest{.srq_handle = request.srq_handle,
                                              .attr_mask = request.attr_mask,
                                              .attrs = {.srq_limit = request.srq_limit}});
}

Result<> OpenFile::query_qp(const UverbsCommand& command, UverbsAnswer& answer) {
  ib_uverbs_query_qp request;
  if (!command.read(request)) return too_short();
  const auto qp = qps_.find(request.qp_handle);
  if (qp == qps_.end()) return no_such("QP", request.qp_handle);
  const auto asked = commands().call<abi::QueryQpResponse>(
      abi::Command::kQueryQp,
      abi::QueryQpRequest{.qp_handle = request.qp_handle, .attr_mask = request.attr_mask});
  if (!asked) return Failure(asked.error());
  const abi::QpAttr& attributes = asked->attrs;
  ib_uverbs_query_qp_resp out{};
  out.dest = dest_of(attributes.ah_attr);
  out.alt_dest = dest_of(attributes.alt_ah_attr);
  out.max_send_wr = qp->second.cap.max_send_wr;
  out.max_recv_wr = qp->second.cap.max_recv_wr;
  out.max_send_sge = qp->second.cap.max_send_sge;
  out.max_recv_sge = qp->second.cap.max_recv_sge;
  out.max_inline_data = qp->second.cap.max_inline_data;
  out.qkey = attributes.qkey;
  out.rq_psn = attributes.rq_psn;
  out.sq_psn = attributes.sq_psn;
  out.dest_qp_num = attributes.dest_qp_num;
  out.qp_access_flags = attributes.qp_access_flags;
  out.pkey_index = attributes.pkey_index;
  out.alt_pkey_index = attributes.alt_pkey_index;
  out.qp_state = static_cast<std::uint8_t>(attributes.qp_state);
  out.cur_qp_state = static_cast<std::uint8_t>(attributes.cur_qp_state);
  out.path_mtu = static_cast<std::uint8_t>(attributes.path_mtu);
  out.path_mig_state = static_cast<std::uint8_t>(attributes.path_mig_state);
  out.sq_draining = attributes.sq_draining;
  out.max_rd_atomic = attributes.max_rd_atomic;
  out.max_dest_rd_atomic = attributes.max_dest_rd_atomic;
  out.min_rnr_timer = attributes.min_rnr_timer;
  out.port_num = attributes.port_num;
  out.timeout = attributes.timeout;
  out.retry_cnt = attributes.retry_cnt;
  out.rnr_retry = attributes.rnr_retry;
  out.alt_port_num = attributes.alt_port_num;
  out.alt_timeout = attributes.alt_timeout;
  out.sq_sig_all = qp->second.signals_all ? 1 : 0;
  answer.response_address = request.response;
  answer.put(command, out);
  return {};
}

Result<> OpenFile::modify_qp(const UverbsCommand& command) {
  ib_uverbs_modify_qp request;
  if (!command.read(request)) return too_short();
  if (!qps_.contains(request.qp_handle)) return no_such("QP", request.qp_handle);
  if ((request.attr_mask & abi::kQpAttrPort) != 0 && request.port_num != kPort)
    return fail(EINVAL, fmt::format("there is no port {}", request.port_num));
  if ((request.attr_mask & abi::kQpAttrAv) != 0 && request.dest.port_num != kPort)
    return fail(EINVAL, fmt::format("there is no port {}", request.dest.port_num));
  abi::QpAttr attributes{};
  attributes.qp_state = request.qp_state;
  attributes.cur_qp_state = request.cur_qp_state;
  attributes.path_mtu = request.path_mtu;
  attributes.path_mig_state = request.path_mig_state;
  attributes.qkey = request.qkey;
  attributes.rq_psn = request.rq_psn;
  attributes.sq_psn = request.sq_psn;
  attributes.dest_qp_num = request.dest_qp_num;
  attributes.qp_access_flags = request.qp_access_flags;
  attributes.pkey_index = request.pkey_index;
  attributes.alt_pkey_index = request.alt_pkey_index;
  attributes.en_sqd_async_notify = request.en_sqd_async_notify;
  attributes.max_rd_atomic = request.max_rd_atomic;
  attributes.max_dest_rd_atomic = request.max_dest_rd_atomic;
  attributes.min_rnr_timer = request.min_rnr_timer;
  attributes.port_num = request.port_num;
  attributes.timeout = request.timeout;
  attributes.retry_cnt = request.retry_cnt;
  attributes.rnr_retry = request.rnr_retry;
  attributes.alt_port_num = request.alt_port_num;
  attributes.alt_timeout = request.alt_timeout;
  if ((request.attr_mask & abi::kQpAttrAv) != 0) {
    abi::Gid dgid;
    std::copy_n(request.dest.dgid, dgid.raw.size(), dgid.raw.begin());
    const Neighbors::Found next_hop = adapter_.neighbors().find(dgid, Instant::now());
    if (next_hop.is_asked) return fail(EAGAIN, "the network is asked for the peer's MAC address");
    attributes.ah_attr = route_of(request.dest, next_hop.mac);
  }
  attributes.alt_ah_attr = route_of(request.alt_dest, {});  // the device has no alternate paths
  const auto done = commands().call<abi::ModifyQpResponse>(
      abi::Command::kModifyQp,
      abi::ModifyQpRequest{
          .qp_handle = request.qp_handle, .attr_mask = request.attr_mask, .attrs = attributes});
  if (!done) return Failure(done.error());
  return {};
}

}  // namespace pvrdma::standin
