#include "standin/cm_file.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>

namespace pvrdma::standin {
namespace {

std::uint32_t number_of(cm::EventType type) {
  switch (type) {
    case cm::EventType::kConnectRequest:
      return kCmConnectRequest;
    case cm::EventType::kConnectResponse:
      return kCmConnectResponse;
    case cm::EventType::kEstablished:
      return kCmEstablished;
    case cm::EventType::kRejected:
      return kCmRejected;
    case cm::EventType::kUnreachable:
      return kCmUnreachable;
    case cm::EventType::kDisconnected:
      return kCmDisconnected;
    case cm::EventType::kTimewaitExit:
      return kCmTimewaitExit;
  }
  return kCmConnectError;
}

// `Param` is a union's member that ends with private data.
template <typename Param>
void copy_private_data(const cm::Event& event, Param& param) {
  param.private_data_len =
      static_cast<std::uint8_t>(std::min(event.private_data.size(), sizeof(param.private_data) - 1));
  std::copy_n(reinterpret_cast<const std::uint8_t*>(event.private_data.data()), param.private_data_len,
              param.private_data);
}

rdma_ucm_conn_param param_of(const cm::Event& event) {
  rdma_ucm_conn_param param{};
  param.qp_num = event.peer.qpn;
  param.responder_resources = event.peer.responder_resources;
  param.initiator_depth = event.peer.initiator_depth;
  param.flow_control = event.peer.flow_control ? 1 : 0;
  param.retry_count = event.peer.retry_count;
  param.rnr_retry_count = event.peer.rnr_retry;
  param.srq = event.peer.srq ? 1 : 0;
  copy_private_data(event, param);
  return param;
}

}  // namespace

Result<std::unique_ptr<CmFile>> CmFile::create(CmService& service, const CmOwner& owner) {
  auto readiness = Readiness::create();
  if (!readiness) return Failure(std::move(readiness.error()));
  return std::unique_ptr<CmFile>(new CmFile(service, owner, std::move(*readiness)));
}

CmFile::~CmFile() {
  for (const auto& [handle, id] : ids_) {
    service_.set_owner(handle, nullptr);
    (void)manager().destroy(handle, Instant::now());
  }
  service_.flush();
}

Result<> CmFile::execute(const CmCommand& command, UverbsAnswer& answer) {
  auto done = dispatch(command, answer);
  service_.flush();
  return done;
}

Result<> CmFile::dispatch(const CmCommand& command, UverbsAnswer& answer) {
  switch (command.number) {
    case RDMA_USER_CM_CMD_CREATE_ID:
      return create_id(command, answer);
    case RDMA_USER_CM_CMD_DESTROY_ID:
      return destroy_id(command, answer);
    case RDMA_USER_CM_CMD_BIND_IP:
      return bind_ip(command);
    case RDMA_USER_CM_CMD_RESOLVE_IP:
      return resolve_ip(command);
    case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
      return resolve_route(command);
    case RDMA_USER_CM_CMD_QUERY_ROUTE:
      return query_route(command, answer);
    case RDMA_USER_CM_CMD_CONNECT:
      return connect(command);
    case RDMA_USER_CM_CMD_LISTEN:
      return listen(command);
    case RDMA_USER_CM_CMD_ACCEPT:
      return accept(command);
    case RDMA_USER_CM_CMD_REJECT:
      return reject(command);
    case RDMA_USER_CM_CMD_DISCONNECT:
      return disconnect(command);
    case RDMA_USER_CM_CMD_INIT_QP_ATTR:
      return init_qp_attr(command, answer);
    case RDMA_USER_CM_CMD_GET_EVENT:
      return get_event(command, answer);
    case RDMA_USER_CM_CMD_SET_OPTION:
      return set_option(command);
    case RDMA_USER_CM_CMD_NOTIFY:
      return notify(command);
    case RDMA_USER_CM_CMD_MIGRATE_ID:
      return migrate_id(command, answer);
    case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
    case RDMA_USER_CM_CMD_JOIN_MCAST:
    case RDMA_USER_CM_CMD_LEAVE_MCAST:
      return fail(EOPNOTSUPP, "the adapter has no multicast groups");
    default:
      // librdmacm then uses the commands of before AF_IB.
      return fail(ENOSYS, fmt::format("rdma_cm command {} is not known", command.number));
  }
}

Result<CmFile::Id*> CmFile::id_of(cm::Handle handle) {
  const auto found = ids_.find(handle);
  if (found != ids_.end()) return &found->second;
  if (service_.owner(handle) != nullptr) return fail(EINVAL, fmt::format("id {} is another file's", handle));
  return fail(ENOENT, fmt::format("the file has no id {}", handle));
}

void CmFile::queue(Waiting waiting) {
  events_.push_back(waiting);
  readiness_.set(false);  // so that an edge-triggered poll hears of each event, as the kernel tells it
  readiness_.set(true);
}

void CmFile::put_simple(cm::Handle handle, std::uint32_t event) {
  Waiting waiting{.counted = handle};
  waiting.answer.uid = ids_.at(handle).uid;
  waiting.answer.id = handle;
  waiting.answer.event = event;
  queue(waiting);
}

// Events of an id that the program has not named yet are dropped, as the kernel does: it cannot know whose
// they are. A command on the id then fails.
void CmFile::put(cm::Event event) {
  const cm::Handle counted = event.known_id();
  const auto found = ids_.find(counted);
  if (found == ids_.end() || found->second.uid == 0) return;
  Waiting waiting{.counted = counted, .made = event.id == counted ? 0 : event.id};
  waiting.answer.uid = found->second.uid;
  waiting.answer.id = event.id;
  waiting.answer.event = number_of(event.type);
  waiting.answer.status = static_cast<std::uint32_t>(event.status);
  if (event.space == cm::PortSpace::kUdp) {
    waiting.answer.param.ud = ud_param_of(event);
  } else {
    waiting.answer.param.conn = param_of(event);
  }
  queue(waiting);
}

ib_uverbs_ah_attr CmFile::address_handle(const cm::Gid& local, const cm::Gid& remote) const {
  ib_uverbs_ah_attr out{};
  std::copy(remote.begin(), remote.end(), out.grh.dgid);
  const auto& gids = service_.adapter().gids();
  out.grh.sgid_index = static_cast<std::uint8_t>(std::ranges::find(gids, abi::Gid{local}) - gids.begin());
  out.grh.hop_limit = cm::kHopLimit;
  out.is_global = 1;
  out.port_num = kPort;
  return out;
}

rdma_ucm_ud_param CmFile::ud_param_of(const cm::Event& event) const {
  rdma_ucm_ud_param param{};
  copy_private_data(event, param);
  if (event.type != cm::EventType::kEstablished) return param;
  param.qp_num = event.peer.qpn;
  param.qkey = event.peer.qkey;
  if (const cm::Connection* const connection = manager().find(event.id))
    param.ah_attr = address_handle(connection->local.ip, connection->remote.ip);
  return param;
}

Result<> CmFile::get_event(const CmCommand& command, UverbsAnswer& answer) {
  rdma_ucm_get_event request;
  if (!command.read(request)) return fail(EINVAL, "GET_EVENT is shorter than its struct");
  if (command.response_room_bytes < offsetof(rdma_ucm_event_resp, reserved))
    return fail(ENOSPC, "GET_EVENT has no room for an event");
  if (events_.empty()) return fail(EAGAIN, "no event waits");
  const Waiting next = events_.front();
  events_.pop_front();
  readiness_.set(!events_.empty());
  ++ids_.at(next.counted).events_reported;
  if (next.made != 0) {
    manager().note_delivered(next.made);
    ids_[next.made] = {.scope_id = ids_.at(next.counted).scope_id};
    service_.set_owner(next.made, this);
  }
  answer.response_address = request.response;
  answer.put(command, next.answer);
  return {};
}

void CmFile::drop_events_of(cm::Handle handle) {
  std::erase_if(events_, [&](const Waiting& each) { return each.counted == handle; });
  readiness_.set(!events_.empty());
}

}  // namespace pvrdma::standin
