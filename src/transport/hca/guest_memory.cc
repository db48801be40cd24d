#include "transport/hca/guest_memory.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "guestmem/host_mapping.h"

namespace pvrdma::transport::hca {
// A job for the worker's thread and its result.
struct GuestMemory::Job {
  std::shared_ptr<Nic> nic;
  std::shared_ptr<GuestDomain> domain;  // null: the job makes the domain
  std::span<std::byte> memory;
  std::shared_ptr<guestmem::MappingHold> hold;
  std::uint64_t number;
  std::unique_ptr<Registered> made;
  std::string trouble;

  void run() {
    if (domain == nullptr) {
      auto fresh = nic->make_domain();
      if (!fresh) {
        trouble = fresh.error().message;
        return;
      }
      domain = std::make_shared<GuestDomain>(GuestDomain{nic, *std::move(fresh)});
    }
    const std::lock_guard lock(hold->mutex);
    if (hold->is_gone) return;
    auto region = nic->register_memory(memory, RemoteAccess::kRead, domain->domain.get());
    if (!region) {
      trouble = region.error().message;
      return;
    }
    made = std::make_unique<Registered>();
    made->domain = domain;
    made->region = *std::move(region);
  }
};

GuestMemory::~GuestMemory() {
  for (Chunk& chunk : chunks_) {
    if (chunk.registered != nullptr) services_.bury(std::move(chunk.registered));
  }
  services_.bury(std::move(held_));
}

void GuestMemory::refresh() {
  if (memory_.generation() == seen_generation_) return;
  memory_.for_each_ram([this](const guestmem::RamRange& range) {
    if (range.is_writable) add(range);
  });
  register_next();
  seen_generation_ = memory_.generation();
}

void GuestMemory::add(const guestmem::RamRange& range) {
  const auto at = std::ranges::lower_bound(chunks_, range.memory.data(), {},
                                           [](const Chunk& chunk) { return chunk.memory.data(); });
  if (at != chunks_.end() && at->memory.data() == range.memory.data()) return;
  const std::uint64_t most = held_->nic->limits().region_bytes;
  const std::uint64_t chunk_bytes =
      most == 0 ? kChunkBytesMax
                : std::min(kChunkBytesMax, std::max(most & ~(kChunkAlignment - 1), kChunkAlignment));
  std::vector<Chunk> fresh;
  for (std::span<std::byte> rest = range.memory; !rest.empty();) {
    const auto begin = reinterpret_cast<std::uintptr_t>(rest.data());
    const std::uint64_t until_border = chunk_bytes - begin % kChunkAlignment;
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(rest.size(), until_border));
    fresh.push_back(
        {.memory = rest.first(bytes), .hold = range.hold, .number = next_number_++, .registered = nullptr});
    rest = rest.subspan(bytes);
  }
  if (chunks_.size() + fresh.size() > kChunksMax) {
    trouble_ = "the VM's memory is in too many pieces";
    return;
  }
  chunks_.insert(at, std::make_move_iterator(fresh.begin()), std::make_move_iterator(fresh.end()));
}

// Registers the largest chunk that was not tried yet.
void GuestMemory::register_next() {
  if (at_work_) return;
  Chunk* next = nullptr;
  for (Chunk& chunk : chunks_) {
    if (!chunk.tried && (next == nullptr || chunk.memory.size() > next->memory.size())) next = &chunk;
  }
  if (next == nullptr) return;
  auto job = std::make_shared<Job>();
  job->nic = held_->nic;
  job->domain = held_->domain;
  job->memory = next->memory;
  job->hold = next->hold;
  job->number = next->number;
  services_.work([job] { job->run(); },
                 [job, to = weak_from_this()] {
                   if (const auto memory = to.lock(); memory != nullptr) memory->on_registered(*job);
                 });
  next->tried = true;
  at_work_ = true;
}

void GuestMemory::on_registered(Job& job) {
  at_work_ = false;
  if (held_->domain == nullptr) held_->domain = job.domain;
  const auto chunk = std::ranges::find(chunks_, job.number, &Chunk::number);
  if (chunk != chunks_.end() && job.made != nullptr) {
    pinned_bytes_ += chunk->memory.size();
    chunk->registered = std::move(job.made);
  }
  if (!job.trouble.empty()) {
    if (trouble_.empty())
      log::warn("hca: the NIC cannot access all of a VM's memory, so some payload is copied: {}",
                job.trouble);
    trouble_ = std::move(job.trouble);
  }
  register_next();
}

std::uint64_t GuestMemory::bytes() const {
  std::uint64_t sum = 0;
  for (const Chunk& chunk : chunks_) sum += chunk.memory.size();
  return sum;
}

GuestMemory::Key GuestMemory::find(const std::byte* data) const {
  const auto behind =
      std::ranges::upper_bound(chunks_, data, {}, [](const Chunk& chunk) { return chunk.memory.data(); });
  if (behind == chunks_.begin()) return {};
  const Chunk& chunk = *std::prev(behind);
  const auto offset = static_cast<std::size_t>(data - chunk.memory.data());
  if (chunk.registered == nullptr || offset >= chunk.memory.size()) return {};
  const NicMemoryRegion& region = *chunk.registered->region;
  return {.lkey = region.lkey(), .rkey = region.rkey(), .bytes = chunk.memory.size() - offset};
}

// Chunks are in the order of addresses and do not overlap, so those of a range are neighbours.
std::span<GuestMemory::Chunk> GuestMemory::chunks_of(std::span<const std::byte> memory) {
  const auto first = std::ranges::partition_point(chunks_, [&](const Chunk& chunk) {
    return chunk.memory.data() + chunk.memory.size() <= memory.data();
  });
  const auto last = std::partition_point(first, chunks_.end(), [&](const Chunk& chunk) {
    return chunk.memory.data() < memory.data() + memory.size();
  });
  return {first, last};
}

bool GuestMemory::overlaps(std::span<const std::byte> memory) {
  return !chunks_of(memory).empty();
}

void GuestMemory::drop(std::span<const std::byte> memory) {
  const std::span<Chunk> gone = chunks_of(memory);
  for (Chunk& chunk : gone) {
    if (chunk.registered == nullptr) continue;
    pinned_bytes_ -= chunk.memory.size();
    services_.bury(std::move(chunk.registered));
  }
  const auto first = chunks_.begin() + (gone.data() - chunks_.data());
  chunks_.erase(first, first + static_cast<std::ptrdiff_t>(gone.size()));
}

}  // namespace pvrdma::transport::hca
