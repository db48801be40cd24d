// PageListMemory: where the page lists of one owner live, apart from the heap, so that all of it goes back to
// the system when the owner is done, whatever else was allocated meanwhile.
//
// A guest makes and drops any number of lists of any length. Long ones are mappings of their own and go back
// one by one. Short ones share mappings, which go back once none is left, in slices.
//
// Thread: owned by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>

namespace pvrdma::guestmem {

class PageListMemory {
 public:
  PageListMemory();

  std::pmr::memory_resource& resource() { return pool_; }

  // What it has of the system now, in bytes.
  std::size_t held_bytes() const { return mappings_.bytes; }
  // No list may be left. Gives back as much as `budget` is for (a mapping counts one, and one for each 64
  // KiB), and takes it off.
  void give_back(std::uint32_t& budget);

 private:
  class Mappings final : public std::pmr::memory_resource {
   public:
    ~Mappings() override;

    std::size_t bytes = 0;
    bool put_off = false;  // what is deallocated waits for unmap_some()
    void unmap_some(std::uint32_t& budget);

   private:
    // In the first bytes of a block that waits.
    struct Waiting {
      Waiting* next;
      std::size_t size;
    };
    Waiting* waiting_ = nullptr;

    void* do_allocate(std::size_t size, std::size_t alignment) override;
    void do_deallocate(void* block, std::size_t size, std::size_t alignment) override;
    bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
  };

  Mappings mappings_;
  std::pmr::unsynchronized_pool_resource pool_;
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
