// SavedSession: what a session is besides its socket and the descriptors that wait in it, so that another
// process can go on with it. Thread: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "vfio_user/protocol.h"

namespace pvrdma::vfio_user {

// A request of ours whose reply may still come. Nobody waits for it any more.
struct SavedRequest {
  std::uint16_t id = 0;
  Command command{};  // kDmaRead or kDmaWrite
  std::uint64_t address = 0;
  std::uint64_t count = 0;
};

struct SavedSession {
  std::uint32_t max_request_bytes = 0;
  std::vector<std::uint8_t> input;    // received, not executed yet
  std::vector<std::uint8_t> reply;    // what the socket has not taken of it
  bool reply_has_fd = false;          // that of the region which has one goes with the first byte
  std::vector<std::uint8_t> request;  // likewise what it has not taken
  std::vector<SavedRequest> unanswered;
};

// More is no session's.
inline constexpr std::uint32_t kSavedInputBytesMax = static_cast<std::uint32_t>(2048 + kMaxMessageBytes);
inline constexpr std::uint32_t kSavedOutputBytesMax = static_cast<std::uint32_t>(kMaxMessageBytes);

}  // namespace pvrdma::vfio_user
