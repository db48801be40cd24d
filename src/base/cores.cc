#include "base/cores.h"

#include <array>
#include <cerrno>
#include <fmt/core.h>
#include <pthread.h>
#include <sched.h>

namespace pvrdma {
namespace {

// The largest number of cores for which Linux can be built.
struct CoreMask {
  static constexpr std::size_t kCores = 8192;
  static constexpr std::size_t kBytes = kCores / 8;

  std::array<cpu_set_t, kBytes / sizeof(cpu_set_t)> sets{};

  bool has(std::size_t core) const { return CPU_ISSET_S(core, kBytes, sets.data()); }
  void add(std::size_t core) { CPU_SET_S(core, kBytes, sets.data()); }
};

}  // namespace

std::vector<std::uint32_t> usable_cores() {
  CoreMask mask;
  // The kernel leaves out the cores that this process may not use.
  std::thread([&mask] {
    for (std::size_t core = 0; core < CoreMask::kCores; ++core) mask.add(core);
    ::sched_setaffinity(0, CoreMask::kBytes, mask.sets.data());
    mask = {};
    if (::sched_getaffinity(0, CoreMask::kBytes, mask.sets.data()) != 0) mask = {};
  }).join();
  std::vector<std::uint32_t> cores;
  for (std::uint32_t core = 0; core < CoreMask::kCores; ++core) {
    if (mask.has(core)) cores.push_back(core);
  }
  return cores;
}

std::string describe_cores(const std::vector<std::uint32_t>& cores) {
  std::string text;
  for (std::size_t first = 0; first < cores.size();) {
    std::size_t last = first;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", cores[first]);
    if (last != first) text += fmt::format("-{}", cores[last]);
    first = last + 1;
  }
  return text;
}

Result<void> bind_to_core(std::thread& thread, std::uint32_t core) {
  CoreMask mask;
  mask.add(core);
  const int error = ::pthread_setaffinity_np(thread.native_handle(), CoreMask::kBytes, mask.sets.data());
  if (error == 0) return {};
  return fail_errno(error, fmt::format("cannot bind a thread to core {}", core));
}

}  // namespace pvrdma
