#include "guestmem/mapped_memory.h"

#include <algorithm>
#include <fmt/core.h>
#include <sys/resource.h>

namespace pvrdma::guestmem {

std::uint64_t default_total_mapped_bytes() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kDefaultTotalMappedBytes;
  return std::min<std::uint64_t>(kDefaultTotalMappedBytes, limit.rlim_cur / 2);
}

bool MappedCount::take(std::uint64_t amount, std::uint64_t kept) {
  const std::uint64_t most = limit_ - kept;
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (used > most || amount > most - used) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
  } while (!used_.compare_exchange_weak(used, used + amount, std::memory_order_relaxed));
  return true;
}

std::optional<MappedMemory::Refusal> MappedMemory::take(std::uint64_t bytes) noexcept {
  return take(bytes, 0);
}

std::optional<MappedMemory::Refusal> MappedMemory::take(std::uint64_t bytes, std::uint64_t kept) noexcept {
  if (!bytes_.take(bytes)) return Refusal{this, &bytes_, false};
  if (!mappings_.take(1, kept)) {
    bytes_.give_back(bytes);
    return Refusal{this, &mappings_, kept != 0};
  }
  if (part_of_ == nullptr) return std::nullopt;
  const std::uint64_t others = mappings_.used() > kFewMappings ? part_of_->mappings_.limit() / 4 : 0;
  const std::optional<Refusal> refusal = part_of_->take(bytes, others);
  if (refusal) {
    mappings_.give_back(1);
    bytes_.give_back(bytes);
  }
  return refusal;
}

std::string MappedMemory::Refusal::to_text() const {
  if (limit == &by->bytes_) {
    return fmt::format("{} ({}mapped_mib) allows {} MiB of guest memory, of which {} are in use", by->whose_,
                       by->keys_, limit->limit() >> 20, limit->used() >> 20);
  }
  return fmt::format("{} ({}mappings) allows {} mappings of guest memory, of which {} are in use{}",
                     by->whose_, by->keys_, limit->limit(), limit->used(),
                     is_kept ? "; the last quarter is for adapters with few" : "");
}

void MappedMemory::give_back(std::uint64_t bytes, bool is_last) {
  bytes_.give_back(bytes);
  if (is_last) mappings_.give_back(1);
  if (part_of_ != nullptr) part_of_->give_back(bytes, is_last);
}

}  // namespace pvrdma::guestmem
