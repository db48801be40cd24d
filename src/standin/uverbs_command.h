// UverbsCommand: a command in the write form of the kernel's uverbs ABI (<rdma/ib_user_verbs.h>), checked as
// the kernel checks its framing. UverbsAnswer: what goes back to the program.
//
// A command is a header, for the extended form a second header, then the command's struct, then the
// provider's. In the plain form most structs begin with the address of the response.
//
// Thread: values and pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <rdma/ib_user_verbs.h>
#include <span>
#include <type_traits>

#include "base/fd.h"
#include "preload/wire.h"

namespace pvrdma::standin {

struct UverbsCommand {
  std::uint32_t number = 0;  // IB_USER_VERBS_CMD_... or, if extended, IB_USER_VERBS_EX_CMD_...
  bool extended = false;
  std::span<const std::byte> body;     // after the headers
  std::uint64_t response_address = 0;  // extended form only
  std::uint32_t response_room_bytes = 0;

  // Copies the body's struct; false if the body is shorter. (The kernel's structs end with flexible arrays,
  // so they do not fit into std::optional.)
  template <typename T>
  [[nodiscard]] bool read(T& out) const {
    return read_at(0, out);
  }
  // The provider's struct behind a `Core`, or nothing if the body is shorter.
  template <typename T, typename Core>
  std::optional<T> provider_part() const {
    T part{};
    return read_at(sizeof(Core), part) ? std::optional(part) : std::nullopt;
  }

 private:
  template <typename T>
  bool read_at(std::size_t offset, T& out) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (body.size() < offset + sizeof(T)) return false;
    std::memcpy(static_cast<void*>(&out), body.data() + offset, sizeof(T));
    return true;
  }
};

// `bytes` are exactly what the program wrote. Nothing if the lengths in the headers contradict that.
std::optional<UverbsCommand> parse_uverbs_command(std::span<const std::byte> bytes);

// Filled in by the command's execution.
struct UverbsAnswer {
  std::uint64_t value = 0;
  std::uint64_t response_address = 0;
  std::uint64_t user_handle = 0;
  std::uint32_t response_bytes = 0;
  std::uint32_t fd_field = PVRDMA_WIRE_NO_FIELD;
  std::array<std::byte, PVRDMA_WIRE_MAX_RESPONSE_BYTES> response{};
  Fd channel;              // goes to the program, and is closed here
  int borrowed_file = -1;  // goes to the program, and stays open here; -1: none

  // Appends a part of the response, as far as the program has room for it. `command` is a UverbsCommand or a
  // CmCommand.
  template <typename Command, typename T>
  void put(const Command& command, const T& part) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::size_t room = std::min<std::size_t>(command.response_room_bytes, response.size());
    const std::size_t bytes = std::min(sizeof(T), room - std::min<std::size_t>(room, response_bytes));
    std::memcpy(response.data() + response_bytes, &part, bytes);
    response_bytes += static_cast<std::uint32_t>(bytes);
  }
};

}  // namespace pvrdma::standin
