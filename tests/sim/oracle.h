// Oracle: what the memory that one QP's requests may touch must hold, given how far its work requests got.
//
// Requests of one QP are executed exactly once, in order. So the memory is always what the completed
// operations made of it plus those of a prefix of the uncompleted ones, the last of which may be there in
// part, from its first byte on (messages come in pieces, which may arrive in other pieces). Thread: a value.
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

  // `operation` was executed. Checks the result it brought to the requester's slot.
  void complete(const Operation& operation, std::span<const std::byte> result);

  // `actual` is these operations' memory, of which those in `unsure` may or may not have been executed.
  void verify(std::span<const std::byte> actual, std::span<const Operation> unsure,
              const std::string& where) const;

 private:
  static std::uint64_t word(const std::vector<std::byte>& memory, std::uint32_t offset);
  static void execute(const Operation& operation, std::vector<std::byte>& memory);

  std::vector<std::byte> memory_;
};

}  // namespace pvrdma::sim
