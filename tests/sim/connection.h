// Connection: two connected QPs with their flows, from creation to the last check. Thread: the world's.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "sim/flow.h"
#include "sim/workload.h"

namespace pvrdma::sim {

struct Vm {
  std::uint32_t index = 0;
  abi::Gid gid{};                    // bound at table index 0
  driver::Device* device = nullptr;  // borrowed
  driver::Context* user = nullptr;   // borrowed; a user process on it
  bool hides_doorbells = false;      // the user process's doorbells are mapped
};

class Connection {
 public:
  // Connects two VMs, or a VM with itself. Both ends have `options`.
  Connection(std::string name, Random& random, const Vm& a, const Vm& b, const test::ConnectOptions& options);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // On side 0 or 1: posts up to `count` requests with one doorbell, or receives for the other side's
  // messages.
  void post_requests(int side, std::uint32_t count, const Mix& mix);
  void post_receives(int side, std::uint32_t count, const Mix& mix);
  void post_marker(int side);

  // Takes and checks all completions, and returns their number.
  std::size_t poll(Instant now);
  // Arms each send CQ; poll() checks that the event comes.
  void arm(Instant now);

  // --- Trouble ---

  void trouble() { calm_ = false; }
  // Afterwards the VM uses its memory for something else at once, so the adapter must not change it any more.
  void to_error(int side, Instant now);
  void destroy_qp(int side, Instant now);
  void toggle_drain(int side);  // RTS -> SQD, SQD -> RTS
  void go_on();                 // both sides back to RTS, if possible
  // The VM of this side is gone. Its memory can still be checked, but its objects cannot be used.
  void lose_vm(int side);

  bool uses_vm(std::uint32_t index) const;
  bool is_side_on(int side, std::uint32_t vm) const {
    return vms_[static_cast<std::size_t>(side)].index == vm;
  }
  bool calm() const { return calm_; }
  // A QP failed or is gone; only finish() can follow.
  bool broken() const;
  bool busy() const;  // signalled requests are outstanding on a side that can still complete them
  void verify() const;
  // Called when everything posted has completed: checks the memory, and that both ends report the same PSNs.
  void verify_at_rest() const;
  const std::string& name() const { return name_; }

  // Flushes the QPs that still exist, checks that everything has completed, destroys them and checks the
  // memory.
  void finish(Instant now);

 private:
  struct Side {
    std::unique_ptr<driver::ProtectionDomain> pd;
    std::unique_ptr<driver::SharedReceiveQueue> srq;
    std::unique_ptr<test::RcEndpoint> end;
    bool gone = false;      // QP destroyed or VM lost
    bool lost = false;      // VM lost
    bool draining = false;  // in SQD
    bool armed = false;
    std::vector<std::byte> last;  // the exposed memory when the QP ended; empty: it has not ended
    bool hides = false;           // its doorbells are mapped, and can overwrite one another
    bool asleep = false;          // armed and hides: polls its send CQ only after an event
    Instant has_unread_since = Instant::never();  // while asleep
  };
  Side& at(int side) { return sides_[static_cast<std::size_t>(side)]; }
  // The flow of the messages that `side` sends.
  Flow& flow(int side) { return *flows_[static_cast<std::size_t>(side)]; }
  void make_side(Side& side, const Vm& vm);
  std::vector<driver::WorkCompletion> take(driver::CompletionQueue& cq) const;
  void check_event(Side& side, std::size_t completions);
  void reuse_memory(int side, Instant now);
  bool is_awake(Side& side, Instant now) const;

  const std::string name_;
  Random& random_;
  std::array<Vm, 2> vms_;
  std::array<Side, 2> sides_;
  std::array<std::unique_ptr<Flow>, 2> flows_;
  bool calm_ = true;
};

}  // namespace pvrdma::sim
