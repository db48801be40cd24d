// Posting: the results of post calls, and the copy of a request into its ring. No allocation. Thread: the
// Device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "driver/ring.h"
#include "driver/work_request.h"

namespace pvrdma::driver {

enum class PostStatus {
  kOk,
  kFull,         // no room; poll completions first
  kTooManySges,  // more than the queue's maximum
  kWrongState,   // the QP does not accept such requests in its state
  kBrokenRing,   // the device wrote an index out of range
  kBusError,     // queued, but the doorbell did not reach the device
};

struct Posted {
  PostStatus status = PostStatus::kOk;
  std::size_t count = 0;  // requests written to the ring

  bool ok() const { return status == PostStatus::kOk; }
};

// kSkip leaves the requests in the ring without ringing the doorbell. Linux does so when a list contains a
// bad request.
enum class Doorbell { kRing, kSkip };

inline PostStatus put(const WorkRing& ring, std::uint32_t max_sge, const SendRequest& request) {
  if (request.sges.size() > max_sge) return PostStatus::kTooManySges;
  std::byte* element = nullptr;
  const RingStatus status = ring.begin(element);
  if (status == RingStatus::kBlocked) return PostStatus::kFull;
  if (status == RingStatus::kBroken) return PostStatus::kBrokenRing;
  abi::SendWqeHeader header = request.wqe;
  header.num_sge = static_cast<std::uint32_t>(request.sges.size());
  std::memcpy(element, &header, sizeof(header));
  if (!request.sges.empty())
    std::memcpy(element + sizeof(header), request.sges.data(), request.sges.size_bytes());
  ring.commit();
  return PostStatus::kOk;
}

inline PostStatus put(const WorkRing& ring, std::uint32_t max_sge, const ReceiveRequest& request) {
  if (request.sges.size() > max_sge) return PostStatus::kTooManySges;
  std::byte* element = nullptr;
  const RingStatus status = ring.begin(element);
  if (status == RingStatus::kBlocked) return PostStatus::kFull;
  if (status == RingStatus::kBroken) return PostStatus::kBrokenRing;
  const abi::RecvWqeHeader header{request.wr_id, static_cast<std::uint32_t>(request.sges.size()), 0};
  std::memcpy(element, &header, sizeof(header));
  if (!request.sges.empty())
    std::memcpy(element + sizeof(header), request.sges.data(), request.sges.size_bytes());
  ring.commit();
  return PostStatus::kOk;
}

// Queues requests until one fails.
template <typename Request>
Posted put_all(const WorkRing& ring, std::uint32_t max_sge, std::span<const Request> requests) {
  Posted posted;
  for (const Request& request : requests) {
    posted.status = put(ring, max_sge, request);
    if (!posted.ok()) break;
    ++posted.count;
  }
  return posted;
}

}  // namespace pvrdma::driver
