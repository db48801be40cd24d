#include "capture/ring.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace pvrdma::capture {

Ring::Ring(std::size_t bytes) : bytes_(bytes), memory_(std::make_unique<std::byte[]>(bytes)) {
  PVRDMA_CHECK(std::has_single_bit(bytes) && bytes >= sizeof(Record), "a ring's size is a power of two");
}

bool Ring::put(Record record, const guestmem::SpanList* payload, std::uint32_t snap_bytes) {
  const std::uint32_t mtu =
      record.kind == Kind::kDatagram ? std::max(record.bytes(), 1U) : abi::mtu_bytes(record.mtu);
  const std::uint32_t bytes = record.bytes();
  const bool has_payload = payload != nullptr && bytes != 0 && payload->bytes() == bytes;
  record.stride_bytes = has_payload ? std::min(mtu, snap_bytes) : 0;
  record.kept_bytes = 0;
  if (has_payload) {
    for_each_packet(record.offset(), bytes, mtu, [&](std::uint32_t, std::uint32_t part) {
      record.kept_bytes += std::min(part, record.stride_bytes);
    });
  }
  const std::uint64_t begin = written_.load(std::memory_order_relaxed);
  const std::uint64_t used = begin - read_.load(std::memory_order_acquire);
  if (sizeof record + record.kept_bytes > bytes_ - used) return false;

  copy_in(begin, reinterpret_cast<const std::byte*>(&record), sizeof record);
  std::uint64_t at = begin + sizeof record;
  if (record.kept_bytes != 0) {
    std::uint32_t place = 0;  // within the piece
    const auto keep = [&](const std::byte* data, std::size_t size) {
      while (size != 0) {
        const std::uint32_t in_packet = (record.offset() + place) % mtu;
        // If a piece begins within a packet, that packet is kept from there on.
        const std::uint32_t begun = std::min(place, in_packet);
        const std::uint32_t left = mtu - in_packet;
        const auto part = static_cast<std::uint32_t>(std::min<std::size_t>(size, left));
        const std::uint32_t kept =
            begun < record.stride_bytes ? std::min(part, record.stride_bytes - begun) : 0;
        copy_in(at, data, kept);
        at += kept;
        place += part;
        data += part;
        size -= part;
      }
    };
    for (const guestmem::HostSpan& span : *payload) keep(span.data, span.size);
    PVRDMA_CHECK(at == begin + sizeof record + record.kept_bytes, "a record is as long as it says");
  }
  written_.store(at, std::memory_order_release);
  return true;
}

bool Ring::take(Record& record, std::vector<std::byte>& payload) {
  const std::uint64_t begin = read_.load(std::memory_order_relaxed);
  if (begin == written_.load(std::memory_order_acquire)) return false;
  copy_out(begin, reinterpret_cast<std::byte*>(&record), sizeof record);
  payload.resize(record.kept_bytes);
  if (!payload.empty()) copy_out(begin + sizeof record, payload.data(), payload.size());
  read_.store(begin + sizeof record + record.kept_bytes, std::memory_order_release);
  return true;
}

void Ring::copy_in(std::uint64_t at, const std::byte* from, std::size_t size) {
  const std::size_t place = at & (bytes_ - 1);
  const std::size_t first = std::min(size, bytes_ - place);
  std::memcpy(memory_.get() + place, from, first);
  std::memcpy(memory_.get(), from + first, size - first);
}

void Ring::copy_out(std::uint64_t at, std::byte* to, std::size_t size) const {
  const std::size_t place = at & (bytes_ - 1);
  const std::size_t first = std::min(size, bytes_ - place);
  std::memcpy(to, memory_.get() + place, first);
  std::memcpy(to + first, memory_.get(), size - first);
}

}  // namespace pvrdma::capture
