// Datagrams: a UD QP of one VM, which sends numbered messages and checks the ones that arrive. Thread: the
// world's.
//
// Datagrams may be lost, duplicated and reordered. Each one that arrives must have been sent to this QP with
// the same bytes.
#pragma once

#include <map>
#include <memory>

#include "sim/connection.h"
#include "sim/random.h"

namespace pvrdma::sim {

class Datagrams {
 public:
  // `random` is borrowed.
  Datagrams(Random& random, const Vm& vm);
  ~Datagrams();
  Datagrams(const Datagrams&) = delete;
  Datagrams& operator=(const Datagrams&) = delete;

  // Sends one message to another VM's QP, or to its own.
  void send(Datagrams& to);
  void post_receive();
  void poll();

  std::uint64_t received() const { return received_; }

 private:
  static constexpr std::uint32_t kQkey = 0x1234'5678;
  static constexpr std::uint32_t kBytesMax = 1024;
  static constexpr std::uint32_t kBuffers = 16;

  void check(const driver::WorkCompletion& completion);

  Random& random_;
  const Vm vm_;
  std::unique_ptr<driver::ProtectionDomain> pd_;
  std::unique_ptr<driver::CompletionQueue> cq_;
  std::unique_ptr<driver::Buffer> buffer_;
  std::unique_ptr<driver::MemoryRegion> mr_;
  std::unique_ptr<driver::QueuePair> qp_;
  std::uint32_t sends_out_ = 0;
  std::uint32_t next_send_ = 0;
  std::uint32_t receives_out_ = 0;
  std::uint32_t next_receive_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace pvrdma::sim
