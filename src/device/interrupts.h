// Interrupts: three MSI-X vectors, each an eventfd of the client, with the cause (ICR) and mask (IMR)
// registers.
//
// Masking of the MSI-X table itself is QEMU's and KVM's. IMR has a bit per cause (by inference: Linux writes
// all or nothing); a cause raised while masked is remembered and signalled once when the mask goes. A vector
// without eventfd remembers nothing: the driver enables MSI-X before it unmasks. Reference 1.3, 1.4, 8.6.
// Thread: shard-owned.
#pragma once

#include <array>
#include <cstdint>

#include "abi/registers.h"
#include "base/client_fd.h"

namespace pvrdma::device {

struct SavedInterrupts;

class Interrupts {
 public:
  // Replaces (and closes) the vector's earlier eventfd; an empty Fd unassigns it. 0, or EINVAL for a vector
  // that does not exist and for an fd that is no eventfd.
  int assign(std::uint32_t vector, ClientFd eventfd);
  void unassign_all();
  std::uint32_t assigned() const;  // how many vectors have an eventfd

  // Never blocks, whatever the client does with its end: an eventfd that is full already tells all there is
  // to tell (eventfd_signal.h).
  void raise(abi::Vector vector);

  std::uint32_t mask() const { return mask_; }
  void set_mask(std::uint32_t mask);

  // Causes raised since the last call; reading clears them.
  std::uint32_t take_causes();

  // Back to power-on: nothing masked, no cause. Eventfds stay (reference 8.7).
  void reset();

  // Eventfds are the client's to give.
  SavedInterrupts save() const;
  void restore(const SavedInterrupts& saved);

  std::uint64_t raised(abi::Vector vector) const { return raised_[static_cast<std::size_t>(vector)]; }
  std::uint64_t raised_total() const;

 private:
  void signal(std::size_t vector);

  std::array<ClientFd, abi::kVectorCount> eventfds_;
  std::array<std::uint64_t, abi::kVectorCount> raised_{};
  std::uint32_t mask_ = abi::kImrAllEnabled;
  std::uint32_t causes_ = 0;
  std::uint32_t held_by_mask_ = 0;
};

}  // namespace pvrdma::device
