// DirtyLog: which pages of a guest's memory the daemon may have written. One bit for each page of 4 KiB, by
// its guest-physical address and not by its map: a VMM unmaps RAM and maps the same again (reboot, BIOS
// area), and the marks outlive that.
//
// AddressSpace owns it and marks pages where it translates an address for writing, before the write. That
// misses nothing, because whoever writes guest memory translates in the same turn:
//
// * payloads, results of reads and atomics, GRHs: the engine resolves each piece of a message when it comes
//   (memory_region.h). Bytes that are still in a socket are read into it before the call returns; what comes
//   later is another piece. RoCE packets and injected faults' late messages are copies in private memory.
// * responses to commands, the capabilities in the DSR: guestmem::write().
// * rings (CQEs, events, our indices) keep host addresses over turns. They ask generation(), which changes
//   when the log begins and whenever marks were taken out of it: then they translate, and so mark, again.
// * pages of mapped doorbells are the adapter's own memory, no guest's.
//
// The bits lie in chunks, sorted by guest address. All chunks that a map needs are there before the first
// write to it; those of a large map are memory that nobody has touched until a page of theirs is marked, so
// that the log costs what is written, not what is mapped: to a hostile VMM a sparse file of terabytes costs
// nothing. Thread: shard-owned.
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
    std::uint32_t page_count;  // marked
    Words* words;              // in one of blocks_
  };

  explicit DirtyLog(std::size_t chunks_max) : chunks_max_(chunks_max) {}

  // Has bits for pages `first` to `last` from now on. False: no memory for them, or they would be more than
  // chunks_max chunks; the log is as it was.
  [[nodiscard]] bool cover(std::uint64_t first, std::uint64_t last);
  // The chunk of a covered page; those of the pages behind it follow. Until the next cover().
  Chunk* chunk_of(std::uint64_t page);

  // Marks pages `page` to `last`, which are covered; `chunks` is of a page at or before `page`, and all
  // between are covered too.
  void mark(Chunk* chunks, std::uint64_t page, std::uint64_t last);

  // The same chunks; that of `page` is `index` behind the first.
  static bool is_marked(const Chunk* chunks, std::uint64_t index, std::uint64_t page) {
    return ((*chunks[index].words)[word_of(page)] >> (page % 64) & 1) != 0;
  }

  std::uint64_t marked_pages() const { return marked_pages_; }
  std::size_t chunk_count() const { return chunks_.size(); }

  // Takes the marks out of pages [page, end), covered as for mark(): calls visit(first, bits) for each 64
  // pages from `first` on, a multiple of 64, that have any. Ends when visit returns false or `budget` is used
  // up, which counts words and chunks looked at. Returns the page to go on at, `end` after the last.
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
    std::size_t mapped_bytes;  // 0: of the heap
    void operator()(Words* words) const;
  };
  using Block = std::unique_ptr<Words, Release>;  // some side by side, zero

  static Block take_block(std::size_t chunks);
  static std::size_t word_of(std::uint64_t page) { return static_cast<std::size_t>(page % kChunkPages / 64); }
  std::uint64_t take_word(Chunk& chunk, std::uint64_t first, std::uint64_t wanted);

  const std::size_t chunks_max_;
  std::vector<Block> blocks_;
  std::vector<Chunk> chunks_;  // sorted
  std::uint64_t marked_pages_ = 0;
};

}  // namespace pvrdma::guestmem
