// CommandChannel: one command at a time through the command slot. docs/device.md 3.1, 3.5.
//
// If the device refuses a command, the Error's code is the device's ERR value (for MODIFY_QP, the response's
// `err`), so callers can tell causes apart. Thread: one thread at a time; blocks until the response's
// interrupt, for at most `timeout`.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "abi/commands.h"
#include "base/result.h"
#include "base/time.h"
#include "driver/bus.h"
#include "driver/guest_ram.h"

namespace pvrdma::driver {

class CommandChannel {
 public:
  // All are borrowed. `response_eventfd` is vector 0's, non-blocking.
  CommandChannel(Bus& bus, const Buffer& command_slot, const Buffer& response_slot, int response_eventfd,
                 Duration timeout)
      : bus_(bus),
        command_slot_(command_slot),
        response_slot_(response_slot),
        eventfd_(response_eventfd),
        timeout_(timeout) {}

  // Fills in the header and executes a command that has a response.
  template <typename Response, typename Request>
  Result<Response> call(abi::Command command, Request request) {
    static_assert(std::is_trivially_copyable_v<Response> && sizeof(Response) <= abi::kResponseSlotBytes);
    Response response{};
    auto done = execute(command, request.hdr, std::as_bytes(std::span(&request, 1)),
                        std::as_writable_bytes(std::span(&response, 1)));
    if (!done) return Failure(std::move(done.error()));
    return response;
  }

  // Fills in the header and executes a command that has no response.
  template <typename Request>
  Result<> run(abi::Command command, Request request) {
    return execute(command, request.hdr, std::as_bytes(std::span(&request, 1)), {});
  }

  // The raw exchange: writes `request` (at most one page) into the slot, writes REQUEST, and returns ERR.
  // Errors: those of the bus.
  Result<std::uint32_t> submit(std::span<const std::byte> request);

  // Waits for vector 0 and copies the first bytes of the response slot. Error: ETIMEDOUT.
  Result<> await_response(std::span<std::byte> response);

  // Interrupts that no command waited for. A correct device leaves this at 0.
  std::uint64_t unexpected_responses() const { return unexpected_responses_; }

 private:
  Result<> execute(abi::Command command, abi::RequestHeader& header, std::span<const std::byte> request,
                   std::span<std::byte> response);

  Bus& bus_;
  const Buffer& command_slot_;
  const Buffer& response_slot_;
  int eventfd_;
  Duration timeout_;
  std::uint64_t unexpected_responses_ = 0;
};

}  // namespace pvrdma::driver
