// FakeStandingSide: an adapter that is stopped, saved and loaded, unless that is what fails.
#pragma once

#include <cerrno>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "motion/standing_side.h"

namespace pvrdma::motion {

class FakeStandingSide final : public StandingSide {
 public:
  // `fails`: "side.save", "once side.save"; another word: nothing fails here.
  explicit FakeStandingSide(std::string fails) : fails_(std::move(fails)) {}

  static std::vector<std::byte> saved() { return {std::byte{1}, std::byte{2}, std::byte{3}}; }
  bool is_stopped() {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }
  int resumed() {
    const std::lock_guard lock(mutex_);
    return resumed_;
  }

  Result<void> stop(const std::string&) override { return set_stopped("side.stop", true); }
  Result<void> go_on(const std::string&) override { return set_stopped("side.go_on", false); }
  Result<void> resume(const std::string&) override {
    const std::lock_guard lock(mutex_);
    ++resumed_;
    return outcome("side.resume");
  }
  Result<vmm::PciImage> pci_image(const std::string&) override {
    if (auto done = outcome("side.pci_image"); !done) return Failure(done.error());
    return image();
  }
  Result<std::vector<std::byte>> save(const std::string&, const vmm::PciImage&) override {
    if (auto done = outcome("side.save"); !done) return Failure(done.error());
    return saved();
  }
  Result<vmm::PciImage> load(const std::string&, std::vector<std::byte> state) override {
    if (state != saved()) return fail(EINVAL, "another state");
    if (auto done = set_stopped("side.load", true); !done) return Failure(done.error());
    return image();
  }
  Result<void> write_own_msix_table(const std::string&, const vmm::PciImage&) override {
    return outcome("side.write_own_msix_table");
  }
  Result<void> check_own(const std::string&, const vmm::PciImage&) override {
    return outcome("side.check_own");
  }

 private:
  static vmm::PciImage image() { return {.has_msix_table = true}; }
  Result<void> outcome(const char* call) {
    if (fails_ == call) return fail(EIO, std::string("no ") + call);
    if (fails_ == std::string("once ") + call && !std::exchange(failed_, true))
      return fail(ETIMEDOUT, "the shard does not answer");
    return {};
  }
  Result<void> set_stopped(const char* call, bool stopped) {
    const std::lock_guard lock(mutex_);
    auto done = outcome(call);
    if (done) stopped_ = stopped;
    return done;
  }

  const std::string fails_;
  std::mutex mutex_;
  bool stopped_ = false;  // guarded, as what follows
  int resumed_ = 0;
  bool failed_ = false;  // once
};

}  // namespace pvrdma::motion
