// Command codes and the headers of requests and responses (docs/device.md sections 3.1 and 3.2).
//
// The command slot holds one request, and the response slot holds at most one response. The device copies
// kRequestSlotBytes once and does not read the slot again. It reports a failure through the ERR register and,
// for MODIFY_QP, in ResponseHeader.err. Little-endian. Thread: plain data and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "abi/layout.h"

namespace pvrdma::abi {

enum class Command : std::uint32_t {
  kQueryPort = 0,
  kQueryPkey = 1,
  kCreatePd = 2,
  kDestroyPd = 3,
  kCreateMr = 4,
  kDestroyMr = 5,
  kCreateCq = 6,
  kResizeCq = 7,  // never sent by Linux
  kDestroyCq = 8,
  kCreateQp = 9,
  kModifyQp = 10,
  kQueryQp = 11,
  kDestroyQp = 12,
  kCreateUc = 13,
  kDestroyUc = 14,
  kCreateBind = 15,
  kDestroyBind = 16,
  kCreateSrq = 17,
  kModifySrq = 18,
  kQuerySrq = 19,
  kDestroySrq = 20,
};
inline constexpr std::uint32_t kCommandCount = 21;

// The command's name as in the kernel's header, for log lines. Static storage.
constexpr std::string_view name_of(Command command) {
  switch (command) {
    case Command::kQueryPort:
      return "QUERY_PORT";
    case Command::kQueryPkey:
      return "QUERY_PKEY";
    case Command::kCreatePd:
      return "CREATE_PD";
    case Command::kDestroyPd:
      return "DESTROY_PD";
    case Command::kCreateMr:
      return "CREATE_MR";
    case Command::kDestroyMr:
      return "DESTROY_MR";
    case Command::kCreateCq:
      return "CREATE_CQ";
    case Command::kResizeCq:
      return "RESIZE_CQ";
    case Command::kDestroyCq:
      return "DESTROY_CQ";
    case Command::kCreateQp:
      return "CREATE_QP";
    case Command::kModifyQp:
      return "MODIFY_QP";
    case Command::kQueryQp:
      return "QUERY_QP";
    case Command::kDestroyQp:
      return "DESTROY_QP";
    case Command::kCreateUc:
      return "CREATE_UC";
    case Command::kDestroyUc:
      return "DESTROY_UC";
    case Command::kCreateBind:
      return "CREATE_BIND";
    case Command::kDestroyBind:
      return "DESTROY_BIND";
    case Command::kCreateSrq:
      return "CREATE_SRQ";
    case Command::kModifySrq:
      return "MODIFY_SRQ";
    case Command::kQuerySrq:
      return "QUERY_SRQ";
    case Command::kDestroySrq:
      return "DESTROY_SRQ";
  }
  return "?";
}

constexpr std::optional<Command> parse_command(std::uint32_t raw) {
  if (raw >= kCommandCount) return std::nullopt;
  return static_cast<Command>(raw);
}

// The value of ResponseHeader.ack in the response to `command` (3.1).
constexpr std::uint32_t ack_of(Command command) {
  return 0x80000000u + static_cast<std::uint32_t>(command);
}

// True if the guest waits for a response: then the device writes it and signals Vector::kResponse. Otherwise
// it does neither (3.1, 3.2).
constexpr bool expects_response(Command command) {
  switch (command) {
    case Command::kQueryPort:
    case Command::kQueryPkey:
    case Command::kCreatePd:
    case Command::kCreateMr:
    case Command::kCreateCq:
    case Command::kResizeCq:
    case Command::kCreateQp:
    case Command::kModifyQp:
    case Command::kQueryQp:
    case Command::kCreateUc:
    case Command::kCreateSrq:
    case Command::kQuerySrq:
      return true;
    case Command::kDestroyPd:
    case Command::kDestroyMr:
    case Command::kDestroyCq:
    case Command::kDestroyQp:
    case Command::kDestroyUc:
    case Command::kCreateBind:
    case Command::kDestroyBind:
    case Command::kModifySrq:
    case Command::kDestroySrq:
      return false;
  }
  return false;
}

// The bytes that the guest copies to and from the slots: the sizes of the largest request and response.
inline constexpr std::size_t kRequestSlotBytes = 184;
inline constexpr std::size_t kResponseSlotBytes = 176;

struct RequestHeader {
  std::uint64_t response;  // a cookie that the response must repeat
  std::uint32_t cmd;       // Command
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(RequestHeader, 16);
PVRDMA_ABI_FIELD(RequestHeader, response, 0, 8);
PVRDMA_ABI_FIELD(RequestHeader, cmd, 8, 4);

struct ResponseHeader {
  std::uint64_t response;
  std::uint32_t ack;  // ack_of(command)
  std::uint8_t err;
  std::array<std::uint8_t, 3> reserved;
};
PVRDMA_ABI_STRUCT(ResponseHeader, 16);
PVRDMA_ABI_FIELD(ResponseHeader, response, 0, 8);
PVRDMA_ABI_FIELD(ResponseHeader, ack, 8, 4);
PVRDMA_ABI_FIELD(ResponseHeader, err, 12, 1);

}  // namespace pvrdma::abi
