#include "guestmem/store_way.h"

#include <array>

#if defined(__x86_64__)
#include <cpuid.h>
#include <unistd.h>
#endif

namespace pvrdma::guestmem {
namespace {

// Registers of 16, 32 and 64 bytes. They are may_alias, because the memory may be used as any type elsewhere.
struct Wide16 {
  using Store [[gnu::may_alias, gnu::vector_size(16)]] = std::uint8_t;
  using Load [[gnu::may_alias, gnu::vector_size(16), gnu::aligned(1)]] = std::uint8_t;
};
struct Wide32 {
  using Store [[gnu::may_alias, gnu::vector_size(32)]] = std::uint8_t;
  using Load [[gnu::may_alias, gnu::vector_size(32), gnu::aligned(1)]] = std::uint8_t;
};
struct Wide64 {
  using Store [[gnu::may_alias, gnu::vector_size(64)]] = std::uint8_t;
  using Load [[gnu::may_alias, gnu::vector_size(64), gnu::aligned(1)]] = std::uint8_t;
};

// The stores are volatile: the compiler must not repeat, merge, split or reorder them, nor call memcpy() for
// a loop of them. Inlined, to be compiled for the processor that the caller is for.
template <typename Wide>
[[gnu::always_inline]] inline void store_words(std::byte* to, const std::byte* from, std::size_t bytes) {
  using Store = typename Wide::Store;
  using Load = typename Wide::Load;
  // Not `auto`, which forgets the attributes.
  volatile Store* const out = reinterpret_cast<volatile Store*>(to);
  const Load* const in = reinterpret_cast<const Load*>(from);
  const std::size_t words = bytes / sizeof(Store);
  std::size_t i = 0;
  for (; words - i >= 4; i += 4) {
    const Store first = in[i];
    const Store second = in[i + 1];
    const Store third = in[i + 2];
    const Store fourth = in[i + 3];
    out[i] = first;
    out[i + 1] = second;
    out[i + 2] = third;
    out[i + 3] = fourth;
  }
  for (; i < words; ++i) out[i] = in[i];
}

void store_words_of_16(std::byte* to, const std::byte* from, std::size_t bytes) {
  store_words<Wide16>(to, from, bytes);
}

#if defined(__x86_64__)

// The compiler ends these two with vzeroupper.
[[gnu::target("avx2")]] void store_words_of_32(std::byte* to, const std::byte* from, std::size_t bytes) {
  store_words<Wide32>(to, from, bytes);
}
[[gnu::target("avx512f")]] void store_words_of_64(std::byte* to, const std::byte* from, std::size_t bytes) {
  store_words<Wide64>(to, from, bytes);
}

// Intel's manual (volume 3, "Fast-String Operation and Out-of-Order Stores"): the stores of one string may
// appear out of order, those of two strings, and of a string and other instructions, do not. On AMD's
// processors, too, compilers and kernels put no fence between a memcpy() by strings and a release store.
void store_string(std::byte* to, const std::byte* from, std::size_t bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

// Processors of family 19h (Zen 3 and Zen 4) announce fast strings, and are slower by them at some
// alignments; glibc's memcpy() avoids them there, too (bug 30994 of glibc).
bool is_amd_family_19h() {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0 || ebx != signature_AMD_ebx) return false;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (eax >> 8 & 0xf) + (eax >> 20 & 0xff) == 0x19;
}

bool has_fast_strings() {
  constexpr std::uint32_t kEnhancedMovsb = 1u << 9;   // ERMS, in EBX
  constexpr std::uint32_t kFastShortMovsb = 1u << 4;  // FSRM, in EDX
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return ((ebx & kEnhancedMovsb) != 0 || (edx & kFastShortMovsb) != 0) && !is_amd_family_19h();
}

std::size_t first_level_cache_bytes() {
  constexpr std::size_t kUsual = 32u << 10;  // if a hypervisor does not tell
  const long known = ::sysconf(_SC_LEVEL1_DCACHE_SIZE);
  return known > 0 ? static_cast<std::size_t>(known) : kUsual;
}

#endif

struct Ways {
  std::array<StoreWay, 3> all{};
  std::size_t count = 0;
  void add(const char* name, StoreWay::Store lines) { all[count++] = StoreWay{name, lines, lines, SIZE_MAX}; }
};

Ways ways_of_this_cpu() {
  Ways out;
#if defined(__x86_64__)
  out.add("sse2", store_words_of_16);
  if (__builtin_cpu_supports("avx2") != 0) out.add("avx2", store_words_of_32);
  // VBMI2 came with the processors that no longer slow down for registers of 64 bytes: Ice Lake and Zen 4.
  if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vbmi2") != 0)
    out.add("avx512", store_words_of_64);
  if (has_fast_strings()) {
    for (StoreWay& way : out.all) {
      way.long_copy = store_string;
      way.long_above = first_level_cache_bytes();
    }
  }
#else
  out.add("plain", store_words_of_16);
#endif
  return out;
}

const Ways ways = ways_of_this_cpu();
StoreWay chosen = store_ways().back();

}  // namespace

std::span<const StoreWay> store_ways() {
  return std::span(ways.all).first(ways.count);
}

const StoreWay& store_way() {
  return chosen;
}

void set_store_way(const StoreWay& way) {
  chosen = way;
}

}  // namespace pvrdma::guestmem
