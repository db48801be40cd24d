// PageListMemory: where the page lists of one owner live, apart from the heap, so that all of it goes back to
// the system when the owner is done, whatever else was allocated meanwhile.
//
// A guest makes and drops any number of lists of any length. Long ones are mappings of their own and go back
// one by one. Short ones are blocks of a power of two, cut from mappings that go back once no list is left,
// in slices. Where the system has no mapping to give, a list cannot be made (bad_alloc) and nothing has
// changed: the library's own pools end the process there.
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

  // What it has of the system now, in bytes.
  std::size_t held_bytes() const { return held_bytes_; }
  // No list may be left. Gives back as much as `budget` is for (a mapping counts one, and one for each 64
  // KiB), and takes it off.
  void give_back(std::uint32_t& budget);

 private:
  static constexpr std::size_t kSizes = 14;  // of blocks: 16 bytes ... 128 KiB

  // At the beginning of a mapping that is cut into blocks.
  struct alignas(16) Shared {
    Shared* next;
    std::size_t bytes;
  };
  struct Block {
    Block* next;
  };
  struct Size {
    Block* free = nullptr;
    std::byte* uncut = nullptr;  // of the mapping that is being cut, up to uncut_end
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

// The allocator of a list that knows where it lives, and goes on living there when it is swapped or moved.
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
  std::pmr::memory_resource* memory_;  // borrowed, outlives the list
};

}  // namespace pvrdma::guestmem
