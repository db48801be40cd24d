// bury(): destroys a part of what is dead. Objects vanish at once for their guest and its peers, in one
// command however many there are; giving their memory back takes far longer and is done in slices
// (Engine::run). Thread: shard-owned.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace pvrdma::verbs {

// Destroys objects from the end, `budget` at most, and takes them off it. Empty places cost nothing.
template <typename T>
void bury(std::vector<std::unique_ptr<T>>& dead, std::uint32_t& budget) {
  while (!dead.empty() && budget != 0) {
    if (dead.back() != nullptr) --budget;
    dead.pop_back();
  }
}

}  // namespace pvrdma::verbs
