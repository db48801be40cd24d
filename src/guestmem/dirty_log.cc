#include "guestmem/dirty_log.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace pvrdma::guestmem {

bool DirtyLog::cover(std::uint64_t first, std::uint64_t last) {
  const std::uint64_t end = last / kChunkPages + 1;
  auto have = std::ranges::lower_bound(chunks_, first / kChunkPages, {}, &Chunk::number);
  const std::uint64_t missing = end - first / kChunkPages -
                                static_cast<std::uint64_t>(std::ranges::count_if(
                                    have, chunks_.end(), [end](const Chunk& c) { return c.number < end; }));
  if (missing == 0) return true;
  if (missing > chunks_max_ - chunks_.size()) return false;
  try {
    std::vector<Chunk> fresh;
    fresh.reserve(static_cast<std::size_t>(missing));
    for (std::uint64_t number = first / kChunkPages; number != end; ++number) {
      if (have != chunks_.end() && have->number == number) {
        ++have;
      } else {
        fresh.push_back({number, 0, std::make_unique<std::array<std::uint64_t, kChunkPages / 64>>()});
      }
    }
    if (chunks_.capacity() - chunks_.size() < fresh.size())
      chunks_.reserve(std::max(2 * chunks_.size(), chunks_.size() + fresh.size()));
    const auto old_count = static_cast<std::ptrdiff_t>(chunks_.size());
    std::ranges::move(fresh, std::back_inserter(chunks_));
    std::ranges::inplace_merge(chunks_, chunks_.begin() + old_count, {}, &Chunk::number);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

DirtyLog::Chunk* DirtyLog::chunk_of(std::uint64_t page) {
  return &*std::ranges::lower_bound(chunks_, page / kChunkPages, {}, &Chunk::number);
}

void DirtyLog::mark(Chunk* chunks, std::uint64_t page, std::uint64_t last) {
  for (;;) {
    Chunk& chunk = chunks[page / kChunkPages - chunks->number];
    std::uint64_t& word = (*chunk.words)[word_of(page)];
    const std::uint64_t here = std::min(last, page | 63);
    const std::uint64_t bits = ~std::uint64_t{0} << (page & 63) & ~std::uint64_t{0} >> (63 - (here & 63));
    if ((bits & ~word) != 0) {
      const int fresh = std::popcount(bits & ~word);
      word |= bits;
      chunk.page_count += static_cast<std::uint32_t>(fresh);
      marked_pages_ += static_cast<std::uint64_t>(fresh);
    }
    if (here == last) return;
    page = here + 1;
  }
}

std::uint64_t DirtyLog::take_word(Chunk& chunk, std::uint64_t first, std::uint64_t wanted) {
  std::uint64_t& word = (*chunk.words)[word_of(first)];
  const std::uint64_t taken = word & wanted;
  if (taken == 0) return 0;
  word &= ~wanted;
  const int count = std::popcount(taken);
  chunk.page_count -= static_cast<std::uint32_t>(count);
  marked_pages_ -= static_cast<std::uint64_t>(count);
  return taken;
}

}  // namespace pvrdma::guestmem
