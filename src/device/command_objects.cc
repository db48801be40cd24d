// Commands on the port, user contexts, PDs, MRs, CQs, SRQs and the GID table.
// Reference 3.2, 3.4, 7.1, 7.5-7.7.
#include <bit>

#include "abi/shared_region.h"
#include "device/command_executor.h"

namespace pvrdma::device {
namespace {

constexpr std::uint8_t kPort = 1;
constexpr std::uint16_t kDefaultPkey = 0xffff;
constexpr std::uint32_t kNoVlan = 0xfff;
constexpr std::uint8_t kSrqTypeBasic = 0;
constexpr std::uint32_t kMaxMessageBytes = 1u << 30;

tl::unexpected<verbs::CommandError> invalid() {
  return verbs::refuse(verbs::CommandError::kInvalid);
}

}  // namespace

CommandExecutor::CommandExecutor(HardwareVersion version, const verbs::Limits& limits,
                                 const verbs::Rules& rules, const guestmem::AddressSpace& memory,
                                 verbs::Engine& engine, EventRings& rings, Counters& counters,
                                 DoorbellPoller& doorbells)
    : version_(version),
      limits_(limits),
      rules_(rules),
      memory_(memory),
      engine_(engine),
      rings_(rings),
      counters_(counters),
      doorbells_(doorbells) {
  port_.max_mtu = static_cast<std::uint32_t>(abi::Mtu::k4096);
  port_.active_mtu = static_cast<std::uint32_t>(limits.mtu);
  port_.gid_tbl_len = limits.gid_table_length;
  port_.max_msg_sz = kMaxMessageBytes;
  port_.pkey_tbl_len = 1;
  port_.max_vl_num = 1;
  port_.active_width = static_cast<std::uint8_t>(abi::LinkWidth::k4x);
  port_.active_speed = static_cast<std::uint8_t>(abi::LinkSpeed::k25Gbps);
  set_link(true);
}

void CommandExecutor::set_link(bool up) {
  port_.state = static_cast<std::uint32_t>(up ? abi::PortState::kActive : abi::PortState::kDown);
  port_.phys_state = static_cast<std::uint8_t>(up ? abi::PhysState::kLinkUp : abi::PhysState::kDisabled);
}

CommandExecutor::Status CommandExecutor::query_port(const Request& request, Response& response) const {
  if (request.as<abi::QueryPortRequest>().port_num != kPort) return invalid();
  abi::QueryPortResponse answer{};
  answer.attrs = port_;
  response.put(answer);
  return {};
}

CommandExecutor::Status CommandExecutor::query_pkey(const Request& request, Response& response) const {
  const auto asked = request.as<abi::QueryPkeyRequest>();
  if (asked.port_num != kPort || asked.index != 0) return invalid();
  abi::QueryPkeyResponse answer{};
  answer.pkey = kDefaultPkey;
  response.put(answer);
  return {};
}

// The guest names the page by its frame number. The frame number of the kernel's page, in the shared region,
// then gives the index, so the device need not know the BAR's address.
CommandExecutor::Status CommandExecutor::create_uc(const SharedRegion& region, const Request& request,
                                                   Response& response) {
  const auto asked = request.as<abi::CreateUcRequest>();
  const std::uint64_t index = has_wide_page_frames(version_)
                                  ? asked.pfn64 - region.uar_page_frame
                                  : asked.pfn() - static_cast<std::uint32_t>(region.uar_page_frame);
  if (index == 0 || index >= limits_.max_context) return invalid();
  const auto context = engine_.create_context(static_cast<verbs::UarIndex>(index));
  if (!context) return verbs::refuse(context.error());
  if (rules_.mapped_doorbells) doorbells_.open(static_cast<verbs::UarIndex>(index));
  abi::CreateUcResponse answer{};
  answer.ctx_handle = context->value;
  response.put(answer);
  return {};
}

// Destroys the rest of the context, too. A notification held back for one of its CQs may still be written. To
// the guest that is a notification for an unknown CQ, or at worst a spurious event.
CommandExecutor::Status CommandExecutor::destroy_uc(const Request& request) {
  const verbs::ContextHandle context{request.as<abi::DestroyUcRequest>().ctx_handle};
  const auto destroyed = engine_.destroy_context(context);
  if (destroyed) doorbells_.close(context.value);
  return destroyed;
}

CommandExecutor::Status CommandExecutor::create_pd(const Request& request, Response& response) {
  const auto pd = engine_.create_pd(verbs::ContextHandle{request.as<abi::CreatePdRequest>().ctx_handle});
  if (!pd) return verbs::refuse(pd.error());
  abi::CreatePdResponse answer{};
  answer.pd_handle = pd->value;
  response.put(answer);
  return {};
}

CommandExecutor::Status CommandExecutor::destroy_pd(const Request& request) {
  return engine_.destroy_pd(verbs::PdHandle{request.as<abi::DestroyPdRequest>().pd_handle});
}

CommandExecutor::Status CommandExecutor::create_mr(const Request& request, Response& response) {
  const auto asked = request.as<abi::CreateMrRequest>();
  verbs::CreateMr create;
  switch (asked.flags) {
    case 0:
      create.kind = verbs::MrKind::kUser;
      break;
    case abi::kMrDma:
      create.kind = verbs::MrKind::kDma;
      break;
    case abi::kMrFastReg:
      create.kind = verbs::MrKind::kFastRegister;
      break;
    default:
      return invalid();
  }
  create.pd = verbs::PdHandle{asked.pd_handle};
  create.start = asked.start;
  create.length = asked.length;
  create.access_flags = asked.access_flags & abi::kAccessMask;
  create.page_count = asked.nchunks;
  create.page_directory = asked.pdir_dma;
  const auto mr = engine_.create_mr(create);
  if (!mr) return verbs::refuse(mr.error());
  abi::CreateMrResponse answer{};
  answer.mr_handle = mr->handle.value;
  answer.lkey = mr->key;
  answer.rkey = mr->key;
  response.put(answer);
  return {};
}

CommandExecutor::Status CommandExecutor::destroy_mr(const Request& request) {
  return engine_.destroy_mr(verbs::MrHandle{request.as<abi::DestroyMrRequest>().mr_handle});
}

CommandExecutor::Status CommandExecutor::create_cq(const Request& request, Response& response) {
  const auto asked = request.as<abi::CreateCqRequest>();
  if (!std::has_single_bit(asked.cqe) || asked.cqe > limits_.max_cqe) return invalid();
  verbs::CreateCq create;
  create.context = verbs::ContextHandle{asked.ctx_handle};
  create.cqe_count = asked.cqe;
  create.page_count = asked.nchunks;
  create.page_directory = asked.pdir_dma;
  const auto cq = engine_.create_cq(create);
  if (!cq) return verbs::refuse(cq.error());
  abi::CreateCqResponse answer{};
  answer.cq_handle = cq->value;
  answer.cqe = asked.cqe;
  response.put(answer);
  return {};
}

CommandExecutor::Status CommandExecutor::destroy_cq(const Request& request) {
  const verbs::CqHandle cq{request.as<abi::DestroyCqRequest>().cq_handle};
  const auto destroyed = engine_.destroy_cq(cq);
  if (destroyed) rings_.forget_cq(cq);
  return destroyed;
}

CommandExecutor::Status CommandExecutor::create_srq(const Request& request, Response& response) {
  const auto asked = request.as<abi::CreateSrqRequest>();
  if (limits_.max_srq == 0 || asked.srq_type != kSrqTypeBasic)
    return verbs::refuse(verbs::CommandError::kNotSupported);
  if (!std::has_single_bit(asked.attrs.max_wr)) return invalid();
  verbs::CreateSrq create;
  create.pd = verbs::PdHandle{asked.pd_handle};
  create.max_wr = asked.attrs.max_wr;
  create.max_sge = asked.attrs.max_sge;
  create.limit = asked.attrs.srq_limit;
  create.page_count = asked.nchunks;
  create.page_directory = asked.pdir_dma;
  const auto srq = engine_.create_srq(create);
  if (!srq) return verbs::refuse(srq.error());
  abi::CreateSrqResponse answer{};
  answer.srqn = srq->value;
  response.put(answer);
  return {};
}

CommandExecutor::Status CommandExecutor::modify_srq(const Request& request) {
  const auto asked = request.as<abi::ModifySrqRequest>();
  constexpr std::uint32_t kKnown = abi::kSrqAttrMaxWr | abi::kSrqAttrLimit;
  // Only the limit can change. The driver may also set the other bit, without a meaning.
  if ((asked.attr_mask & abi::kSrqAttrLimit) == 0 || (asked.attr_mask & ~kKnown) != 0) return invalid();
  return engine_.modify_srq(verbs::SrqHandle{asked.srq_handle}, asked.attrs.srq_limit);
}

CommandExecutor::Status CommandExecutor::query_srq(const Request& request, Response& response) const {
  const auto attributes = engine_.query_srq(verbs::SrqHandle{request.as<abi::QuerySrqRequest>().srq_handle});
  if (!attributes) return verbs::refuse(attributes.error());
  abi::QuerySrqResponse answer{};
  answer.attrs = *attributes;
  response.put(answer);
  return {};
}

CommandExecutor::Status CommandExecutor::destroy_srq(const Request& request) {
  const verbs::SrqHandle srq{request.as<abi::DestroySrqRequest>().srq_handle};
  const auto destroyed = engine_.destroy_srq(srq);
  if (destroyed) rings_.forget_srq(srq);
  return destroyed;
}

// The MTU here is in bytes. Linux always sends 1024, and it has no effect. VLANs are not offered to guests.
CommandExecutor::Status CommandExecutor::create_bind(const Request& request) {
  const auto asked = request.as<abi::CreateBindRequest>();
  if (asked.vlan != kNoVlan) return verbs::refuse(verbs::CommandError::kNotSupported);
  if (asked.gid_type != static_cast<std::uint8_t>(rules_.roce)) return invalid();
  return engine_.bind_gid(asked.index, verbs::Gid{asked.new_gid.raw}, rules_.roce);
}

CommandExecutor::Status CommandExecutor::destroy_bind(const Request& request) {
  const auto asked = request.as<abi::DestroyBindRequest>();
  return engine_.unbind_gid(asked.index, verbs::Gid{asked.dest_gid.raw});
}

static_assert(static_cast<std::uint8_t>(RoceVersion::kV1) == abi::kGidTypeRocev1 &&
              static_cast<std::uint8_t>(RoceVersion::kV2) == abi::kGidTypeRocev2);

}  // namespace pvrdma::device
