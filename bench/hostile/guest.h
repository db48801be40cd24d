// Guest: an attacker's guest. It has the user-space driver on one adapter, and the raw vfio-user client for
// accesses that no driver makes. Thread: one.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "driver/driver.h"
#include "support/must.h"
#include "vfio_user/client.h"

namespace pvrdma::bench {

using test::must;

inline constexpr std::uint32_t kGsiQkey = 0x8001'0000;
inline constexpr std::uint32_t kMadBytes = 256;

// A sparse memfd of that size. Throws std::runtime_error.
Fd memory_file(std::uint64_t bytes);

class Guest {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(30);

  explicit Guest(const std::string& socket, const driver::DeviceOptions& options = {},
                 Duration patience = kPatience);

  driver::Device& device() const { return *device_; }
  vfio_user::Client& client() const { return *client_; }

  // Maps a file's bytes for the device, from `iova` on.
  void map(std::uint64_t iova, const Fd& file, std::uint64_t bytes) {
    must(device_->bus().dma_map(iova, bytes, file.get(), 0));
  }

  // Writes to a register or doorbell without waiting for the acknowledgement. False: the connection is gone.
  bool post(driver::Region region, std::uint64_t offset, std::uint32_t value);

  // Submits a command without reading its response. Returns the device's ERR.
  template <typename Request>
  Result<std::uint32_t> submit(abi::Command command, Request request) {
    request.hdr.cmd = static_cast<std::uint32_t>(command);
    return device_->commands().submit(std::as_bytes(std::span(&request, 1)));
  }

 private:
  vfio_user::Client* client_;  // borrowed from the device's bus
  std::unique_ptr<driver::Device> device_;
};

// `count` pages from `iova` on, each `stride` pages after the one before.
std::vector<driver::GuestPhys> pages_from(std::uint64_t iova, std::uint64_t count, std::uint64_t stride = 1);

// The command that makes a memory region, with the directory that names its pages. It may be sent many times.
struct LargeRegion {
  LargeRegion(Guest& guest, const std::vector<driver::GuestPhys>& pages);

  Result<abi::CreateMrResponse> create(Guest& guest) const {
    return guest.device().commands().call<abi::CreateMrResponse>(abi::Command::kCreateMr, request);
  }

  std::unique_ptr<driver::ProtectionDomain> pd;
  std::unique_ptr<driver::PageDirectory> directory;
  abi::CreateMrRequest request;
};

// Many QPs that share one ring and one CQ with one entry. So each QP costs only what the device keeps for it.
class Crowd {
 public:
  // Makes `count` QPs of `context` (borrowed; the guest's), or as many as the device allows. refusal() then
  // says why there are no more.
  Crowd(Guest& guest, driver::Context& context, std::uint32_t count);

  // Takes QP number `index` from RESET to RTS. Its peer does not answer. Error: the device's refusal.
  Result<> connect(std::size_t index, const driver::Route& route);
  // Connects all QPs, each with one work request in progress.
  void start(const abi::Gid& own_gid);
  // Sets QP number `index` to ERR, which flushes its work request.
  void fail(std::size_t index);

  std::size_t size() const { return handles_.size(); }
  std::uint32_t handle(std::size_t index) const { return handles_[index]; }
  const std::string& refusal() const { return refusal_; }

 private:
  Result<> modify(std::uint32_t handle, std::uint32_t mask, const abi::QpAttr& attributes);

  Guest& guest_;
  std::unique_ptr<driver::ProtectionDomain> pd_;
  std::unique_ptr<driver::CompletionQueue> cq_;
  std::unique_ptr<driver::Buffer> ring_;  // state | send | receive
  std::unique_ptr<driver::PageDirectory> directory_;
  std::vector<std::uint32_t> handles_;
  std::string refusal_;
};

}  // namespace pvrdma::bench
