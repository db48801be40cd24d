// Fuzzes everything that guestmem reads from a hostile guest: page directories, paged ranges and rings, over
// memory that the input fills and changes. Beyond "no crash" it checks that host pieces lie in the guest's
// memory, that counts add up, and that a ring never hands out more than it can hold. It also checks that the
// log of written pages has each page that was handed out for writing or that a ring changed.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "guestmem/copy.h"
#include "guestmem/paged_range.h"
#include "guestmem/ring.h"
#include "guestmem/test_ram.h"

namespace pvrdma::guestmem {
namespace {

// Three pages at 0, a hole, then three at 0x4000: a page address in the input is a small number.
constexpr std::size_t kPages = 6;
constexpr std::uint64_t kSecondBase = 0x4000;

struct Input {
  std::uint32_t page_count;
  std::uint32_t directory;
  std::uint64_t start;
  std::uint64_t length;
  std::uint64_t va;
  std::uint64_t va_length;
  std::uint32_t element_count;
  std::uint32_t stride_bytes;
  std::uint32_t first_page;
  std::uint32_t words;
};

struct World {
  World() {
    PVRDMA_CHECK(memory.map(GuestPhys(0), 3 * kPageBytes, ram.fd(), 0, true, true).has_value(), "first half");
    PVRDMA_CHECK(
        memory.map(GuestPhys(kSecondBase), 3 * kPageBytes, ram.fd(), 3 * kPageBytes, true, true).has_value(),
        "second half");
    PVRDMA_CHECK(memory.start_log().has_value(), "there is memory for the log");
  }
  bool owns(const HostSpan& piece) const {
    const std::byte* low = memory.translate(GuestPhys(0), 3 * kPageBytes, Access::kRead);
    const std::byte* high = memory.translate(GuestPhys(kSecondBase), 3 * kPageBytes, Access::kRead);
    const auto inside = [&piece](const std::byte* base) {
      return piece.data >= base && piece.data + piece.size <= base + 3 * kPageBytes;
    };
    // The two halves may be adjacent in the daemon; then pieces of both merge.
    const std::byte* first = std::min(low, high);
    const bool adjacent = std::max(low, high) == first + 3 * kPageBytes;
    return inside(low) || inside(high) ||
           (adjacent && piece.data >= first && piece.data + piece.size <= first + kPages * kPageBytes);
  }

  // Takes the log; element `i` says whether page `i` of the RAM was in it.
  std::array<bool, kPages> take_log() {
    std::array<std::byte, 8> bitmap;
    PVRDMA_CHECK(memory.report_log(GuestPhys(0), 64 * kPageBytes, kPageBytes, bitmap).has_value(),
                 "a report");
    std::array<bool, kPages> out{};
    for (std::size_t i = 0; i < kPages; ++i) {
      const std::size_t page = i < 3 ? i : kSecondBase / kPageBytes + i - 3;
      out[i] = (bitmap[0] >> page & std::byte{1}) != std::byte{0};
    }
    return out;
  }

  TestRam ram{kPages * kPageBytes};
  AddressSpace memory;
};

// Checks that each page that differs from its earlier contents is in the log.
class Watch {
 public:
  enum class Log { kEmpty, kKeep };
  Watch(World& world, Log log) : world_(world) {
    if (log == Log::kEmpty) world_.take_log();
    remember();
  }
  void check() {
    const std::array<bool, kPages> logged = world_.take_log();
    for (std::size_t i = 0; i < kPages; ++i) {
      const bool same =
          std::memcmp(before_.data() + i * kPageBytes, world_.ram.at(i * kPageBytes), kPageBytes) == 0;
      PVRDMA_CHECK(same || logged[i], "what was written is in the log");
    }
    remember();
  }

 private:
  void remember() { std::memcpy(before_.data(), world_.ram.at(0), before_.size()); }

  World& world_;
  std::array<std::byte, kPages * kPageBytes> before_;
};

void check_range(World& world, const Input& input, PageList pages) {
  PagedRange range;
  if (!range.assign(input.start, input.length, pages)) return;
  SpanList pieces;
  world.take_log();
  const Resolved outcome = range.resolve(world.memory, input.va, input.va_length, Access::kReadWrite, pieces);
  for (const HostSpan& piece : pieces) PVRDMA_CHECK(world.owns(piece), "a piece lies in guest memory");
  Watch watch(world, Watch::Log::kKeep);
  for (const HostSpan& piece : pieces) {
    for (std::size_t i = 0; i < piece.size; ++i) piece.data[i] ^= std::byte{1};
  }
  watch.check();
  switch (outcome) {
    case Resolved::kAll:
      PVRDMA_CHECK(pieces.bytes() == input.va_length, "all of it");
      break;
    case Resolved::kListFull:
      PVRDMA_CHECK(pieces.size() == SpanList::kCapacity, "full");
      break;
    case Resolved::kFault:
      PVRDMA_CHECK(pieces.empty(), "as it was");
      break;
  }
}

void check_ring(World& world, const Input& input, const PageList& pages, RingRole role) {
  const RingShape shape{.role = role,
                        .words = input.words % 2 == 0 ? RingWords::kTx : RingWords::kRx,
                        .first_page = input.first_page,
                        .element_count = input.element_count,
                        .stride_bytes = input.stride_bytes};
  std::optional<GuestRing> ring = GuestRing::create(world.memory, pages, shape);
  if (!ring) return;
  PVRDMA_CHECK(std::has_single_bit(shape.element_count) && shape.data_pages() < pages.size(),
               "a possible shape");
  Watch watch(world, Watch::Log::kEmpty);
  std::array<std::byte, kPageBytes> element{};
  // An element may overlap the ring's own state or directory, so indices change under the loop. It is bounded
  // here as the engine bounds its turns.
  for (int turn = 0; turn < 64; ++turn) {
    if (turn % 8 == 7) watch.check();
    const GuestRing::Used used = ring->used();
    PVRDMA_CHECK(used.count <= ring->element_count(), "never more than it holds");
    const auto bytes = std::span(element).first(shape.stride_bytes);
    const RingStatus status = role == RingRole::kConsumer ? ring->pop(bytes) : ring->push(bytes);
    PVRDMA_CHECK(status == RingStatus::kOk || role == RingRole::kProducer || status != RingStatus::kFull,
                 "role");
    if (status != RingStatus::kOk) break;
  }
  watch.check();
}

}  // namespace
}  // namespace pvrdma::guestmem

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pvrdma::guestmem;
  static World world;
  Input input{};
  if (size < sizeof input) return 0;
  std::memcpy(&input, data, sizeof input);
  const auto fill = [&] {
    const std::size_t bytes = std::min(size - sizeof input, kPages * kPageBytes);
    std::memset(world.ram.at(0), 0, kPages * kPageBytes);
    std::memcpy(world.ram.at(0), data + sizeof input, bytes);
  };
  fill();
  PageList pages;
  const DirectoryStatus status =
      read_page_directory(world.memory, GuestPhys(input.directory), input.page_count, 4096, pages);
  PVRDMA_CHECK((status == DirectoryStatus::kOk) == (pages.size() != 0), "all or nothing");
  if (status != DirectoryStatus::kOk) return 0;
  check_range(world, input, pages);
  check_ring(world, input, pages, RingRole::kConsumer);
  fill();
  check_ring(world, input, pages, RingRole::kProducer);
  return 0;
}
