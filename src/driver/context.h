// Context: owns objects on behalf of the kernel, or of one user process with its own doorbell page.
// docs/device.md 3.6, 9.2. Thread: the Device's.
#pragma once

#include <cstdint>
#include <memory>

#include "abi/registers.h"
#include "base/result.h"

namespace pvrdma::driver {

class Device;

class Context {
 public:
  // A user context (CREATE_UC). `device` is borrowed and outlives the context.
  static Result<std::unique_ptr<Context>> create_user(Device& device);
  // Handle 0, doorbell page 0. Call Device::kernel() instead.
  static std::unique_ptr<Context> kernel(Device& device);

  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Sends DESTROY_UC. The destructor does so too and ignores the result. Idempotent.
  Result<> destroy();

  Device& device() const { return device_; }
  std::uint32_t handle() const { return handle_; }
  std::uint32_t uar() const { return uar_; }
  bool is_kernel() const { return handle_ == 0; }

  // Writes a doorbell on this context's page. It is the only system call of the data path, or a plain store
  // if the page is mapped.
  Result<> ring(abi::UarWord word, std::uint32_t value);

 private:
  Context(Device& device, std::uint32_t handle, std::uint32_t uar)
      : device_(device), handle_(handle), uar_(uar) {}

  Device& device_;
  std::uint32_t handle_;
  std::uint32_t uar_;
  bool alive_ = true;
};

}  // namespace pvrdma::driver
