// Device: one opened adapter: probe, port, GIDs, events, and its kernel context. docs/device.md 1.5, 7.1,
// 7.8, 7.9.
//
// A Context (context.h) makes the objects. Everything made from a Device must be destroyed before it.
//
// Thread: a Device and all that belongs to it are used by one thread at a time. Calls block until the device
// answers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "abi/attributes.h"
#include "abi/ring.h"
#include "driver/bus.h"
#include "driver/command_channel.h"
#include "driver/guest_ram.h"
#include "driver/interrupts.h"
#include "driver/shared_region.h"

namespace pvrdma::driver {

class CompletionQueue;
class Context;
class QueuePair;

struct DeviceOptions {
  GuestRam::Options ram;
  Duration command_timeout = std::chrono::seconds(10);
  // The address that BAR 2 reports; page-aligned, below 16 TiB.
  std::uint64_t uar_bar_address = 0x8'0000'0000;
};

// Lets the device access the guest's memory and raise interrupts, and maps its BARs. Errors: those of the
// bus.
Result<> enable_bus_master(Bus& bus);

struct AsyncEvent {
  abi::EventType type;
  std::uint32_t info;  // a CQ, QP or SRQ handle or a port number, depending on the type
};

class Device {
 public:
  // Starts the adapter: maps guest RAM, announces the shared region, checks capabilities as Linux does,
  // enables MSI-X, activates and unquiesces. Errors: those of the bus; EFAULT where Linux's probe gives up;
  // out of memory.
  static Result<std::unique_ptr<Device>> open(std::unique_ptr<Bus> bus, const DeviceOptions& options = {});

  // Calls close() and ignores its result.
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Masks interrupts, resets the device and removes guest RAM from it. Idempotent. Afterwards the Device is
  // unusable.
  Result<> close();

  std::uint32_t version() const { return version_; }  // the VERSION register, 17 ... 20
  const abi::Caps& caps() const { return caps_; }     // as the device wrote them at the start
  GuestRam& ram() { return *ram_; }
  Bus& bus() { return *bus_; }
  CommandChannel& commands() { return *commands_; }
  Context& kernel() { return *kernel_; }  // context 0: may use DMA keys and fast registration

  Result<abi::PortAttr> query_port(std::uint8_t port_num = 1);
  Result<std::uint16_t> query_pkey(std::uint8_t index, std::uint8_t port_num = 1);

  // Writes `gid` at `index` of the port's table, with the only RoCE type of the device.
  Result<> bind_gid(std::uint32_t index, const abi::Gid& gid);
  Result<> unbind_gid(std::uint32_t index, const abi::Gid& gid);

  // The oldest unread asynchronous event, if any. Does not block.
  std::optional<AsyncEvent> poll_async_event();
  std::optional<AsyncEvent> wait_async_event(Duration timeout);

  // The handle in the oldest unread notification, if any. For callers that have no CompletionQueue objects.
  std::optional<std::uint32_t> poll_notification();

  // Gives each notification to its CQ and returns the number of notifications. CompletionQueue::wait() does
  // so too.
  std::uint32_t dispatch_notifications();
  // As dispatch_notifications(), after waiting up to `timeout` for vector 2.
  std::uint32_t wait_notifications(Duration timeout);

  // For the caller's own poll loop.
  int event_fd(abi::Vector vector) const { return interrupts_.fd(vector); }

  // Counters of things that a correct device never does. Tests expect zeros.
  struct Oddities {
    std::uint64_t unexpected_responses = 0;   // interrupts of vector 0 without a command
    std::uint64_t unknown_notifications = 0;  // for a CQ that does not exist
    std::uint64_t broken_rings = 0;           // an index of an event ring was out of range
    friend bool operator==(const Oddities&, const Oddities&) = default;
  };
  Oddities oddities() const;

  // --- For the objects of this library. ---

  void register_qp(std::uint32_t handle, QueuePair* qp) { qps_[handle] = qp; }  // null: the QP is destroyed
  void register_cq(std::uint32_t handle, CompletionQueue* cq) { cqs_[handle] = cq; }
  QueuePair* qp_at(std::uint64_t handle) const { return handle < qps_.size() ? qps_[handle] : nullptr; }
  bool is_valid_qp_handle(std::uint32_t handle) const { return handle < qps_.size(); }
  bool is_valid_cq_handle(std::uint32_t handle) const { return handle < cqs_.size(); }

  Result<> write_register(abi::Register reg, std::uint32_t value);
  Result<std::uint32_t> read_register(abi::Register reg);
  std::uint64_t uar_pfn(std::uint32_t uar) const { return uar_bar_address_ / abi::kPageBytes + uar; }
  Result<std::uint32_t> take_uar();
  void give_uar_back(std::uint32_t uar) { uars_[uar] = false; }
  Result<std::size_t> take_window();  // a number for a DmaWindow
  void give_window_back(std::size_t window) { windows_[window] = false; }

 private:
  Device(std::unique_ptr<Bus> bus, const DeviceOptions& options);
  Result<> probe(const DeviceOptions& options);
  Result<> check_caps() const;
  Result<> control(abi::Ctl action);

  std::unique_ptr<Bus> bus_;
  std::uint64_t uar_bar_address_;
  std::uint32_t version_ = 0;
  abi::Caps caps_{};
  std::unique_ptr<GuestRam> ram_;
  std::unique_ptr<SharedRegion> region_;
  Interrupts interrupts_;
  std::unique_ptr<CommandChannel> commands_;
  std::unique_ptr<Context> kernel_;
  std::vector<QueuePair*> qps_;        // borrowed, by handle
  std::vector<CompletionQueue*> cqs_;  // borrowed, by handle
  std::vector<bool> uars_;             // taken doorbell pages
  std::vector<bool> windows_;          // taken numbers of DMA windows
  Oddities oddities_;
  bool ram_mapped_ = false;
  bool announced_ = false;
  bool closed_ = false;
};

}  // namespace pvrdma::driver
