#include "sim/oracle.h"

#include <algorithm>
#include <cstring>

namespace pvrdma::sim {

std::uint64_t Oracle::word(const std::vector<std::byte>& memory, std::uint32_t offset) {
  std::uint64_t out = 0;
  std::memcpy(&out, memory.data() + offset, sizeof out);
  return out;
}

void Oracle::execute(const Operation& operation, std::vector<std::byte>& memory) {
  if (operation.is_write()) {
    std::copy(operation.data.begin(), operation.data.end(), memory.begin() + operation.remote_offset);
  } else if (operation.is_atomic()) {
    const std::uint64_t old = word(memory, operation.remote_offset);
    const bool adds = operation.opcode == abi::Opcode::kAtomicFetchAndAdd;
    const std::uint64_t swapped = old == operation.compare_add ? operation.swap : old;
    const std::uint64_t now = adds ? old + operation.compare_add : swapped;
    std::memcpy(memory.data() + operation.remote_offset, &now, sizeof now);
  }
}

void Oracle::complete(const Operation& operation, std::span<const std::byte> result) {
  if (operation.is_read() || operation.is_atomic()) {
    require(std::memcmp(result.data(), memory_.data() + operation.remote_offset, result.size()) == 0,
            "work request " + std::to_string(operation.wr_id) +
                " brought other bytes than the peer's memory held");
  }
  execute(operation, memory_);
}

void Oracle::verify(std::span<const std::byte> actual, std::span<const Operation> unsure,
                    const std::string& where) const {
  std::vector<std::byte> memory = memory_;
  const auto matches = [&] { return std::memcmp(actual.data(), memory.data(), actual.size()) == 0; };
  if (matches()) return;
  for (const Operation& operation : unsure) {
    if (operation.is_write()) {
      // Takes the longest part that matches. If a shorter part explains the memory, the longest does too.
      const auto written = std::mismatch(operation.data.begin(), operation.data.end(),
                                         actual.begin() + operation.remote_offset)
                               .first;
      std::copy(operation.data.begin(), written, memory.begin() + operation.remote_offset);
      if (matches()) return;
    }
    execute(operation, memory);
    if (matches()) return;
  }
  const auto first = std::mismatch(actual.begin(), actual.end(), memory_.begin()).first - actual.begin();
  throw Violation(where +
                  ": memory is what no prefix of the work requests makes it; first difference at byte " +
                  std::to_string(first) + ", " + std::to_string(unsure.size()) + " operations in doubt");
}

}  // namespace pvrdma::sim
