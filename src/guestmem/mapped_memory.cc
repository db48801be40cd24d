#include "guestmem/mapped_bytes.h"

#include <algorithm>
#include <sys/resource.h>

namespace pvrdma::guestmem {

std::uint64_t default_total_mapped_bytes() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kDefaultTotalMappedBytes;
  return std::min<std::uint64_t>(kDefaultTotalMappedBytes, limit.rlim_cur / 2);
}

const MappedBytes* MappedBytes::take(std::uint64_t bytes) {
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    const std::uint64_t most = limit();
    if (used > most || bytes > most - used) return this;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  if (part_of_ == nullptr) return nullptr;
  const MappedBytes* const refused_by = part_of_->take(bytes);
  if (refused_by != nullptr) used_.fetch_sub(bytes, std::memory_order_relaxed);
  return refused_by;
}

void MappedBytes::give_back(std::uint64_t bytes) {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  if (part_of_ != nullptr) part_of_->give_back(bytes);
}

}  // namespace pvrdma::guestmem
