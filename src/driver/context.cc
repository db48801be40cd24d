#include "driver/context.h"

#include "driver/device.h"

namespace pvrdma::driver {

std::unique_ptr<Context> Context::kernel(Device& device) {
  std::unique_ptr<Context> made(new Context(device, 0, 0));
  made->alive_ = false;  // destroy() has nothing to do
  return made;
}

Result<std::unique_ptr<Context>> Context::create_user(Device& device) {
  auto uar = device.take_uar();
  if (!uar) return Failure(std::move(uar.error()));
  const std::uint64_t pfn = device.uar_pfn(*uar);
  auto answer = device.commands().call<abi::CreateUcResponse>(
      abi::Command::kCreateUc,
      abi::CreateUcRequest{.pfn64 = device.version() < abi::kVersionPpn64 ? static_cast<std::uint32_t>(pfn)
                                                                          : pfn});
  if (!answer || answer->ctx_handle == 0) {
    device.give_uar_back(*uar);
    return answer ? fail("the device gave a user context the kernel's handle")
                  : Failure(std::move(answer.error()));
  }
  return std::unique_ptr<Context>(new Context(device, answer->ctx_handle, *uar));
}

Context::~Context() {
  (void)destroy();
}

Result<> Context::destroy() {
  if (!alive_) return {};
  alive_ = false;
  device_.give_uar_back(uar_);
  return device_.commands().run(abi::Command::kDestroyUc, abi::DestroyUcRequest{.ctx_handle = handle_});
}

Result<> Context::ring(abi::UarWord word, std::uint32_t value) {
  return device_.bus().region_write32(Region::kUar,
                                      uar_ * abi::kUarPageBytes + static_cast<std::uint32_t>(word), value);
}

}  // namespace pvrdma::driver
