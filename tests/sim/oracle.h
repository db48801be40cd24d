// Oracle: computes what the memory that one QP's requests may change must contain, given which of its work
// requests have completed.
//
// Requests of one QP are executed exactly once, in order. So the memory is always the result of the completed
// operations, followed by a prefix of the uncompleted ones. The last of that prefix may be there in part,
// from its first byte on, because messages come in pieces. Thread: a value.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/operation.h"

namespace pvrdma::sim {

class Oracle {
 public:
  explicit Oracle(std::span<const std::byte> now) : memory_(now.begin(), now.end()) {}

  // `operation` was executed. Checks its `result` in the requester's slot.
  void complete(const Operation& operation, std::span<const std::byte> result);

  // Checks the memory `actual`. The operations in `unsure` may or may not have been executed.
  void verify(std::span<const std::byte> actual, std::span<const Operation> unsure,
              const std::string& where) const;

 private:
  static std::uint64_t word(const std::vector<std::byte>& memory, std::uint32_t offset);
  static void execute(const Operation& operation, std::vector<std::byte>& memory);

  std::vector<std::byte> memory_;
};

}  // namespace pvrdma::sim
