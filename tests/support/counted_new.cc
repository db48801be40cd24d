#include "support/counted_new.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local bool counting = false;
thread_local std::uint64_t allocations = 0;
thread_local std::uint64_t fails_from = 0;  // 0: none fails

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (counting) ++allocations;
  if (fails_from != 0 && allocations >= fails_from) throw std::bad_alloc();
  void* memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(bytes)
                     : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace pvrdma::test {

void start_counting_allocations() {
  allocations = 0;
  counting = true;
}

std::uint64_t stop_counting_allocations() {
  counting = false;
  return allocations;
}

NoMemoryFrom::NoMemoryFrom(std::uint64_t nth) {
  start_counting_allocations();
  fails_from = nth;
}

NoMemoryFrom::~NoMemoryFrom() {
  fails_from = 0;
  stop_counting_allocations();
}

bool NoMemoryFrom::has_failed() const {
  return allocations >= fails_from;
}

}  // namespace pvrdma::test

// GCC sees std::free() inlined beside operator new, and reports a mismatch.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void* operator new(std::size_t bytes) {
  return allocate(bytes, 0);
}
void* operator new[](std::size_t bytes) {
  return allocate(bytes, 0);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
