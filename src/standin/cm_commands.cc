// The commands of rdma_cm files on ids.
#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>

#include "base/mapped_address.h"
#include "standin/cm_file.h"

namespace pvrdma::standin {
namespace {

constexpr std::uint8_t kVendorOption = 35;  // a reason of a REJ that programs may give, too

Failure too_short() {
  return fail(EINVAL, "the command is shorter than its struct");
}

std::optional<cm::PortSpace> space_of(const rdma_ucm_create_id& request) {
  if (request.ps == RDMA_PS_TCP && request.qp_type == IBV_QPT_RC) return cm::PortSpace::kTcp;
  if (request.ps == RDMA_PS_UDP && request.qp_type == IBV_QPT_UD) return cm::PortSpace::kUdp;
  return std::nullopt;
}

// Nothing: neither IPv4 nor IPv6.
std::optional<cm::Endpoint> endpoint_of(const sockaddr_in6& address) {
  cm::Endpoint endpoint;
  endpoint.port = ntohs(address.sin6_port);
  if (address.sin6_family == AF_INET6) {
    std::copy_n(address.sin6_addr.s6_addr, endpoint.ip.size(), endpoint.ip.begin());
    return endpoint;
  }
  if (address.sin6_family != AF_INET) return std::nullopt;
  sockaddr_in v4;
  std::memcpy(&v4, &address, sizeof(v4));
  if (v4.sin_addr.s_addr == INADDR_ANY) return endpoint;
  endpoint.ip = mapped_ipv4(&v4.sin_addr);
  return endpoint;
}

sockaddr_in6 address_of(const cm::Endpoint& endpoint, std::uint32_t scope_id) {
  sockaddr_in6 address{};
  if (!is_mapped(endpoint.ip) && endpoint.ip != cm::Gid{}) {
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(endpoint.port);
    std::copy(endpoint.ip.begin(), endpoint.ip.end(), address.sin6_addr.s6_addr);
    if (is_link_local(endpoint.ip)) address.sin6_scope_id = scope_id;
    return address;
  }
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(endpoint.port);
  std::memcpy(&v4.sin_addr, endpoint.ip.data() + kMappedPrefix.size(), sizeof(v4.sin_addr));
  std::memcpy(&address, &v4, sizeof(v4));
  return address;
}

cm::Parameters parameters_of(const rdma_ucm_conn_param& param) {
  return {.qpn = param.qp_num,
          .responder_resources = param.responder_resources,
          .initiator_depth = param.initiator_depth,
          .retry_count = std::min<std::uint8_t>(param.retry_count, 7),
          .rnr_retry = std::min<std::uint8_t>(param.rnr_retry_count, 7),
          .flow_control = param.flow_control != 0,
          .srq = param.srq != 0};
}

std::span<const std::byte> private_data_of(const rdma_ucm_conn_param& param) {
  return std::as_bytes(std::span(param.private_data).first(param.private_data_len));
}

ib_user_path_rec path_of(const cm::Connection& connection) {
  ib_user_path_rec path{};
  std::copy(connection.local.ip.begin(), connection.local.ip.end(), path.sgid);
  std::copy(connection.remote.ip.begin(), connection.remote.ip.end(), path.dgid);
  path.reversible = 1;
  path.mtu = connection.mtu;
  path.pkey = htons(cm::kDefaultPkey);
  path.hop_limit = cm::kHopLimit;
  path.numb_path = 1;
  path.mtu_selector = 2;  // exactly
  path.rate_selector = 2;
  path.packet_life_time_selector = 2;
  path.packet_life_time = cm::kPacketLifetime;
  return path;
}

}  // namespace

Result<> CmFile::create_id(const CmCommand& command, UverbsAnswer& answer) {
  rdma_ucm_create_id request;
  if (!command.read(request)) return too_short();
  const auto space = space_of(request);
  if (!space)
    return fail(EPROTONOSUPPORT,
                fmt::format("port space {:#x} with QPs of type {}: only RDMA_PS_TCP with RC and RDMA_PS_UDP "
                            "with UD are known",
                            static_cast<std::uint16_t>(request.ps), static_cast<int>(request.qp_type)));
  const auto made = manager().create(owner_.program, *space);
  if (!made) return Failure(made.error());
  ids_[*made] = {.uid = request.uid};
  service_.set_owner(*made, this);
  answer.response_address = request.response;
  answer.put(command, rdma_ucm_create_id_resp{.id = *made});
  return {};
}

Result<> CmFile::destroy_id(const CmCommand& command, UverbsAnswer& answer) {
  rdma_ucm_destroy_id request;
  if (!command.read(request)) return too_short();
  const auto id = id_of(request.id);
  if (!id) return Failure(id.error());
  const std::uint32_t reported = (*id)->events_reported;
  drop_events_of(request.id);
  ids_.erase(request.id);
  service_.set_owner(request.id, nullptr);
  if (auto done = manager().destroy(request.id, Instant::now()); !done) return done;
  answer.response_address = request.response;
  answer.put(command, rdma_ucm_destroy_id_resp{.events_reported = reported});
  return {};
}

// A link-local address needs a scope id, as in the kernel.
Result<> CmFile::take_scope(Id& id, const cm::Endpoint& endpoint, const sockaddr_in6& address) {
  if (!is_link_local(endpoint.ip)) return {};
  if (address.sin6_scope_id == 0) return fail(EINVAL, "a link-local address without a scope id");
  id.scope_id = address.sin6_scope_id;
  return {};
}

Result<> CmFile::bind_ip(const CmCommand& command) {
  rdma_ucm_bind_ip request;
  if (!command.read(request)) return too_short();
  const auto id = id_of(request.id);
  if (!id) return Failure(id.error());
  const auto endpoint = endpoint_of(request.addr);
  if (!endpoint) return fail(EINVAL, fmt::format("an address of family {}", request.addr.sin6_family));
  if (auto taken = take_scope(**id, *endpoint, request.addr); !taken) return taken;
  return manager().bind(request.id, *endpoint);
}

Result<> CmFile::resolve_ip(const CmCommand& command) {
  rdma_ucm_resolve_ip request;
  if (!command.read(request)) return too_short();
  const auto id = id_of(request.id);
  if (!id) return Failure(id.error());
  const auto destination = endpoint_of(request.dst_addr);
  const auto source = request.src_addr.sin6_family == 0 ? cm::Endpoint{} : endpoint_of(request.src_addr);
  if (!destination || !source) return fail(EINVAL, "an address that is neither IPv4 nor IPv6");
  if (auto taken = take_scope(**id, *destination, request.dst_addr); !taken) return taken;
  if (auto done = manager().resolve(request.id, *source, *destination); !done) return done;
  put_simple(request.id, kCmAddrResolved);
  return {};
}

Result<> CmFile::resolve_route(const CmCommand& command) {
  rdma_ucm_resolve_route request;
  if (!command.read(request)) return too_short();
  return take_route(request.id);
}

Result<> CmFile::take_route(cm::Handle handle) {
  const auto id = id_of(handle);
  if (!id) return Failure(id.error());
  const cm::Connection* const connection = manager().find(handle);
  if (connection == nullptr || connection->state != cm::State::kResolved || (*id)->has_route)
    return fail(EINVAL, "the id is in no state to resolve a route");
  (*id)->has_route = true;
  put_simple(handle, kCmRouteResolved);
  return {};
}

Result<> CmFile::query_route(const CmCommand& command, UverbsAnswer& answer) {
  rdma_ucm_query request;
  if (!command.read(request)) return too_short();
  const auto id = id_of(request.id);
  if (!id) return Failure(id.error());
  const cm::Connection* const connection = manager().find(request.id);
  if (connection == nullptr) return fail(ENOENT, fmt::format("there is no id {}", request.id));
  rdma_ucm_query_route_resp out{};
  out.src_addr = address_of(connection->local, (*id)->scope_id);
  out.dst_addr = address_of(connection->remote, (*id)->scope_id);
  out.ibdev_index = UINT32_MAX;  // unknown: librdmacm looks for the GUID
  if (connection->local.ip != cm::Gid{}) {
    out.node_guid = service_.adapter().device().caps().node_guid.raw;
    out.port_num = kPort;
    out.ib_route[0] = path_of(*connection);
    out.num_paths = (*id)->has_route || connection->local_id != 0 ? 1 : 0;
  }
  answer.response_address = request.response;
  answer.put(command, out);
  return {};
}

// The peer takes a new connection of a QP as the end of the one that it knows.
Result<> CmFile::check_qp(const rdma_ucm_conn_param& param) const {
  if (owner_.qpns.contains(param.qp_num)) return {};
  return fail(EINVAL, fmt::format("the process has no QP of number {}", param.qp_num));
}

Result<> CmFile::connect(const CmCommand& command) {
  rdma_ucm_connect request;
  if (!command.read(request, offsetof(rdma_ucm_connect, ece))) return too_short();
  const auto id = id_of(request.id);
  if (!id) return Failure(id.error());
  if (!(*id)->has_route || request.conn_param.valid == 0)
    return fail(EINVAL, "the id is in no state to connect");
  const cm::Connection* const connection = manager().find(request.id);
  const bool names_qp = connection == nullptr || connection->space == cm::PortSpace::kTcp;
  if (auto checked = names_qp ? check_qp(request.conn_param) : Result<>{}; !checked) return checked;
  return manager().connect(request.id, parameters_of(request.conn_param), private_data_of(request.conn_param),
                           Instant::now());
}

Result<> CmFile::listen(const CmCommand& command) {
  rdma_ucm_listen request;
  if (!command.read(request)) return too_short();
  if (const auto id = id_of(request.id); !id) return Failure(id.error());
  return manager().listen(request.id, request.backlog);
}

// Without parameters it is the consent of the active end.
Result<> CmFile::accept(const CmCommand& command) {
  rdma_ucm_accept request;
  if (!command.read(request, offsetof(rdma_ucm_accept, ece))) return too_short();
  const auto id = id_of(request.id);
  if (!id) return Failure(id.error());
  if (request.conn_param.valid == 0) return manager().confirm(request.id);
  if (auto checked = check_qp(request.conn_param); !checked) return checked;
  if (auto done = manager().accept(request.id, parameters_of(request.conn_param),
                                   private_data_of(request.conn_param), Instant::now());
      !done)
    return done;
  (*id)->uid = request.uid;
  return {};
}

Result<> CmFile::reject(const CmCommand& command) {
  rdma_ucm_reject request;
  if (!command.read(request)) return too_short();
  if (const auto id = id_of(request.id); !id) return Failure(id.error());
  constexpr auto kConsumer = static_cast<std::uint8_t>(cm::Reason::kConsumer);
  const std::uint8_t reason = request.reason == 0 ? kConsumer : request.reason;
  if (reason != kConsumer && reason != kVendorOption)
    return fail(EINVAL, fmt::format("programs cannot reject with reason {}", reason));
  const auto data = std::as_bytes(std::span(request.private_data).first(request.private_data_len));
  return manager().reject(request.id, reason, data, Instant::now());
}

Result<> CmFile::disconnect(const CmCommand& command) {
  rdma_ucm_disconnect request;
  if (!command.read(request)) return too_short();
  if (const auto id = id_of(request.id); !id) return Failure(id.error());
  return manager().disconnect(request.id, Instant::now());
}

Result<> CmFile::init_qp_attr(const CmCommand& command, UverbsAnswer& answer) {
  rdma_ucm_init_qp_attr request;
  if (!command.read(request)) return too_short();
  if (const auto id = id_of(request.id); !id) return Failure(id.error());
  const cm::Connection* const connection = manager().find(request.id);
  if (connection == nullptr || connection->local.ip == cm::Gid{})
    return fail(EINVAL, "the id has no address of the adapter yet");
  answer.response_address = request.response;
  ib_uverbs_qp_attr out{};
  out.qp_state = request.qp_state;
  if (connection->space == cm::PortSpace::kUdp) {  // in all states, as in the kernel
    out.qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    out.port_num = kPort;
    out.qkey = cm::kUdpQkey;
    answer.put(command, out);
    return {};
  }
  const auto attributes = manager().qp_attributes(request.id);
  switch (request.qp_state) {
    case IBV_QPS_INIT:
      out.qp_attr_mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
      out.port_num = kPort;
      if (attributes) {
        out.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
        if (attributes->max_dest_rd_atomic != 0)
          out.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
      }
      break;
    case IBV_QPS_RTR: {
      if (!attributes) return Failure(attributes.error());
      out.qp_attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
      out.path_mtu = attributes->mtu;
      out.dest_qp_num = attributes->remote_qpn;
      out.rq_psn = attributes->rq_psn;
      out.max_dest_rd_atomic = attributes->max_dest_rd_atomic;
      out.ah_attr = address_handle(attributes->local, attributes->remote);
      break;
    }
    case IBV_QPS_RTS:
      if (!attributes) return Failure(attributes.error());
      out.qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_MAX_QP_RD_ATOMIC;
      out.sq_psn = attributes->sq_psn;
      out.timeout = attributes->ack_timeout;
      out.retry_cnt = attributes->retry_count;
      out.rnr_retry = attributes->rnr_retry;
      out.max_rd_atomic = attributes->max_rd_atomic;
      break;
    default:
      return fail(EINVAL, fmt::format("there are no attributes for QP state {}", request.qp_state));
  }
  answer.put(command, out);
  return {};
}

// Options that are accepted and not named here change nothing.
Result<> CmFile::set_option(const CmCommand& command) {
  rdma_ucm_set_option request;
  if (!command.read(request)) return too_short();
  if (const auto id = id_of(request.id); !id) return Failure(id.error());
  if (command.appended.size() < request.optlen) return fail(EINVAL, "an option without its value");
  if (request.level == RDMA_OPTION_IB && request.optname == RDMA_OPTION_IB_PATH)
    return take_route(request.id);  // there is one path to a peer, so its bytes say nothing new
  if (request.level != RDMA_OPTION_ID) return fail(ENOSYS, fmt::format("options of level {}", request.level));
  switch (request.optname) {
    case RDMA_OPTION_ID_REUSEADDR: {
      int shared = 0;
      if (request.optlen != sizeof(shared)) return fail(EINVAL, "REUSEADDR is an int");
      std::memcpy(&shared, command.appended.data(), sizeof(shared));
      return manager().share_port(request.id, shared != 0);
    }
    case RDMA_OPTION_ID_TOS:
    case RDMA_OPTION_ID_AFONLY:
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      return {};
    default:
      return fail(ENOSYS, fmt::format("option {}", request.optname));
  }
}

Result<> CmFile::notify(const CmCommand& command) {
  rdma_ucm_notify request;
  if (!command.read(request)) return too_short();
  if (const auto id = id_of(request.id); !id) return Failure(id.error());
  if (request.event != IBV_EVENT_COMM_EST) return {};
  return manager().note_established(request.id);
}

// The id comes to this file from another one of the process.
Result<> CmFile::migrate_id(const CmCommand& command, UverbsAnswer& answer) {
  rdma_ucm_migrate_id request;
  if (!command.read(request)) return too_short();
  CmFile* const from = request.fd < owner_.files.size() ? owner_.files[request.fd].get() : nullptr;
  if (from == nullptr) return fail(EINVAL, fmt::format("the process has no rdma_cm file {}", request.fd));
  const auto id = from->id_of(request.id);
  if (!id) return Failure(id.error());
  if (from != this) {
    ids_[request.id] = **id;
    for (const Waiting& each : from->events_) {
      if (each.counted == request.id) queue(each);
    }
    from->drop_events_of(request.id);
    from->ids_.erase(request.id);
    service_.set_owner(request.id, this);
  }
  answer.response_address = request.response;
  answer.put(command, rdma_ucm_migrate_resp{.events_reported = ids_.at(request.id).events_reported});
  return {};
}

}  // namespace pvrdma::standin
