#include "device/command_executor.h"

#include <cerrno>
#include <new>
#include <span>

#include "guestmem/copy.h"

namespace pvrdma::device {
namespace {

constexpr std::uint32_t kNoError = 0;

verbs::Outcome<> unsupported() {
  return verbs::refuse(verbs::CommandError::kNotSupported);
}

}  // namespace

std::string_view describe_refusal(std::uint32_t err) {
  switch (static_cast<verbs::CommandError>(err)) {
    case verbs::CommandError::kNoSuchObject:
      return "no such object";
    case verbs::CommandError::kBusy:
      return "the object is still in use";
    case verbs::CommandError::kNoMemory:
      return "a limit is reached, or the host has no memory left";
    case verbs::CommandError::kBadAddress:
      return "an address is not guest memory";
    case verbs::CommandError::kInvalid:
      return "invalid values";
    case verbs::CommandError::kNotPermitted:
      return "objects of different owners, or reserved for the kernel";
    case verbs::CommandError::kNotSupported:
      return "not supported";
    case verbs::CommandError::kAddressInUse:
      return "another port has this GID";
  }
  return "the adapter is not ready";
}

CommandExecutor::Executed CommandExecutor::execute(const SharedRegion& region, Instant now) {
  Request request;
  if (!guestmem::read(memory_, region.command_slot, request.bytes)) {
    ++counters_.command_errors.not_ready;
    return {std::nullopt, EFAULT};
  }
  const auto header = request.as<abi::RequestHeader>();
  const auto command = abi::parse_command(header.cmd);
  if (!command) {
    counters_.command_errors.count(verbs::CommandError::kNotSupported);
    return {std::nullopt, EOPNOTSUPP};
  }
  const bool responds = abi::expects_response(*command);
  // Checked before anything is created: the guest would never learn the handle, and the object would leak.
  if (responds &&
      memory_.translate(region.response_slot, abi::kResponseSlotBytes, guestmem::Access::kWrite) == nullptr) {
    ++counters_.command_errors.not_ready;
    return {command, EFAULT};
  }

  out_of_range_.reset();
  Response response;
  const Status status = try_dispatch(*command, region, request, response, now);
  const std::uint32_t err = status ? kNoError : static_cast<std::uint32_t>(status.error());
  if (!status) counters_.command_errors.count(status.error());
  if (responds) {
    if (!status) response = Response{};
    abi::ResponseHeader answer{};
    answer.response = header.response;
    answer.ack = abi::ack_of(*command);
    answer.err = static_cast<std::uint8_t>(err);
    std::memcpy(response.bytes.data(), &answer, sizeof answer);
    // False if the VMM took away memory that the command read. The adapter fails then, with what was created.
    if (!guestmem::write(memory_, region.response_slot, response.bytes)) {
      ++counters_.command_errors.not_ready;
      return {command, EFAULT};
    }
  }
  return {command, err, responds && err == kNoError, out_of_range_};
}

// Each command does everything or nothing: it allocates all memory before it changes anything.
CommandExecutor::Status CommandExecutor::try_dispatch(abi::Command command, const SharedRegion& region,
                                                      const Request& request, Response& response,
                                                      Instant now) {
  try {
    return dispatch(command, region, request, response, now);
  } catch (const std::bad_alloc&) {
    return verbs::refuse(verbs::CommandError::kNoMemory);
  }
}

CommandExecutor::Status CommandExecutor::dispatch(abi::Command command, const SharedRegion& region,
                                                  const Request& request, Response& response, Instant now) {
  switch (command) {
    case abi::Command::kQueryPort:
      return query_port(request, response);
    case abi::Command::kQueryPkey:
      return query_pkey(request, response);
    case abi::Command::kCreatePd:
      return create_pd(request, response);
    case abi::Command::kDestroyPd:
      return destroy_pd(request);
    case abi::Command::kCreateMr:
      return create_mr(request, response);
    case abi::Command::kDestroyMr:
      return destroy_mr(request);
    case abi::Command::kCreateCq:
      return create_cq(request, response);
    case abi::Command::kResizeCq:
      return unsupported();  // Linux's driver does not resize CQs
    case abi::Command::kDestroyCq:
      return destroy_cq(request);
    case abi::Command::kCreateQp:
      return create_qp(request, response);
    case abi::Command::kModifyQp:
      return modify_qp(request, now);
    case abi::Command::kQueryQp:
      return query_qp(request, response);
    case abi::Command::kDestroyQp:
      return destroy_qp(request, now);
    case abi::Command::kCreateUc:
      return create_uc(region, request, response);
    case abi::Command::kDestroyUc:
      return destroy_uc(request);
    case abi::Command::kCreateBind:
      return create_bind(request);
    case abi::Command::kDestroyBind:
      return destroy_bind(request);
    case abi::Command::kCreateSrq:
      return create_srq(request, response);
    case abi::Command::kModifySrq:
      return modify_srq(request);
    case abi::Command::kQuerySrq:
      return query_srq(request, response);
    case abi::Command::kDestroySrq:
      return destroy_srq(request);
  }
  return unsupported();
}

}  // namespace pvrdma::device
