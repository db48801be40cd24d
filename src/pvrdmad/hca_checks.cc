#include "pvrdmad/hca_checks.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <string>
#include <vector>

#include "transport/hca/check.h"
#include "transport/hca/rdma.h"

namespace pvrdma::daemon {
namespace {

using transport::hca::CheckReport;

struct Nobody final : transport::hca::NicUser {
  void on_news(News) override {}
};

Result<std::string> find_device(const std::string& wanted) {
  const std::vector<std::string> devices = transport::hca::rdma_devices();
  if (devices.empty()) return fail(ENOENT, "this host has no RDMA device");
  std::string names;
  for (const std::string& each : devices) names += (names.empty() ? "" : ", ") + each;
  if (wanted.empty()) {
    if (devices.size() == 1) return devices.front();
    return fail(EINVAL, fmt::format("this host has several RDMA devices: say which of {}", names));
  }
  if (std::ranges::find(devices, wanted) != devices.end()) return wanted;
  return fail(ENOENT, fmt::format("this host has no RDMA device {}: there are {}", wanted, names));
}

std::uint64_t whole(double value) {
  return static_cast<std::uint64_t>(value);
}

control::HcaCheck answer_of(const CheckReport& report) {
  control::HcaCheck check;
  check.device = report.device;
  check.mtu = report.port.mtu;
  for (const verbs::Gid& gid : report.port.gids) check.gids.push_back(gid.to_string());
  check.gid = report.gid.to_string();
  check.max_qps = report.limits.qps;
  check.max_work_requests = report.limits.work_requests;
  check.max_sges = report.limits.sges;
  check.max_cqes = report.limits.cqes;
  check.max_regions = report.limits.regions;
  check.max_region_bytes = report.limits.region_bytes;
  check.max_reads = report.limits.reads;
  check.register_untouched_us = microseconds_of(report.register_untouched_per_gib);
  check.register_us = microseconds_of(report.register_touched_per_gib);
  check.deregister_us = microseconds_of(report.deregister_per_gib);
  check.sends = whole(report.sends_per_second);
  check.send_bytes = whole(report.send_bytes_per_second);
  check.read_bytes = whole(report.read_bytes_per_second);
  check.long_read_bytes = whole(report.long_read_bytes_per_second);
  check.read_ns = static_cast<std::uint64_t>(report.read_takes.count());
  return check;
}

}  // namespace

Result<control::HcaCheck> HcaChecks::check(const control::HcaCheckWish& wish) {
  const std::unique_lock lock(one_at_a_time_, std::try_to_lock);
  if (!lock) return fail(EBUSY, "an RDMA device is being checked: try again when that is over");
  const auto device = find_device(wish.device);
  if (!device) return Failure(device.error());
  Nobody nobody;
  const auto nic = transport::hca::open_rdma(*device, nobody);
  if (!nic) return Failure(nic.error());
  const SteadyClock clock;
  const auto report =
      transport::hca::check_nic(*nic, {.memory_bytes = std::uint64_t{wish.memory_mib} << 20}, clock);
  if (!report) return Failure(report.error());
  control::HcaCheck answer = answer_of(*report);
  answer.memory_mib = wish.memory_mib;
  return answer;
}

}  // namespace pvrdma::daemon
