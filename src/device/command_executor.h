// CommandExecutor: the 21 commands of the PVRDMA interface. Reference 3.
//
// A command is executed completely during the write to REQUEST. The request is copied once from the guest's
// slot, and its payload becomes a validated request to the engine. When execute() returns, the response (if
// the command has one) is in the response slot. A failure is reported twice: as the value for ERR and in the
// response's err. The guest waits for vector 0 only if ERR is 0 and the command has a response, and only then
// may the vector be raised.
//
// command_executor.cc: slots and dispatch. command_objects.cc: port, contexts, PDs, MRs, CQs, SRQs, GIDs.
// command_qp.cc: queue pairs. Thread: shard-owned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <type_traits>

#include "abi/commands.h"
#include "base/time.h"
#include "device/counters.h"
#include "device/device_version.h"
#include "device/doorbell_poller.h"
#include "device/event_rings.h"
#include "device/shared_region.h"
#include "guestmem/address_space.h"
#include "verbs/engine.h"
#include "verbs/limits.h"
#include "verbs/qp_attributes.h"
#include "verbs/status.h"

namespace pvrdma::device {

// One clause for a value of ERR, which is not 0.
std::string_view describe_refusal(std::uint32_t err);

class CommandExecutor {
 public:
  // `memory`, `engine`, `rings`, `counters` and `doorbells`, which is told of contexts, are borrowed and
  // outlive this.
  CommandExecutor(HardwareVersion version, const verbs::Limits& limits, const verbs::Rules& rules,
                  const guestmem::AddressSpace& memory, verbs::Engine& engine, EventRings& rings,
                  Counters& counters, DoorbellPoller& doorbells);

  struct Executed {
    std::optional<abi::Command> command;  // empty: the slot could not be read, or holds an unknown command
    std::uint32_t err = 0;                // for the ERR register
    bool response_due = false;            // raise vector 0
    // Set if a MODIFY_QP was refused because of it.
    std::optional<verbs::OutOfRange> out_of_range;
  };
  // Executes the command in the command slot of `region`.
  Executed execute(const SharedRegion& region, Instant now);

  // Sets the link that QUERY_PORT reports.
  void set_link(bool up);
  bool link_is_up() const { return static_cast<abi::PortState>(port_.state) == abi::PortState::kActive; }

 private:
  struct Request {
    alignas(8) std::array<std::byte, abi::kRequestSlotBytes> bytes;

    template <typename T>
    T as() const {
      static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= abi::kRequestSlotBytes);
      T value;
      std::memcpy(&value, bytes.data(), sizeof value);
      return value;
    }
  };
  struct Response {
    alignas(8) std::array<std::byte, abi::kResponseSlotBytes> bytes{};

    // `response.hdr` is overwritten later.
    template <typename T>
    void put(const T& response) {
      static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= abi::kResponseSlotBytes);
      std::memcpy(bytes.data(), &response, sizeof response);
    }
  };
  using Status = verbs::Outcome<>;

  Status try_dispatch(abi::Command command, const SharedRegion& region, const Request& request,
                      Response& response, Instant now);
  Status dispatch(abi::Command command, const SharedRegion& region, const Request& request,
                  Response& response, Instant now);

  Status query_port(const Request& request, Response& response) const;
  Status query_pkey(const Request& request, Response& response) const;
  Status create_uc(const SharedRegion& region, const Request& request, Response& response);
  Status destroy_uc(const Request& request);
  Status create_pd(const Request& request, Response& response);
  Status destroy_pd(const Request& request);
  Status create_mr(const Request& request, Response& response);
  Status destroy_mr(const Request& request);
  Status create_cq(const Request& request, Response& response);
  Status destroy_cq(const Request& request);
  Status create_srq(const Request& request, Response& response);
  Status modify_srq(const Request& request);
  Status query_srq(const Request& request, Response& response) const;
  Status destroy_srq(const Request& request);
  Status create_bind(const Request& request);
  Status destroy_bind(const Request& request);

  Status create_qp(const Request& request, Response& response);
  Status modify_qp(const Request& request, Instant now);
  Status query_qp(const Request& request, Response& response) const;
  Status destroy_qp(const Request& request, Instant now);

  const HardwareVersion version_;
  const verbs::Limits limits_;
  const verbs::Rules rules_;
  const guestmem::AddressSpace& memory_;
  verbs::Engine& engine_;
  EventRings& rings_;
  Counters& counters_;
  DoorbellPoller& doorbells_;
  std::optional<verbs::OutOfRange> out_of_range_;  // of the current command
  abi::PortAttr port_{};
};

}  // namespace pvrdma::device
