// DirtyLog: which pages of a guest's memory the daemon may have written. It has one bit for each page of 4
// KiB, by guest-physical address and not by map: a VMM may unmap RAM and map the same RAM again (reboot, BIOS
// area), and the marks survive that.
//
// AddressSpace owns the log and marks pages when it translates an address for writing, before the write. This
// misses no write, because all code that writes guest memory translates in the same turn:
//
// * Payloads, results of reads and atomics, GRHs: the engine resolves each piece of a message when the piece
//   arrives (memory_region.h). Bytes that are still in a socket are read into that piece before the call
//   returns; bytes that arrive later are another piece. RoCE packets and late messages of injected faults are
//   copies in private memory.
// * Responses to commands, and the capabilities in the DSR: guestmem::write() translates.
// * Rings (CQEs, events, our indices) keep host addresses from turn to turn. They compare generation(), which
//   changes when the log starts and whenever marks were taken out of it. Then they translate again, and so
//   mark again.
// * Pages of mapped doorbells are the adapter's own memory, not a guest's.
//
// The bits are in chunks, sorted by guest address. All chunks that a map needs exist before the first write
// to the map. The chunks of a large map are anonymous memory that stays untouched until one of their pages is
// marked. So the log costs as much as is written, not as much as is mapped: a hostile VMM's sparse file of
// terabytes costs nothing. Thread: shard-owned.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace pvrdma::guestmem {

class DirtyLog {
 public:
  static constexpr std::uint64_t kChunkPages = 32768;  // 128 MiB of guest memory for 4 KiB of bits

  using Words = std::array<std::uint64_t, kChunkPages / 64>;
  struct Chunk {
    std::uint64_t number;      // of its first page, divided by kChunkPages
    std::uint32_t page_count;  // marked pages
    Words* words;              // in one of blocks_
  };

  explicit DirtyLog(std::size_t chunks_max) : chunks_max_(chunks_max) {}

  // Has bits for pages `first` to `last` from now on. Returns false if there is no memory for them, or if
  // there would be more than chunks_max chunks; then the log is unchanged.
  [[nodiscard]] bool cover(std::uint64_t first, std::uint64_t last);
  // The chunk of a covered page; the chunks of the following pages come after it. Valid until the next
  // cover().
  Chunk* chunk_of(std::uint64_t page);

  // Marks the covered pages `page` to `last`. `chunks` is the chunk of a page at or before `page`, and all
  // pages between are covered too.
  void mark(Chunk* chunks, std::uint64_t page, std::uint64_t last);

  // `chunks` is as for mark(); the chunk of `page` is `index` places after the first.
  static bool is_marked(const Chunk* chunks, std::uint64_t index, std::uint64_t page) {
    return ((*chunks[index].words)[word_of(page)] >> (page % 64) & 1) != 0;
  }

  std::uint64_t marked_pages() const { return marked_pages_; }
  std::size_t chunk_count() const { return chunks_.size(); }

  // Takes the marks out of pages [page, end), covered as for mark(). Calls visit(first, bits) for each group
  // of 64 pages that has marks; `first` is a multiple of 64. Ends when visit returns false or when `budget`
  // is used up. The budget counts the words and chunks that were looked at. Returns the page to go on at, or
  // `end` after the last one.
  template <typename Visit>
  std::uint64_t take(Chunk* chunks, std::uint64_t page, std::uint64_t end, std::uint32_t& budget,
                     Visit&& visit) {
    while (page < end && budget != 0) {
      --budget;
      Chunk& chunk = chunks[page / kChunkPages - chunks->number];
      if (chunk.page_count == 0) {
        page = (chunk.number + 1) * kChunkPages;
        continue;
      }
      const std::uint64_t first = page & ~std::uint64_t{63};
      std::uint64_t wanted = ~std::uint64_t{0} << (page - first);
      if (end - first < 64) wanted &= ~(~std::uint64_t{0} << (end - first));
      page = first + 64;
      const std::uint64_t bits = take_word(chunk, first, wanted);
      if (bits != 0 && !visit(first, bits)) break;
    }
    return page < end ? page : end;
  }

 private:
  struct Release {
    std::size_t mapped_bytes;  // 0: from the heap
    void operator()(Words* words) const;
  };
  using Block = std::unique_ptr<Words, Release>;  // one or more, contiguous and zeroed

  static Block take_block(std::size_t chunks);
  static std::size_t word_of(std::uint64_t page) { return static_cast<std::size_t>(page % kChunkPages / 64); }
  std::uint64_t take_word(Chunk& chunk, std::uint64_t first, std::uint64_t wanted);

  const std::size_t chunks_max_;
  std::vector<Block> blocks_;
  std::vector<Chunk> chunks_;  // sorted
  std::uint64_t marked_pages_ = 0;
};

}  // namespace pvrdma::guestmem
