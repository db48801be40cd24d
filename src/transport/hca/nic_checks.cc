#include "transport/hca/nic_checks.h"

#include <algorithm>
#include <fmt/core.h>
#include <string>
#include <vector>

#include "transport/hca/check.h"
#include "transport/hca/rdma.h"

namespace pvrdma::transport::hca {
namespace {

struct Nobody final : NicUser {
  void on_news(News) override {}
};

Result<std::string> find_device(const std::string& wanted) {
  const std::vector<std::string> devices = rdma_devices();
  if (devices.empty()) return fail(ErrorKind::kNotFound, "this host has no RDMA device");
  std::string names;
  for (const std::string& each : devices) names += (names.empty() ? "" : ", ") + each;
  if (wanted.empty()) {
    if (devices.size() == 1) return devices.front();
    return fail(ErrorKind::kInvalid, fmt::format("this host has several RDMA devices: name one of {}", names),
                "device");
  }
  if (std::ranges::find(devices, wanted) != devices.end()) return wanted;
  return fail(ErrorKind::kNotFound,
              fmt::format("this host has no RDMA device {}: there are {}", wanted, names), "device");
}

}  // namespace

Result<HcaCheck> NicChecks::check(const HcaCheckWish& wish) {
  const std::unique_lock lock(one_at_a_time_, std::try_to_lock);
  if (!lock)
    return fail(ErrorKind::kConflict, "an RDMA device is being checked: try again when that is over");
  const auto device = find_device(wish.device);
  if (!device) return Failure(device.error());
  Nobody nobody;
  const auto nic = open_rdma(*device, nobody);
  if (!nic) return Failure(nic.error());
  const SteadyClock clock;
  return check_nic(*nic, {.memory_mib = wish.memory_mib}, clock);
}

}  // namespace pvrdma::transport::hca
