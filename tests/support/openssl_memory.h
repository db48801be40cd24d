// NoOpensslMemory: lets OpenSSL run out of memory. A program includes this in one of its files only, because
// it replaces OpenSSL's allocator before main() begins. Thread: each thread fails by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <openssl/crypto.h>

namespace pvrdma::test {

// While it exists, OpenSSL's allocations on the calling thread fail from the nth on (counted from 1).
class NoOpensslMemory {
 public:
  explicit NoOpensslMemory(std::uint64_t nth) {
    seen_ = 0;
    fails_from_ = nth;
  }
  ~NoOpensslMemory() { fails_from_ = 0; }
  NoOpensslMemory(const NoOpensslMemory&) = delete;
  NoOpensslMemory& operator=(const NoOpensslMemory&) = delete;

  static bool has_failed() { return seen_ >= fails_from_; }

 private:
  static bool may_allocate() { return fails_from_ == 0 || ++seen_ < fails_from_; }
  static void* allocate(std::size_t bytes, const char*, int) {
    return may_allocate() ? std::malloc(bytes) : nullptr;
  }
  static void* reallocate(void* memory, std::size_t bytes, const char*, int) {
    return may_allocate() ? std::realloc(memory, bytes) : nullptr;
  }
  static void release(void* memory, const char*, int) { std::free(memory); }

  static inline thread_local std::uint64_t seen_ = 0;
  static inline thread_local std::uint64_t fails_from_ = 0;
  static inline const bool is_installed_ = CRYPTO_set_mem_functions(allocate, reallocate, release) == 1;
};

}  // namespace pvrdma::test
