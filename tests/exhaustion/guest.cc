#include "exhaustion/guest.h"

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "support/must.h"

namespace pvrdma::test {
namespace {

constexpr Duration kGuard = std::chrono::seconds(30);  // a hang guard
constexpr std::uint32_t kWriteBytes = 4096;

}  // namespace

bool Guest::live() {
  refusals_ = 0;
  sentence_.clear();
  const std::size_t descriptors_before = daemon_.descriptors();
  const bool done = step([this] { device_ = daemon_.open(adapter_, patience_); }, Again::kAlways) && work();
  // In the order of dependence. If the connection is lost, the objects' results are ignored.
  second_.reset();
  first_.reset();
  srq_.reset();
  user_pd_.reset();
  user_.reset();
  device_.reset();
  // The guest's end has sites, too. The daemon has finished it when it has closed the socket.
  const Instant deadline = Instant::now() + kGuard;
  while (daemon_.is_alive() && daemon_.descriptors() > descriptors_before) {
    if (Instant::now() > deadline)
      throw std::runtime_error("the daemon does not let go of a guest that left");
  }
  return done;
}

bool Guest::hung() const {
  return sentence_.find(std::generic_category().message(ETIMEDOUT)) != std::string::npos ||
         sentence_.find("did not") != std::string::npos;
}

bool Guest::work() {
  return step([this] { must(device_->bind_gid(0, gid_of(0))); }) &&
         step([this] { user_ = must(driver::Context::create_user(*device_)); }) &&
         step([this] { user_pd_ = must(driver::ProtectionDomain::create(*user_)); }) &&
         step([this] { srq_ = must(driver::SharedReceiveQueue::create(*user_pd_)); }) &&
         step([this] { must(srq_->set_limit(1)); }) &&
         step([this] { first_ = std::make_unique<RcEndpoint>(*device_, gid_of(0), of_user()); }) &&
         step([this] { second_ = std::make_unique<RcEndpoint>(*device_, gid_of(0)); }) &&
         step([this] { register_memory(); }) && step([this] { connect_both(); }) &&
         step([this] { write(); }) && step([this] { must(device_->query_port()); }) &&
         step([this] { must(first_->qp->query()); }) && step([this] { must(user_->destroy()); }) &&
         step([this] { must(device_->unbind_gid(0, gid_of(0))); });
}

EndpointOptions Guest::of_user() const {
  EndpointOptions options;
  options.context = user_.get();
  options.pd = user_pd_.get();
  return options;
}

void Guest::register_memory() {
  const auto pd = must(driver::ProtectionDomain::create(device_->kernel()));
  const auto region = must(driver::MemoryRegion::for_fast_register(*pd, 64));
  const auto all = must(driver::MemoryRegion::of_all_memory(*pd, abi::kAccessLocalWrite));
}

// Starts with a reset, because the step may be repeated.
void Guest::connect_both() {
  must(first_->qp->to_reset());
  must(second_->qp->to_reset());
  must(connect(*first_, *second_));
}

void Guest::write() {
  first_->fill(0, kWriteBytes, 1);
  const driver::Sge sge = first_->sge(0, kWriteBytes);
  if (!first_->qp->post_send(driver::wr::write(1, std::span(&sge, 1), second_->remote())).ok()) {
    throw std::runtime_error("the doorbell cannot be rung");
  }
  driver::WorkCompletion done;
  const Instant deadline = Instant::now() + kGuard;
  while (first_->send_cq->poll(std::span(&done, 1)) == 0) {
    if (Instant::now() > deadline) throw std::runtime_error("a write did not complete");
  }
  if (!done.ok() || !second_->holds(0, kWriteBytes, 1)) throw std::runtime_error("a write has failed");
}

bool Guest::step(const std::function<void()>& action, Again again) {
  for (int attempt = 0;; ++attempt) {
    try {
      action();
      return true;
    } catch (const std::exception& refusal) {
      ++refusals_;
      sentence_ = refusal.what();
      if (hung() || attempt == 1) return false;
    }
    const bool connected = device_ != nullptr && device_->read_register(abi::Register::kVersion).has_value();
    if (again == Again::kWhileConnected && !connected) return false;
  }
}

}  // namespace pvrdma::test
