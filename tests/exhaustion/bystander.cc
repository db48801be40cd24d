#include "exhaustion/bystander.h"

#include <algorithm>

#include "support/must.h"

namespace pvrdma::test {
namespace {

constexpr std::uint32_t kWriteBytes = 256;

}  // namespace

Bystander::Bystander(const DaemonProcess& daemon) : daemon_(daemon), device_(daemon.open("B")) {
  must(device_->bind_gid(0, gid_of(1)));
  from_ = std::make_unique<RcEndpoint>(*device_, gid_of(1));
  to_ = std::make_unique<RcEndpoint>(*device_, gid_of(1));
  must(connect(*from_, *to_));
  objects_ = daemon_.ask("/v1/adapters/B")["objects"];
}

std::string Bystander::trouble_as_a_guest() {
  if (auto version = device_->read_register(abi::Register::kVersion); !version)
    return version.error().message;
  const std::uint8_t seed = ++turn_;
  from_->fill(0, kWriteBytes, seed);
  const driver::Sge sge = from_->sge(0, kWriteBytes);
  if (!from_->qp->post_send(driver::wr::write(seed, std::span(&sge, 1), to_->remote())).ok()) {
    return "a work request cannot be posted";
  }
  driver::WorkCompletion done;
  const Instant deadline = Instant::now() + std::chrono::seconds(30);
  while (from_->send_cq->poll(std::span(&done, 1)) == 0) {
    if (Instant::now() > deadline) return "a write does not complete";
  }
  if (!done.ok() || !to_->holds(0, kWriteBytes, seed)) return "a write has failed";
  if (device_->oddities() != driver::Device::Oddities{}) return "its driver was sent nonsense";
  return device_->poll_async_event() ? "it was sent an asynchronous event" : "";
}

std::string Bystander::trouble() {
  if (std::string seen = trouble_as_a_guest(); !seen.empty()) return seen;
  const nlohmann::json shown = daemon_.ask("/v1/adapters/B");
  if (shown["objects"] != objects_)
    return "its objects were " + objects_.dump() + ", are " + shown["objects"].dump();
  return shown["state"] == "active" ? "" : "its adapter is " + shown["state"].dump();
}

}  // namespace pvrdma::test
