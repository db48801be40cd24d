// Blocks that are filled with stamps of a round's number. The checkers of exactly-once execution write and
// compare them. Words differ within a block and between rounds. Thread: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fmt/core.h>
#include <optional>
#include <string>

namespace pvrdma::test {

inline std::uint64_t load_word(const std::byte* from) {
  std::uint64_t value = 0;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

inline void store_word(std::byte* to, std::uint64_t value) {
  std::memcpy(to, &value, sizeof(value));
}

inline std::uint64_t stamp_of(std::uint64_t round, std::size_t word) {
  return (round + 1) * 0x9e37'79b9'7f4a'7c15ULL + word;
}

inline void stamp_block(std::byte* block, std::size_t bytes, std::uint64_t round) {
  for (std::size_t word = 0; word < bytes / 8; ++word) store_word(block + 8 * word, stamp_of(round, word));
}

// The first word that is not the round's, as the end of a sentence: "word 3 of B's block is 0x0, not 0x1".
inline std::optional<std::string> wrong_stamp(const std::byte* block, std::size_t bytes, std::uint64_t round,
                                              const char* whose) {
  for (std::size_t word = 0; word < bytes / 8; ++word) {
    const std::uint64_t found = load_word(block + 8 * word);
    if (found == stamp_of(round, word)) continue;
    return fmt::format("word {} of {} is {:#x}, not {:#x}", word, whose, found, stamp_of(round, word));
  }
  return std::nullopt;
}

}  // namespace pvrdma::test
