// GuestMemory: the memory of one VM as an RDMA device knows it. It has a protection domain of its own and
// registers all writable RAM there, in chunks. The device may write to it, and peers that have a QP in the
// domain may read it.
//
// Registration is slow, because it populates and pins the pages. The worker's thread does it chunk by chunk,
// from the first use on. find() does not find memory that is not registered (yet); its payload is copied.
//
// drop() forgets memory that is about to be unmapped. It does so at once; the deregistration follows later.
// Before calling it, the caller stops all QPs of the domain; without a QP, the domain's keys are useless.
//
// Thread: shard-owned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "guestmem/address_space.h"
#include "transport/hca/hca_services.h"
#include "transport/hca/nic.h"

namespace pvrdma::transport::hca {

// The largest registration. It is small enough that other jobs of the worker's thread do not wait long.
inline constexpr std::uint64_t kChunkBytesMax = 1ULL << 30;
// Chunks begin at multiples of this in the address space, because some devices refuse registrations that
// split a huge page.
inline constexpr std::uint64_t kChunkAlignment = 2ULL << 20;
inline constexpr std::size_t kChunksMax = 4096;

// Keeps a domain and its device open while anything in the domain exists.
struct GuestDomain {
  std::shared_ptr<Nic> nic;
  std::unique_ptr<NicDomain> domain;
};

class GuestMemory final : public std::enable_shared_from_this<GuestMemory> {
 public:
  // `memory` and `services` are borrowed; they outlive this.
  GuestMemory(std::shared_ptr<Nic> nic, const guestmem::AddressSpace& memory, HcaServices& services)
      : memory_(memory), services_(services) {
    held_->nic = std::move(nic);
  }
  ~GuestMemory();
  GuestMemory(const GuestMemory&) = delete;
  GuestMemory& operator=(const GuestMemory&) = delete;

  // Registers memory that was mapped since the last call. May throw bad_alloc.
  void refresh();
  // Every known chunk has been tried. Does not look for newly mapped memory.
  bool is_ready() const { return domain() != nullptr && !at_work_; }
  // Null: not made yet.
  const std::shared_ptr<GuestDomain>& domain() const { return held_->domain; }
  // Why some memory could not be registered; empty: no registration has failed.
  const std::string& trouble() const { return trouble_; }
  std::uint64_t bytes() const;  // to be registered in total
  std::uint64_t pinned_bytes() const { return pinned_bytes_; }

  struct Key {
    std::uint32_t lkey = 0;
    std::uint32_t rkey = 0;
    std::size_t bytes = 0;  // how far from `data` on the keys are valid; 0: not registered
  };
  Key find(const std::byte* data) const;

  bool overlaps(std::span<const std::byte> memory);
  void drop(std::span<const std::byte> memory);

 private:
  // What is destroyed on the worker's thread: what this holds, and a registration.
  struct Held final : Buried {
    std::shared_ptr<Nic> nic;
    std::shared_ptr<GuestDomain> domain;
  };
  struct Registered final : Buried {
    std::shared_ptr<GuestDomain> domain;
    std::unique_ptr<NicMemoryRegion> region;
  };
  struct Chunk {
    std::span<std::byte> memory;
    std::shared_ptr<guestmem::MappingHold> hold;
    std::uint64_t number;
    std::unique_ptr<Registered> registered;  // null: pending or failed
    bool tried = false;
  };
  struct Job;

  void add(const guestmem::RamRange& range);
  void register_next();
  std::span<Chunk> chunks_of(std::span<const std::byte> memory);
  void on_registered(Job& job);

  std::unique_ptr<Held> held_ = std::make_unique<Held>();
  const guestmem::AddressSpace& memory_;
  HcaServices& services_;
  std::vector<Chunk> chunks_;  // by address
  std::uint64_t seen_generation_ = 0;
  std::uint64_t next_number_ = 1;
  bool at_work_ = false;
  std::string trouble_;
  std::uint64_t pinned_bytes_ = 0;
};

}  // namespace pvrdma::transport::hca
