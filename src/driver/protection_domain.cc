#include "driver/protection_domain.h"

#include "driver/device.h"

namespace pvrdma::driver {

Result<std::unique_ptr<ProtectionDomain>> ProtectionDomain::create(Context& context) {
  auto answer = context.device().commands().call<abi::CreatePdResponse>(
      abi::Command::kCreatePd, abi::CreatePdRequest{.ctx_handle = context.handle()});
  if (!answer) return Failure(std::move(answer.error()));
  return std::unique_ptr<ProtectionDomain>(new ProtectionDomain(context, answer->pd_handle));
}

ProtectionDomain::~ProtectionDomain() {
  (void)destroy();
}

Result<> ProtectionDomain::destroy() {
  if (!alive_) return {};
  auto done =
      context_.device().commands().run(abi::Command::kDestroyPd, abi::DestroyPdRequest{.pd_handle = handle_});
  if (done) alive_ = false;
  return done;
}

}  // namespace pvrdma::driver
