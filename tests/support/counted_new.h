// Counted operator new: a program with counted_new.cc among its sources can count the allocations of a piece
// of work. Thread: one.
#pragma once

#include <cstdint>

namespace pvrdma::test {

// Starts counting allocations from 0.
void start_counting_allocations();
// Stops counting, and returns the number of allocations.
std::uint64_t stop_counting_allocations();

}  // namespace pvrdma::test
