// CmCommand: a command of the kernel's rdma_cm ABI (<rdma/rdma_user_cm.h>), checked as the kernel checks its
// framing.
//
// A command is a header and the command's struct. The library appends the value that a SET_OPTION points to
// (preload/wire.h).
//
// Thread: values and pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <rdma/rdma_user_cm.h>
#include <span>
#include <type_traits>

namespace pvrdma::standin {

// The numbers of events, which <rdma/rdma_cma.h> gives programs.
enum CmEventNumber : std::uint32_t {
  kCmAddrResolved = 0,
  kCmRouteResolved = 2,
  kCmConnectRequest = 4,
  kCmConnectResponse = 5,
  kCmConnectError = 6,
  kCmUnreachable = 7,
  kCmRejected = 8,
  kCmEstablished = 9,
  kCmDisconnected = 10,
  kCmTimewaitExit = 15,
};

struct CmCommand {
  std::uint32_t number = 0;  // RDMA_USER_CM_CMD_...
  std::span<const std::byte> body;
  std::span<const std::byte> appended;
  std::uint32_t response_room_bytes = 0;

  // Copies the body's struct, or its first `needed` bytes and what follows of it: later ABIs append fields.
  // False if the body is shorter.
  template <typename T>
  [[nodiscard]] bool read(T& out, std::size_t needed = sizeof(T)) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (body.size() < needed) return false;
    out = T{};
    std::memcpy(static_cast<void*>(&out), body.data(), std::min(body.size(), sizeof(T)));
    return true;
  }
};

// `bytes` are what the program wrote, with what the library appended. Nothing if the header contradicts that.
inline std::optional<CmCommand> parse_cm_command(std::span<const std::byte> bytes) {
  rdma_ucm_cmd_hdr header;
  if (bytes.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const auto rest = bytes.subspan(sizeof(header));
  if (header.in > rest.size()) return std::nullopt;
  return CmCommand{.number = header.cmd,
                   .body = rest.first(header.in),
                   .appended = rest.subspan(header.in),
                   .response_room_bytes = header.out};
}

}  // namespace pvrdma::standin
