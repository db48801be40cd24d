#include "guestmem/store_once.h"

#include <cstdint>
#include <cstring>

#include "guestmem/store_way.h"

namespace pvrdma::guestmem {
namespace {

// The words are may_alias, because the memory may be used as any type elsewhere. Loads may be misaligned,
// stores never are.
template <std::size_t kBytes>
struct Word;
template <>
struct Word<1> {
  using Store [[gnu::may_alias]] = std::uint8_t;
  using Load [[gnu::may_alias]] = std::uint8_t;
};
template <>
struct Word<2> {
  using Store [[gnu::may_alias]] = std::uint16_t;
  using Load [[gnu::may_alias, gnu::aligned(1)]] = std::uint16_t;
};
template <>
struct Word<4> {
  using Store [[gnu::may_alias]] = std::uint32_t;
  using Load [[gnu::may_alias, gnu::aligned(1)]] = std::uint32_t;
};
template <>
struct Word<8> {
  using Store [[gnu::may_alias]] = std::uint64_t;
  using Load [[gnu::may_alias, gnu::aligned(1)]] = std::uint64_t;
};
template <>
struct Word<16> {
  using Store [[gnu::may_alias, gnu::vector_size(16)]] = std::uint8_t;
  using Load [[gnu::may_alias, gnu::vector_size(16), gnu::aligned(1)]] = std::uint8_t;
};

// Volatile: the compiler must not repeat, merge, split or reorder these stores, nor call memcpy() for a loop
// of them.
template <std::size_t kBytes>
void store(std::byte* to, const typename Word<kBytes>::Store& word) {
  *reinterpret_cast<volatile typename Word<kBytes>::Store*>(to) = word;
}
template <std::size_t kBytes>
typename Word<kBytes>::Store load(const std::byte* from) {
  return *reinterpret_cast<const typename Word<kBytes>::Load*>(from);
}

class Copy {
 public:
  Copy(std::byte* to, const std::byte* from, std::size_t size) : to_(to), from_(from), left_(size) {}

  // Copies words as large as the alignment of `to_` allows, until it is aligned for all sizes.
  void align() {
    if (is_odd_by<1>()) step<1>();
    if (is_odd_by<2>()) step<2>();
    if (is_odd_by<4>()) step<4>();
    if (is_odd_by<8>()) step<8>();
  }
  // Copies lines, except the last one or what there is of it.
  void lines(const StoreWay& way) {
    if (left_ < kLinesFrom) return;
    while (reinterpret_cast<std::uintptr_t>(to_) % kLineBytes != 0) step<16>();
    const std::size_t bytes = (left_ - 1) / kLineBytes * kLineBytes;
    (bytes > way.long_above ? way.long_copy : way.lines)(to_, from_, bytes);
    advance(bytes);
  }
  void rest() {
    while (left_ >= 16) step<16>();
    if (left_ >= 8) step<8>();
    if (left_ >= 4) step<4>();
    if (left_ >= 2) step<2>();
    if (left_ >= 1) step<1>();
  }

 private:
  // Shorter copies take longer by lines than by words.
  static constexpr std::size_t kLinesFrom = 256;

  template <std::size_t kBytes>
  bool is_odd_by() const {
    return (reinterpret_cast<std::uintptr_t>(to_) & kBytes) != 0 && left_ >= kBytes;
  }
  template <std::size_t kBytes>
  void step() {
    store<kBytes>(to_, load<kBytes>(from_));
    advance(kBytes);
  }
  void advance(std::size_t bytes) {
    to_ += bytes;
    from_ += bytes;
    left_ -= bytes;
  }

  std::byte* to_;
  const std::byte* from_;
  std::size_t left_;
};

}  // namespace

void store_once(std::byte* to, const std::byte* from, std::size_t size) {
  // A copy upwards would overwrite bytes that are still to be loaded.
  const auto distance = reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
  if (distance < size && distance != 0) {
    std::memmove(to, from, size);
    return;
  }
  Copy copy(to, from, size);
  copy.align();
  copy.lines(store_way());
  copy.rest();
}

}  // namespace pvrdma::guestmem
