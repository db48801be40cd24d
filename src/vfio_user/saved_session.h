// SavedSession: a session's state, besides its socket and the descriptors that it holds. With it another
// process can continue the session. Thread: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "vfio_user/protocol.h"

namespace pvrdma::vfio_user {

// A request of the server whose reply may still come. Nobody waits for the result any more.
struct SavedRequest {
  std::uint16_t id = 0;
  Command command{};  // kDmaRead or kDmaWrite
  std::uint64_t address = 0;
  std::uint64_t count = 0;
};

struct SavedSession {
  std::uint32_t max_request_bytes = 0;
  std::vector<std::uint8_t> input;    // received, not executed yet
  std::vector<std::uint8_t> reply;    // the part that the socket has not taken
  bool reply_has_fd = false;          // the region's fd travels with the reply's first byte
  std::vector<std::uint8_t> request;  // the part that the socket has not taken
  std::vector<SavedRequest> unanswered;
};

// The most input that a session can hold.
inline constexpr std::uint32_t kSavedInputBytesMax = static_cast<std::uint32_t>(2048 + kMaxMessageBytes);
inline constexpr std::uint32_t kSavedOutputBytesMax = static_cast<std::uint32_t>(kMaxMessageBytes);

}  // namespace pvrdma::vfio_user
