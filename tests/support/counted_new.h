// Counted operator new: a program that has counted_new.cc among its sources can tell what a piece of work
// allocates. Thread: one.
#pragma once

#include <cstdint>

namespace pvrdma::test {

// From now on allocations are counted, from 0.
void start_counting_allocations();
// How many there were; none is counted any more.
std::uint64_t stop_counting_allocations();

}  // namespace pvrdma::test
