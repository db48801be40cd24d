// A fuzzer with a planted bug: three bytes of input make it write one byte beyond a heap block. It shows that
// fuzzing finds bugs. `make fuzz` fails if this one is not found. The replay of those bytes is a test, which
// passes if the sanitizer reports the bug.
#include <cstddef>
#include <cstdint>
#include <memory>

namespace {

// The comparisons come one after the other, so that coverage leads to the third.
bool leads_to_the_bug(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return false;
  if (data[0] != 'B') return false;
  if (data[1] != 'U') return false;
  return data[2] == 'G';
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kBytes = 16;
  const auto block = std::make_unique<std::uint8_t[]>(kBytes);
  // Volatile, because a compiler that knew the index would refuse it or omit the write.
  volatile std::size_t index = leads_to_the_bug(data, size) ? kBytes : 0;
  *(block.get() + index) = 1;
  return 0;
}
