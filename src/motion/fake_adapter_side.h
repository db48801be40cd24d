// FakeAdapterSide: an adapter for which each call succeeds, unless act() fails.
#pragma once

#include <cerrno>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "motion/adapter_side.h"

namespace pvrdma::motion {

class FakeAdapterSide : public AdapterSide {
 public:
  // Called with the name of each call. Its error becomes the call's error.
  virtual Result<void> act(std::string_view) { return {}; }

  Result<Clients> clients(const std::string&) override { return after("clients", Clients{.has_vmm = true}); }
  Result<vmm::PciImage> pci_image(const std::string&) override { return after("pci_image", image()); }
  Result<void> write_msix_table(const std::string&, Vmm, const vmm::PciImage&) override {
    return act("write_msix_table");
  }
  Result<void> check_pci(const std::string&, Vmm, const vmm::PciImage&) override { return act("check_pci"); }
  Result<void> expect_successor(const std::string&) override { return act("expect_successor"); }
  Result<SwitchedOver> switch_over(const std::string&) override {
    return after("switch_over", SwitchedOver{1000, std::chrono::milliseconds(1)});
  }
  Result<void> end_successor(const std::string&) override { return act("end_successor"); }
  Result<void> stop(const std::string&) override { return act("stop"); }
  Result<void> go_on(const std::string&) override { return act("go_on"); }
  Result<void> resume(const std::string&) override { return act("resume"); }
  Result<std::vector<std::byte>> save(const std::string&, Save, const vmm::PciImage&) override {
    return after("save", saved());
  }
  Result<vmm::PciImage> load(const std::string&, std::vector<std::byte>) override {
    return after("load", image());
  }
  Result<void> unload(const std::string&) override { return act("unload"); }
  Result<void> begin_log(const std::string&) override { return act("begin_log"); }
  Result<void> end_log(const std::string&) override { return act("end_log"); }
  Result<std::uint64_t> logged_bytes(const std::string&) override {
    return after("logged_bytes", std::uint64_t{4096});
  }
  Result<void> mark_pages(const std::string&) override { return act("mark_pages"); }
  Result<void> give_pages(const std::string&, const TakePages& take) override {
    if (auto done = act("give_pages"); !done) return done;
    return take({.address = 4096, .bytes = std::vector<std::byte>(4096)});
  }
  Result<void> outlive_vmm(const std::string&) override { return act("outlive_vmm"); }
  Result<void> end_with_vmm(const std::string&) override { return act("end_with_vmm"); }
  Result<void> depart(const std::string&) override { return act("depart"); }
  Result<void> put_pages(const std::string&, Pages) override { return act("put_pages"); }
  Result<void> arrive(const std::string&) override { return act("arrive"); }
  Result<void> nudge(const std::string&) override { return act("nudge"); }

  static vmm::PciImage image() {
    return {.config = {}, .msix_table = std::array<std::uint8_t, vmm::kMsixTableBytes>{}};
  }
  static std::vector<std::byte> saved() { return {std::byte{1}, std::byte{2}, std::byte{3}}; }

 protected:
  template <typename Value>
  Result<Value> after(std::string_view call, Value value) {
    if (auto done = act(call); !done) return Failure(std::move(done).error());
    return value;
  }
};

// An AdapterSide on which one call fails.
class FailingAdapterSide final : public FakeAdapterSide {
 public:
  // `fails`: for example "side.save", or "once side.save" to fail once. "..., and back": the adapter does not
  // go back to its VMM. "nobody came", "its VMM leaves": clients() says so of the successor. Any other word:
  // no call fails here.
  explicit FailingAdapterSide(std::string fails) : fails_(std::move(fails)) {}

  bool is_stopped() {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }
  int resumed() {
    const std::lock_guard lock(mutex_);
    return resumed_;
  }

  bool expects_successor() {
    const std::lock_guard lock(mutex_);
    return expects_;
  }
  bool is_switched_over() {
    const std::lock_guard lock(mutex_);
    return switched_;
  }

  // Set it before the adapter is used.
  std::function<void()> before_switch_over;

  Result<void> act(std::string_view call) override {
    if (call == "switch_over" && before_switch_over) before_switch_over();
    const std::lock_guard lock(mutex_);
    if (call == "resume") ++resumed_;
    if (call == "end_successor") expects_ = false;
    const std::string name = "side." + std::string(call);
    if (fails_ == name) return fail(EIO, "no " + name);
    if (fails_ == "once " + name && !std::exchange(failed_, true))
      return fail(ErrorKind::kUnavailable, "the shard does not answer");
    if (call == "stop" || call == "load") stopped_ = true;
    if (call == "go_on") stopped_ = false;
    if (call == "expect_successor") expects_ = true;
    if (call == "switch_over") {
      if (switched_ && fails_.ends_with(", and back")) return fail(EIO, "no switch back");
      switched_ = !switched_;
    }
    return {};
  }
  Result<Clients> clients(const std::string& adapter) override {
    auto clients = FakeAdapterSide::clients(adapter);
    if (!clients || !expects_successor()) return clients;
    clients->successor = fails_ == "nobody came"      ? Successor::kExpected
                         : fails_ == "its VMM leaves" ? Successor::kNone
                                                      : Successor::kIsHere;
    return clients;
  }
  Result<vmm::PciImage> load(const std::string& adapter, std::vector<std::byte> state) override {
    if (state != saved()) return fail(ErrorKind::kInvalid, "another state");
    return FakeAdapterSide::load(adapter, std::move(state));
  }

 private:
  const std::string fails_;
  std::mutex mutex_;
  bool stopped_ = false;  // guarded, like the members below
  int resumed_ = 0;
  bool failed_ = false;  // the failure that happens once has happened
  bool expects_ = false;
  bool switched_ = false;
};

}  // namespace pvrdma::motion
