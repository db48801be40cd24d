// AddressSpace's log of written pages.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/check.h"
#include "guestmem/address_space.h"
#include "guestmem/host_mapping.h"

namespace pvrdma::guestmem {
namespace {

static_assert(std::endian::native == std::endian::little, "bitmaps are made of words of the host");

constexpr std::uint64_t kChunkBytes = DirtyLog::kChunkPages * kPageBytes;
// The words of the largest report, plus two for each map, which it may share with its neighbours.
constexpr std::uint32_t kWordsPerCall = AddressSpace::kReportPagesMax / 64 + 2 * kMaxRamMaps;
constexpr std::uint64_t kPagesEnd = ~std::uint64_t{0} / kPageBytes + 1;

// The most chunks that all maps of an account can touch: each map may touch one more at either end.
std::size_t chunks_max(const MappedMemory& account) {
  return static_cast<std::size_t>(account.bytes().limit() / kChunkBytes) + 2 * kMaxRamMaps;
}

// Appends the pages in `bits`, which stand for 64 pages from `first` on, to the first `count` of `runs`. Adds
// at most kRunsMin runs.
void append_runs(std::uint64_t first, std::uint64_t bits, std::span<PageRun> runs, std::size_t& count) {
  while (bits != 0) {
    const int skipped = std::countr_zero(bits);
    const int length = std::countr_one(bits >> skipped);
    const GuestPhys begin((first + static_cast<std::uint64_t>(skipped)) * kPageBytes);
    const auto pages = static_cast<std::uint64_t>(length);
    if (count != 0 && runs[count - 1].begin.value + runs[count - 1].page_count * kPageBytes == begin.value) {
      runs[count - 1].page_count += pages;
    } else {
      runs[count++] = {begin, pages};
    }
    if (skipped + length == 64) return;
    bits &= ~std::uint64_t{0} << (skipped + length);
  }
}

void add_word(std::span<std::byte> bitmap, std::uint64_t index, std::uint64_t bits) {
  if (bits == 0) return;
  std::byte* const at = bitmap.data() + index * sizeof bits;
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  word |= bits;
  std::memcpy(at, &word, sizeof word);
}

// Sets the pages in `bits`, which stand for 64 pages from `first` on, in a bitmap that begins at page
// `begin`. No set page lies before `begin`.
void add_pages(std::uint64_t first, std::uint64_t bits, std::uint64_t begin, std::span<std::byte> bitmap) {
  if (first < begin) {
    add_word(bitmap, 0, bits >> (begin - first));
    return;
  }
  const std::uint64_t shift = (first - begin) % 64;
  add_word(bitmap, (first - begin) / 64, bits << shift);
  if (shift != 0) add_word(bitmap, (first - begin) / 64 + 1, bits >> (64 - shift));
}

// Like add_pages(), for a bitmap with one bit for each `ratio` pages.
void add_large_pages(std::uint64_t first, std::uint64_t bits, std::uint64_t begin, std::uint64_t ratio,
                     std::span<std::byte> bitmap) {
  while (bits != 0) {
    const std::uint64_t page = first + static_cast<std::uint64_t>(std::countr_zero(bits));
    const std::uint64_t index = (page - begin) / ratio;
    add_word(bitmap, index / 64, std::uint64_t{1} << index % 64);
    const std::uint64_t next = begin + (index + 1) * ratio;
    if (next - first >= 64) return;
    bits &= ~std::uint64_t{0} << (next - first);
  }
}

}  // namespace

Result<> AddressSpace::start_log() {
  if (log_state_ != LogState::kOff) return fail(EBUSY, "the log of written pages is on already");
  try {
    log_ = std::make_unique<DirtyLog>(chunks_max(*account_));
  } catch (const std::bad_alloc&) {
    return fail_errno(ENOMEM, "beginning the log of written pages");
  }
  for (const Region& region : regions_) {
    if (cover(region)) continue;
    log_.reset();
    return fail_errno(ENOMEM, "beginning the log of written pages");
  }
  log_regions();
  log_state_ = LogState::kOn;
  ++generation_;
  return {};
}

void AddressSpace::stop_log() {
  unlog_regions();
  log_.reset();
  log_state_ = LogState::kOff;
}

bool AddressSpace::cover(const Region& region) {
  return region.mapping == nullptr || log_->cover(region.begin / kPageBytes, (region.end - 1) / kPageBytes);
}

// Updates all regions, because cover() may have moved the chunks.
void AddressSpace::log_regions() {
  for (Region& region : regions_) {
    if (region.mapping == nullptr) continue;
    region.log = log_->chunk_of(region.begin / kPageBytes);
    region.rights_unlogged = region.rights & static_cast<std::uint8_t>(Access::kRead);
  }
}

void AddressSpace::unlog_regions() {
  for (Region& region : regions_) {
    region.log = nullptr;
    region.rights_unlogged = region.rights;
  }
}

// The new map stays even if the log breaks: a guest must not notice the log.
void AddressSpace::log_new_region(std::size_t at) {
  if (regions_[at].mapping == nullptr) return;
  if (cover(regions_[at])) return log_regions();
  unlog_regions();
  log_.reset();
  log_state_ = LogState::kBroken;
}

std::byte* AddressSpace::translate_logged(const Region& region, std::uint64_t gpa, std::uint64_t length,
                                          Access access) const {
  if (!region.allows(access)) return nullptr;
  if (!region.is_marked(gpa, length) && length != 0)
    log_->mark(region.log, gpa / kPageBytes, (gpa + length - 1) / kPageBytes);
  return region.host + (gpa - region.begin);
}

Result<> AddressSpace::check_log() const {
  switch (log_state_) {
    case LogState::kOn:
      return {};
    case LogState::kOff:
      return fail(EINVAL, "the log of written pages is off");
    case LogState::kBroken:
      break;
  }
  return fail(ENODATA, "it is unknown which pages were written: there was no memory for the log");
}

// Like DirtyLog::take(), for the pages in [page, end) that are RAM.
template <typename Visit>
std::uint64_t AddressSpace::take_log(std::uint64_t page, std::uint64_t end, Visit&& visit) {
  const std::uint64_t marked_before = log_->marked_pages();
  std::uint32_t budget = kWordsPerCall;
  bool goes_on = true;
  for (std::size_t i = first_ending_after(page * kPageBytes); goes_on && i < regions_.size(); ++i) {
    const Region& region = regions_[i];
    if (region.begin / kPageBytes >= end) break;
    if (region.log == nullptr) continue;
    const std::uint64_t last = std::min(end, region.end / kPageBytes);
    page = log_->take(region.log, std::max(page, region.begin / kPageBytes), last, budget,
                      [&](std::uint64_t first, std::uint64_t bits) { return goes_on = visit(first, bits); });
    goes_on = goes_on && page == last;
  }
  // A caller that keeps a page's address must translate it again, which marks the page again.
  if (log_->marked_pages() != marked_before) ++generation_;
  return goes_on ? end : page;
}

Result<AddressSpace::Collected> AddressSpace::collect_log(GuestPhys from, std::span<PageRun> runs) {
  PVRDMA_CHECK(runs.size() >= kRunsMin, "there is room for the runs of a word");
  if (auto on = check_log(); !on) return Failure(std::move(on).error());
  Collected out;
  const std::uint64_t page =
      take_log(from.value / kPageBytes, kPagesEnd, [&](std::uint64_t first, std::uint64_t bits) {
        append_runs(first, bits, runs, out.run_count);
        return runs.size() - out.run_count >= kRunsMin;
      });
  out.is_end = page == kPagesEnd;
  if (!out.is_end) out.next = GuestPhys(page * kPageBytes);
  return out;
}

Result<> AddressSpace::report_log(GuestPhys begin, std::uint64_t size, std::uint64_t page_bytes,
                                  std::span<std::byte> bitmap) {
  if (auto on = check_log(); !on) return on;
  if (!std::has_single_bit(page_bytes) || page_bytes < kPageBytes || begin.value % page_bytes != 0)
    return fail(EINVAL,
                "the page size of a report must be a power of two, at least 4096, and its range must begin "
                "at a multiple of it");
  if (size == 0 || size % kPageBytes != 0 || size - 1 > ~std::uint64_t{0} - begin.value)
    return fail(EINVAL, "the range of a report must be one or more pages of 4096 bytes");
  if (size / kPageBytes > kReportPagesMax) return fail(E2BIG, "the range of a report is larger than 32 GiB");
  if (bitmap.size() != bitmap_bytes(size, page_bytes))
    return fail(EINVAL, "the bitmap of a report does not have the length of its range");
  std::ranges::fill(bitmap, std::byte{0});
  const std::uint64_t page = begin.value / kPageBytes;
  const std::uint64_t ratio = page_bytes / kPageBytes;
  const std::uint64_t end = page + size / kPageBytes;
  const std::uint64_t stopped = take_log(page, end, [&](std::uint64_t first, std::uint64_t bits) {
    if (ratio == 1) {
      add_pages(first, bits, page, bitmap);
    } else {
      add_large_pages(first, bits, page, ratio, bitmap);
    }
    return true;
  });
  PVRDMA_CHECK(stopped == end, "a report is bounded by its range");
  return {};
}

}  // namespace pvrdma::guestmem
