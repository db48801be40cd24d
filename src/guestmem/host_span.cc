#include "guestmem/host_span.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "guestmem/store_once.h"

namespace pvrdma::guestmem {

std::uint64_t copy(const SpanList& dst, const SpanList& src, std::uint64_t bytes) {
  if (dst.size() == 1 && src.size() == 1) {  // most messages
    const std::size_t size = static_cast<std::size_t>(std::min({dst.bytes(), src.bytes(), bytes}));
    store_once(dst.begin()->data, src.begin()->data, size);
    return size;
  }
  std::uint64_t done = 0;
  const HostSpan* to = dst.begin();
  const HostSpan* from = src.begin();
  std::size_t to_offset = 0;
  std::size_t from_offset = 0;
  while (done < bytes && to != dst.end() && from != src.end()) {
    const std::size_t room = std::min(to->size - to_offset, from->size - from_offset);
    const std::size_t size = static_cast<std::size_t>(std::min<std::uint64_t>(room, bytes - done));
    store_once(to->data + to_offset, from->data + from_offset, size);
    done += size;
    to_offset += size;
    from_offset += size;
    if (to_offset == to->size) {
      ++to;
      to_offset = 0;
    }
    if (from_offset == from->size) {
      ++from;
      from_offset = 0;
    }
  }
  return done;
}

namespace {

constexpr std::size_t kSmallestPage = 4096;

// Calls touch(byte) with a byte of each page of the list.
template <typename Touch>
void touch_pages(const SpanList& spans, Touch touch) {
  for (const HostSpan& span : spans) {
    std::size_t at = 0;
    while (at < span.size) {
      touch(std::atomic_ref<std::uint8_t>(*reinterpret_cast<std::uint8_t*>(span.data + at)));
      at += kSmallestPage - (reinterpret_cast<std::uintptr_t>(span.data) + at) % kSmallestPage;
    }
  }
}

}  // namespace

void touch_for_reading(const SpanList& spans) {
  touch_pages(spans, [](auto byte) { static_cast<void>(byte.load(std::memory_order_relaxed)); });
}

void touch_for_writing(const SpanList& spans) {
  touch_pages(spans, [](auto byte) {
    // A compiler may leave out a fetch_or() of 0.
    std::uint8_t value = byte.load(std::memory_order_relaxed);
    byte.compare_exchange_strong(value, value, std::memory_order_relaxed);
  });
}

void SpanReader::read(std::byte* out, std::size_t bytes) {
  PVRDMA_CHECK(bytes == 0 || piece_ < spans_.size(), "a span list is read up to its end");
  while (bytes != 0) {
    const HostSpan& piece = spans_[piece_];
    const std::size_t size = std::min(piece.size - offset_, bytes);
    std::memcpy(out, piece.data + offset_, size);
    out += size;
    bytes -= size;
    offset_ += size;
    if (offset_ == piece.size) {
      ++piece_;
      offset_ = 0;
    }
  }
}

}  // namespace pvrdma::guestmem
