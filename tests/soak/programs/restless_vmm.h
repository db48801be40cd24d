// RestlessVmm: a VMM that changes the memory of its running guest at random: it plugs, unplugs, punches and
// shrinks it, logs its written pages, resets the guest, leaves and dies. The guest is a user-space driver.
//
// Beside its RAM the guest has slots of plugged memory, as virtio-mem makes them. What the daemon must allow
// throws std::runtime_error if it is refused; what it must refuse throws if it is allowed. After the VMM took
// memory away that the daemon needs (may_fail()), only an answer is due.
//
// Thread: one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/fd.h"
#include "driver/driver.h"
#include "driver/vfio_user_bus.h"

namespace pvrdma::test {

class RestlessVmm {
 public:
  static constexpr std::size_t kSlots = 12;

  struct Slot {
    Fd file;  // empty: nothing is plugged
    std::uint64_t bytes = 0;
    bool shrunk = false;  // the file has been shorter than the slot
  };

  // Connects, and loads the guest's driver. `random` is borrowed. The guest's GID is gid_of(index).
  RestlessVmm(std::string socket, std::uint32_t index, std::mt19937_64& random);

  std::uint32_t index() const { return index_; }
  driver::Device& device() const { return *device_; }
  // The guest-physical address of a slot, and what is there.
  static std::uint64_t address_of(std::size_t slot);
  const Slot& slot(std::size_t number) const { return slots_[number]; }
  // A random slot with memory; kSlots: there is none.
  std::size_t any_plugged();
  // The VMM took memory away that the daemon may have needed, so the adapter may have failed.
  bool may_fail() const { return may_fail_; }
  // Throws if the daemon does not answer. A failed adapter answers EIO.
  void expect_answer() const;

  // Changes of memory. False: not possible now.
  bool plug();
  bool unplug();
  bool unplug_several();  // by one message
  bool cut();             // an unmapping that would cut a slot, which must be refused
  bool punch();
  bool punch_ram();  // the guest may lose rings and responses
  bool shrink();
  bool grow();
  bool toggle_log();

  // Ends of the guest's life, after which the next one has begun. Everything made of device() must be gone
  // before.
  void reset();  // the memory stays plugged
  void leave();
  void die();

 private:
  std::uint64_t up_to(std::uint64_t most) { return random_() % (most + 1); }
  void connect();
  void load_driver();
  void forget_slots();

  const std::string socket_;
  const std::uint32_t index_;
  std::mt19937_64& random_;
  vfio_user::Client* client_ = nullptr;  // owned by bus_
  std::unique_ptr<driver::VfioUserBus> bus_;
  std::unique_ptr<driver::Device> device_;
  std::array<Slot, kSlots> slots_;
  bool logs_ = false;
  bool may_fail_ = false;
};

}  // namespace pvrdma::test
