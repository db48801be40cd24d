// ProtectionDomain: QPs and memory regions work together only within one protection domain. Thread: the
// Device's.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "driver/context.h"

namespace pvrdma::driver {

class ProtectionDomain {
 public:
  // `context` is borrowed and outlives the protection domain.
  static Result<std::unique_ptr<ProtectionDomain>> create(Context& context);

  ~ProtectionDomain();
  ProtectionDomain(const ProtectionDomain&) = delete;
  ProtectionDomain& operator=(const ProtectionDomain&) = delete;

  // Sends DESTROY_PD. The destructor does so too and ignores the result. Idempotent. EBUSY while objects use
  // it.
  Result<> destroy();

  Context& context() const { return context_; }
  std::uint32_t handle() const { return handle_; }

 private:
  ProtectionDomain(Context& context, std::uint32_t handle) : context_(context), handle_(handle) {}

  Context& context_;
  std::uint32_t handle_;
  bool alive_ = true;
};

}  // namespace pvrdma::driver
