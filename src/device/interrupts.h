// Interrupts: three MSI-X vectors, each an eventfd of the client, with the cause (ICR) and mask (IMR)
// registers.
//
// QEMU and KVM mask the vectors of the MSI-X table. IMR has one bit for each cause (by inference: Linux sets
// all bits or none). A cause that is raised while masked is remembered, and signalled once when it is
// unmasked. A vector without an eventfd remembers nothing, because the driver enables MSI-X before it
// unmasks. Reference 1.3, 1.4, 8.6. Thread: shard-owned.
#pragma once

#include <array>
#include <cstdint>

#include "abi/registers.h"
#include "base/client_fd.h"
#include "base/time.h"
#include "device/client_eventfd.h"

namespace pvrdma::device {

class AdapterLog;
struct SavedInterrupts;

class Interrupts {
 public:
  // Both are borrowed and outlive this.
  Interrupts(const Clock& clock, AdapterLog& log) : clock_(clock), log_(log) {}

  // Replaces and closes the vector's earlier eventfd. An empty Fd unassigns it. Returns 0, or EINVAL for an
  // unknown vector and for an fd that is not an eventfd.
  int assign(std::uint32_t vector, ClientFd eventfd);
  void unassign_all();
  std::uint32_t assigned() const;  // the number of vectors with an eventfd

  // Never blocks, whatever the client does with its descriptor. A full eventfd needs no further signal
  // (client_eventfd.h).
  void raise(abi::Vector vector);

  std::uint32_t mask() const { return mask_; }
  void set_mask(std::uint32_t mask);

  // Causes raised since the last call; reading clears them.
  std::uint32_t take_causes();

  // Returns to the power-on state: no cause is masked or pending. Eventfds stay (reference 8.7).
  void reset();

  // Without eventfds, which the client assigns.
  SavedInterrupts save() const;
  void restore(const SavedInterrupts& saved);

  std::uint64_t raised(abi::Vector vector) const { return raised_[static_cast<std::size_t>(vector)]; }
  std::uint64_t raised_total() const;
  // How often a signal was found to be slow, so that a thread makes the next ones.
  std::uint64_t slow_total() const { return slow_; }

 private:
  void signal(std::size_t vector);

  const Clock& clock_;
  AdapterLog& log_;
  std::array<ClientEventfd, abi::kVectorCount> eventfds_;
  std::array<std::uint64_t, abi::kVectorCount> raised_{};
  std::uint64_t slow_ = 0;
  std::uint32_t mask_ = abi::kImrAllEnabled;
  std::uint32_t causes_ = 0;
  std::uint32_t held_by_mask_ = 0;
};

}  // namespace pvrdma::device
