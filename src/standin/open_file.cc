#include "standin/open_file.h"

#include <cerrno>
#include <fmt/core.h>

#include "abi/registers.h"

namespace pvrdma::standin {

Failure no_such(const char* what, std::uint32_t handle) {
  return fail(EINVAL, fmt::format("the file has no {} {}", what, handle));
}

OpenFile::OpenFile(Adapter& adapter, const MemoryWindows& windows, std::unordered_set<std::uint32_t>& qpns)
    : adapter_(adapter), windows_(windows), qpns_(qpns) {
  adapter_.add_file(*this);
}

OpenFile::~OpenFile() {
  destroy_all();
  adapter_.remove_file(*this);
}

Result<> OpenFile::execute(const UverbsCommand& command, std::span<const pvrdma_wire_run> runs,
                           UverbsAnswer& answer) {
  if (command.extended) {
    if (!context_) return fail(EINVAL, "the file has no context yet");
    if (command.number == IB_USER_VERBS_EX_CMD_QUERY_DEVICE) return query_device_extended(command, answer);
    return fail(EOPNOTSUPP, fmt::format("extended uverbs command {} is not known", command.number));
  }
  if (command.number == IB_USER_VERBS_CMD_GET_CONTEXT) return get_context(command, answer);
  if (!context_) return fail(EINVAL, "the file has no context yet");
  return execute_plain(command, runs, answer);
}

Result<> OpenFile::execute_plain(const UverbsCommand& command, std::span<const pvrdma_wire_run> runs,
                                 UverbsAnswer& answer) {
  switch (command.number) {
    case IB_USER_VERBS_CMD_QUERY_DEVICE:
      return query_device(command, answer);
    case IB_USER_VERBS_CMD_QUERY_PORT:
      return query_port(command, answer);
    case IB_USER_VERBS_CMD_ALLOC_PD:
      return alloc_pd(command, answer);
    case IB_USER_VERBS_CMD_DEALLOC_PD:
      return dealloc_pd(command);
    case IB_USER_VERBS_CMD_REG_MR:
      return reg_mr(command, runs, answer);
    case IB_USER_VERBS_CMD_DEREG_MR:
      return dereg_mr(command);
    case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:
      return create_channel(command, answer);
    case IB_USER_VERBS_CMD_CREATE_CQ:
      return create_cq(command, runs, answer);
    case IB_USER_VERBS_CMD_DESTROY_CQ:
      return destroy_cq(command, answer);
    case IB_USER_VERBS_CMD_CREATE_SRQ:
      return create_srq(command, runs, answer);
    case IB_USER_VERBS_CMD_MODIFY_SRQ:
      return modify_srq(command);
    case IB_USER_VERBS_CMD_QUERY_SRQ:
      return query_srq(command, answer);
    case IB_USER_VERBS_CMD_DESTROY_SRQ:
      return destroy_srq(command, answer);
    case IB_USER_VERBS_CMD_CREATE_QP:
      return create_qp(command, runs, answer);
    case IB_USER_VERBS_CMD_QUERY_QP:
      return query_qp(command, answer);
    case IB_USER_VERBS_CMD_MODIFY_QP:
      return modify_qp(command);
    case IB_USER_VERBS_CMD_DESTROY_QP:
      return destroy_qp(command, answer);
    default:
      return fail(EOPNOTSUPP, fmt::format("uverbs command {} is not known", command.number));
  }
}

Result<> OpenFile::ring(std::uint64_t offset, std::uint64_t value) {
  if (!context_) return fail(EINVAL, "the file has no context yet");
  const auto word =
      offset <= UINT32_MAX ? abi::parse_uar_word(static_cast<std::uint32_t>(offset)) : std::nullopt;
  if (!word || value > UINT32_MAX)
    return fail(EINVAL, fmt::format("there is no doorbell {:#x} at {:#x}", value, offset));
  const auto bits = static_cast<std::uint32_t>(value);
  const std::uint32_t handle = bits & abi::kDoorbellHandleMask;
  switch (*word) {
    case abi::UarWord::kQp:
      if (!qps_.contains(handle)) return no_such("QP", handle);
      break;
    case abi::UarWord::kSrq:
      if (!srqs_.contains(handle)) return no_such("SRQ", handle);
      break;
    case abi::UarWord::kCq: {
      const auto cq = cqs_.find(handle);
      if (cq == cqs_.end()) return no_such("CQ", handle);
      if ((bits & abi::kCqDoorbellArm) != 0) cq->second.armed = Armed::kAny;
      if ((bits & abi::kCqDoorbellArmSolicited) != 0 && cq->second.armed == Armed::kNo)
        cq->second.armed = Armed::kSolicited;
      break;
    }
  }
  return adapter_.ring(context_->uar(), *word, bits);
}

// With mapped doorbells the device may notify a program that only polls. Such a notification is dropped. A CQ
// that waits for a solicited completion stays armed, because the device may have notified another one.
void OpenFile::notify_cq(std::uint32_t cq_handle) {
  const auto found = cqs_.find(cq_handle);
  if (found == cqs_.end()) return;
  Cq& cq = found->second;
  if (cq.armed == Armed::kNo || !cq.channel) return;
  if (cq.armed == Armed::kAny) cq.armed = Armed::kNo;
  const ib_uverbs_comp_event_desc event{.cq_handle = cq.user_handle};
  if (!cq.channel->put(std::as_bytes(std::span(&event, 1))))
    put_async(cq.user_handle, abi::EventType::kCqErr);
}

void OpenFile::notify(const driver::AsyncEvent& event) const {
  const auto put = [&](const auto& objects) {
    if (const auto object = objects.find(event.info); object != objects.end())
      put_async(object->second.user_handle, event.type);
  };
  switch (abi::object_of(event.type)) {
    case abi::EventObject::kCq:
      return put(cqs_);
    case abi::EventObject::kQp:
      return put(qps_);
    case abi::EventObject::kSrq:
      return put(srqs_);
    case abi::EventObject::kNone:
      return put_async(event.info, event.type);
  }
}

void OpenFile::put_async(std::uint64_t element, abi::EventType type) const {
  if (!async_) return;
  const ib_uverbs_async_event_desc event{
      .element = element, .event_type = static_cast<std::uint32_t>(type), .reserved = 0};
  (void)async_->put(std::as_bytes(std::span(&event, 1)));
}

}  // namespace pvrdma::standin
