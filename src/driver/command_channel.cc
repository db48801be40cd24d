#include "driver/command_channel.h"

#include <cerrno>
#include <cstring>
#include <fmt/core.h>
#include <system_error>

#include "abi/registers.h"
#include "base/check.h"
#include "driver/interrupts.h"

namespace pvrdma::driver {
namespace {

constexpr std::uint64_t offset_of(abi::Register reg) {
  return static_cast<std::uint64_t>(reg);
}

Failure refused(abi::Command command, std::uint32_t code) {
  return fail(static_cast<int>(code),
              fmt::format("the device refused {} with error {} ({})", name_of(command), code,
                          std::generic_category().message(static_cast<int>(code))));
}

}  // namespace

Result<std::uint32_t> CommandChannel::submit(std::span<const std::byte> request) {
  PVRDMA_CHECK(request.size() <= command_slot_.size_bytes(), "a command larger than its slot");
  if (take_interrupts(eventfd_) != 0) ++unexpected_responses_;
  std::memcpy(command_slot_.data(), request.data(), request.size());
  if (auto rung = bus_.region_write32(Region::kRegisters, offset_of(abi::Register::kRequest), 0); !rung) {
    return Failure(std::move(rung.error()));
  }
  return bus_.region_read32(Region::kRegisters, offset_of(abi::Register::kErr));
}

Result<> CommandChannel::await_response(std::span<std::byte> response) {
  if (wait_interrupt(eventfd_, timeout_) == 0)
    return fail(ETIMEDOUT, "the device did not respond to a command");
  std::memcpy(response.data(), response_slot_.data(), response.size());
  return {};
}

Result<> CommandChannel::execute(abi::Command command, abi::RequestHeader& header,
                                 std::span<const std::byte> request, std::span<std::byte> response) {
  header.cmd = static_cast<std::uint32_t>(command);
  auto error = submit(request);
  if (!error) return Failure(std::move(error.error()).in(name_of(command)));
  if (*error != 0) return refused(command, *error);
  if (response.empty()) return {};
  if (auto arrived = await_response(response); !arrived) {
    return Failure(std::move(arrived.error()).in(name_of(command)));
  }
  abi::ResponseHeader answer;
  std::memcpy(&answer, response.data(), sizeof(answer));
  if (answer.ack != abi::ack_of(command)) {
    return fail(EPROTO, fmt::format("the device answered {} with {:#x}", name_of(command), answer.ack));
  }
  if (command == abi::Command::kModifyQp && answer.err != 0) return refused(command, answer.err);
  return {};
}

}  // namespace pvrdma::driver
