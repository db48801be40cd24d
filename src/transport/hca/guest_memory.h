// GuestMemory: the memory of one VM as an RDMA device knows it: a protection domain of its own, and all of
// its writable RAM registered in it, in chunks, for the device to write and for peers to read that have a QP
// in the domain.
//
// Registering takes its time (it populates and pins the pages) and is done chunk by chunk on the worker's
// thread, from the first use on. What cannot be registered, or is not yet, is not found: it goes by copies.
//
// Memory that is about to be unmapped is forgotten at once, by drop(); its registration ends some time later.
// Whoever calls that has stopped all QPs of the domain, without which no key of it is good for anything.
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

// One registration: small enough that other jobs of the worker's thread do not wait for long.
inline constexpr std::uint64_t kChunkBytesMax = 1ULL << 30;
// Chunks begin at multiples of that in the address space: registrations that cut huge pages are refused by
// some devices.
inline constexpr std::uint64_t kChunkAlignment = 2ULL << 20;
inline constexpr std::size_t kChunksMax = 4096;

// A domain, as long as something in it lives.
struct GuestDomain {
  std::shared_ptr<Nic> nic;
  std::unique_ptr<NicDomain> domain;
};

class GuestMemory final : public std::enable_shared_from_this<GuestMemory> {
 public:
  // `memory` and `services` are borrowed; they outlive this.
  GuestMemory(std::shared_ptr<Nic> nic, const guestmem::AddressSpace& memory, HcaServices& services)
      : nic_(std::move(nic)), memory_(memory), services_(services) {}
  ~GuestMemory();
  GuestMemory(const GuestMemory&) = delete;
  GuestMemory& operator=(const GuestMemory&) = delete;

  // Registers what is there and is not registered yet. May throw bad_alloc.
  void refresh();
  // All of it has been tried. Nothing new is looked for.
  bool is_ready() const { return domain_ != nullptr && !at_work_; }
  // Null: not made yet.
  const std::shared_ptr<GuestDomain>& domain() const { return domain_; }
  // Why not all of it is registered; empty: it is, as far as one knows.
  const std::string& trouble() const { return trouble_; }
  std::uint64_t bytes() const;  // that are to be registered
  std::uint64_t pinned_bytes() const { return pinned_bytes_; }

  struct Key {
    std::uint32_t lkey = 0;
    std::uint32_t rkey = 0;
    std::size_t bytes = 0;  // from `data` on that it is good for; 0: none is
  };
  Key find(const std::byte* data) const;

  bool overlaps(std::span<const std::byte> memory) const;
  void drop(std::span<const std::byte> memory);

 private:
  // A registration, for its destruction.
  struct Registered final : Buried {
    std::shared_ptr<GuestDomain> domain;
    std::unique_ptr<NicMemoryRegion> region;
  };
  struct Chunk {
    std::span<std::byte> memory;
    std::shared_ptr<guestmem::MappingHold> hold;
    std::uint64_t number;
    std::unique_ptr<Registered> registered;  // null: not yet, or not to be had
    bool tried = false;
  };
  struct Job;

  void add(const guestmem::RamRange& range);
  void register_next();
  void on_registered(Job& job);

  const std::shared_ptr<Nic> nic_;
  const guestmem::AddressSpace& memory_;
  HcaServices& services_;
  std::shared_ptr<GuestDomain> domain_;
  std::vector<Chunk> chunks_;  // by address
  std::uint64_t seen_generation_ = 0;
  std::uint64_t next_number_ = 1;
  bool at_work_ = false;
  std::string trouble_;
  std::uint64_t pinned_bytes_ = 0;
};

}  // namespace pvrdma::transport::hca
