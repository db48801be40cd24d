// Counted operator new: a program with counted_new.cc among its sources can count the allocations of a piece
// of work, or let the system run out of memory within it. Thread: each thread counts, and fails, by itself.
#pragma once

#include <cstdint>

namespace pvrdma::test {

// Starts counting allocations from 0.
void start_counting_allocations();
// Stops counting, and returns the number of allocations.
std::uint64_t stop_counting_allocations();

// While it exists, the calling thread's allocations fail from the nth on (counted from 1).
class NoMemoryFrom {
 public:
  explicit NoMemoryFrom(std::uint64_t nth);
  ~NoMemoryFrom();
  NoMemoryFrom(const NoMemoryFrom&) = delete;
  NoMemoryFrom& operator=(const NoMemoryFrom&) = delete;

  bool has_failed() const;  // whether an allocation has failed
};

}  // namespace pvrdma::test
