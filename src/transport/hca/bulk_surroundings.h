// BulkSurroundings: what the two sides of a pipe's bulk QPs (Lender, Puller) need of the pipe that they
// belong to. Thread: shard-owned.
#pragma once

#include <cstddef>
#include <span>

#include "transport/hca/bulk_frame.h"
#include "transport/hca/context.h"

namespace pvrdma::transport::hca {

// QPs of one side of one pipe.
inline constexpr std::size_t kBulksMax = 64;
// One that nobody has used for so long makes room for another.
inline constexpr Duration kBulkIdle = std::chrono::seconds(1);
// How long making one may take.
inline constexpr Duration kBulkSetUpMax = std::chrono::seconds(10);

// Of one QP's, in a turn.
inline constexpr std::size_t kCompletionsPerTurn = 64;

class BulkSurroundings {
 public:
  virtual ~BulkSurroundings() = default;

  virtual HostId peer() const = 0;
  virtual const QpConnection& connection() const = 0;
  virtual std::uint32_t reads() const = 0;  // that both hosts can do at a time; 0: no bulk QPs
  virtual bool lends_answers() const = 0;   // whether the peer does
  // The sequence of its next frame.
  virtual std::uint64_t next_sequence() = 0;
  // Sends a frame of that sequence. False: there is no room now, and the sequence is still the next.
  virtual bool send_frame(std::span<const std::byte> frame) = 0;
  // Whether there is room for the answer to any request.
  virtual bool may_answer() const = 0;
  // run() is to be called.
  virtual void run_soon() = 0;
  virtual Context& context() = 0;
};

}  // namespace pvrdma::transport::hca
