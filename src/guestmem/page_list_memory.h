// PageListMemory: the memory of one owner's page lists, apart from the heap. All of it goes back to the
// system when the owner is destroyed, whatever else was allocated in the meantime.
//
// A guest makes and drops any number of lists of any length. Each long list is a mapping of its own and is
// unmapped alone. Short lists are blocks whose size is a power of two, cut from shared mappings. Shared
// mappings are unmapped, a few at a time, once no list is left. If the system has no memory, making a list
// throws bad_alloc and nothing has changed. The pools of the standard library would end the process in that
// case.
//
// Thread: owned by one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>

namespace pvrdma::guestmem {

class PageListMemory final : public std::pmr::memory_resource {
 public:
  PageListMemory() = default;
  ~PageListMemory() override;
  PageListMemory(const PageListMemory&) = delete;
  PageListMemory& operator=(const PageListMemory&) = delete;

  // The bytes that it has from the system now.
  std::size_t held_bytes() const { return held_bytes_; }
  // Requires that no list is left. Unmaps as much as `budget` allows and reduces `budget`: a mapping costs 1,
  // and 1 more for each 64 KiB.
  void give_back(std::uint32_t& budget);

 private:
  static constexpr std::size_t kSizes = 14;  // block sizes: 16 bytes ... 128 KiB

  // The header of a mapping that is cut into blocks.
  struct alignas(16) Shared {
    Shared* next;
    std::size_t bytes;
  };
  struct Block {
    Block* next;
  };
  struct Size {
    Block* free = nullptr;
    std::byte* uncut = nullptr;  // the rest of the mapping that is being cut, up to uncut_end
    std::byte* uncut_end = nullptr;
  };

  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* list, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  void* map(std::size_t bytes);
  void unmap(void* mapping, std::size_t bytes);

  std::array<Size, kSizes> sizes_;
  Shared* shared_ = nullptr;
  std::size_t held_bytes_ = 0;
};

// An allocator that names the memory of its list. The list keeps this memory when it is swapped or moved.
template <typename T>
class ListAllocator {
 public:
  using value_type = T;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  explicit ListAllocator(std::pmr::memory_resource& memory) : memory_(&memory) {}
  template <typename Other>
  explicit ListAllocator(const ListAllocator<Other>& other) : memory_(&other.memory()) {}

  T* allocate(std::size_t count) { return static_cast<T*>(memory_->allocate(count * sizeof(T), alignof(T))); }
  void deallocate(T* block, std::size_t count) noexcept {
    memory_->deallocate(block, count * sizeof(T), alignof(T));
  }
  std::pmr::memory_resource& memory() const { return *memory_; }

  friend bool operator==(const ListAllocator& a, const ListAllocator& b) { return a.memory_ == b.memory_; }

 private:
  std::pmr::memory_resource* memory_;  // borrowed; it outlives the list
};

}  // namespace pvrdma::guestmem
