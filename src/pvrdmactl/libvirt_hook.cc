#include "pvrdmactl/libvirt_hook.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "pvrdmactl/domain_metadata.h"
#include "pvrdmactl/guarded.h"
#include "pvrdmactl/json_fields.h"

namespace pvrdma::ctl {
namespace {

constexpr std::chrono::milliseconds kLookPause(50);
constexpr std::uint32_t kReachSeconds = 5;
constexpr std::uint32_t kAnswerSeconds = 15;  // a change waits for the store

Failure refuse(const std::string& why, int code = 0) {
  return fail(ErrorKind::kConflict, code, why);
}

// The errno of a connection to a daemon that starts, or that systemd restarts.
bool is_starting(int code) {
  return code == ENOENT || code == ECONNREFUSED;
}

Result<Json> ask(const SendRequest& send, Method method, std::string path, std::string body = {}) {
  const auto answer = send({.method = method,
                            .path = std::move(path),
                            .body = std::move(body),
                            .answer_seconds = kAnswerSeconds,
                            .reach_seconds = kReachSeconds});
  if (!answer) return refuse(answer.error().message, answer.error().code);
  return Json::parse(*answer);
}

// The object of a list with this name; null: there is none.
Json named_in(const Json& list, const std::string& name) {
  const auto found =
      std::ranges::find_if(list, [&](const Json& each) { return text_at(each, "name") == name; });
  return found == list.end() ? Json() : *found;
}

Result<void> check_mac(const DomainVm& vm, const Json& adapter) {
  const std::string mac = text_at(adapter, "mac");
  if (std::ranges::find(vm.macs, mac) != vm.macs.end()) return {};
  return refuse(
      fmt::format("no interface of domain {} has its adapter's MAC {}, so its driver would find no "
                  "adapter: add the VM to the domain again with pvrdmactl vm libvirt-xml {} --merge",
                  vm.name, mac, vm.name));
}

// Whether this host's daemon will serve the VM's adapter.
Result<void> check_place(const SendRequest& send, const Json& vm) {
  const auto self = ask(send, Method::kGet, "/v1/hosts/self");
  if (!self) return Failure(self.error());
  const std::string here = text_at(*self, "name");
  const std::string name = text_at(vm, "name");
  const std::string host = text_at(vm, "host");
  const bool arrives = vm.at("motion").is_object() && text_at(vm.at("motion"), "to") == here;
  if (host == here || arrives) return {};
  return refuse(
      fmt::format("VM {} is on host {}, not on this host {}: start it there, or bring it here with "
                  "pvrdmactl vm set {} --host {}",
                  name, host, here, name, here));
}

// Makes the VM or its adapter. Returns whether it has made something.
Result<bool> make_missing(const SendRequest& send, const DomainVm& wanted, const Json& vm) {
  if (vm.is_object() && !vm.at("adapter").is_null()) return false;
  Json definition = wanted.definition;
  definition.erase("host");  // it is this host
  const auto made = vm.is_null() ? ask(send, Method::kPost, "/v1/vms", definition.dump())
                                 : ask(send, Method::kPut, fmt::format("/v1/vms/{}/adapter", wanted.name),
                                       definition.at("adapter").dump());
  if (!made) return Failure(made.error());
  return true;
}

// One look. Returns whether the adapter is served.
Result<bool> is_served(const SendRequest& send, const DomainVm& wanted) {
  const auto adapters = ask(send, Method::kGet, "/v1/adapters");
  if (!adapters) return Failure(adapters.error());
  if (const Json adapter = named_in(*adapters, wanted.name); !adapter.is_null()) {
    if (auto checked = check_mac(wanted, adapter); !checked) return Failure(std::move(checked).error());
    return true;
  }
  const auto vms = ask(send, Method::kGet, "/v1/vms");
  if (!vms) return Failure(vms.error());
  const Json vm = named_in(*vms, wanted.name);
  if (vm.is_object()) {
    if (auto checked = check_place(send, vm); !checked) return Failure(std::move(checked).error());
    for (const char* reason : {"power_on_refusal", "not_served"}) {
      if (const std::string why = text_at(vm, reason); !why.empty() && vm.at("adapter").is_object())
        return refuse(fmt::format("the adapter of VM {} is not served: {}", wanted.name, why));
    }
  }
  const auto made = make_missing(send, wanted, vm);
  if (!made) return Failure(made.error());
  return false;
}

}  // namespace

Result<void> prepare_domain(const SendRequest& send, const std::string& domain,
                            std::chrono::milliseconds patience) {
  const auto vm = vm_of_domain(domain);
  if (!vm) return Failure(vm.error());
  if (!*vm) return {};
  const auto end = std::chrono::steady_clock::now() + patience;
  while (true) {
    const auto served = guarded([&] { return is_served(send, **vm); });
    const bool is_last = std::chrono::steady_clock::now() >= end;
    if (!served && (is_last || !is_starting(served.error().code))) return Failure(served.error());
    if (served && *served) return {};
    if (is_last) {
      return refuse(
          fmt::format("the daemon does not serve the adapter of VM {} after {} s: see journalctl -u "
                      "pvrdmad",
                      (*vm)->name, std::chrono::duration_cast<std::chrono::seconds>(patience).count()));
    }
    std::this_thread::sleep_for(kLookPause);
  }
}

}  // namespace pvrdma::ctl
