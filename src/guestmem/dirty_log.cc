#include "guestmem/dirty_log.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <sys/mman.h>
#include <utility>

namespace pvrdma::guestmem {

namespace {

// A process may have 65530 mappings, so smaller blocks come from the heap.
constexpr std::size_t kMappedChunksMin = 32;

}  // namespace

void DirtyLog::Release::operator()(Words* words) const {
  if (mapped_bytes != 0)
    ::munmap(words, mapped_bytes);
  else
    delete[] words;
}

// Uses no huge pages: the first mark would wait until a whole huge page is zeroed.
DirtyLog::Block DirtyLog::take_block(std::size_t chunks) {
  if (chunks < kMappedChunksMin) return {new Words[chunks]{}, Release{0}};
  const std::size_t bytes = chunks * sizeof(Words);
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  ::madvise(at, bytes, MADV_NOHUGEPAGE);
  return {static_cast<Words*>(at), Release{bytes}};
}

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
    Block block = take_block(static_cast<std::size_t>(missing));
    for (std::uint64_t number = first / kChunkPages; number != end; ++number) {
      if (have != chunks_.end() && have->number == number) {
        ++have;
      } else {
        fresh.push_back({number, 0, block.get() + fresh.size()});
      }
    }
    if (chunks_.capacity() - chunks_.size() < fresh.size())
      chunks_.reserve(std::max(2 * chunks_.size(), chunks_.size() + fresh.size()));
    blocks_.push_back(std::move(block));
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
