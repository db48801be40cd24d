// A stream of saved state (state/stream.h) as bytes that a test changes. A stream from outside may contain
// anything, but its checksums and numbers of records and bytes are easily made right. Thread: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "state/crc32c.h"
#include "state/reader.h"
#include "state/stream.h"
#include "state/writer.h"

namespace pvrdma::test {

using SavedBytes = std::vector<std::byte>;

// The size of the whole record that begins at `at`. Nullopt: it does not end within the stream.
inline std::optional<std::size_t> record_bytes(const SavedBytes& stream, std::size_t at) {
  constexpr std::size_t kAround = state::kRecordHeadBytes + state::kRecordTailBytes;
  if (stream.size() - at < kAround) return std::nullopt;
  std::uint32_t length = 0;
  std::memcpy(&length, stream.data() + at + 8, sizeof length);
  if (length > stream.size() - at - kAround) return std::nullopt;
  return kAround + length;
}

inline void make_checksum_right(std::span<std::byte> record) {
  const std::size_t sum_at = record.size() - state::kRecordTailBytes;
  const std::uint32_t sum = state::crc32c(record.first(sum_at));
  std::memcpy(record.data() + sum_at, &sum, sizeof sum);
}

// Corrects the checksums of all records that can be found by their lengths.
inline void make_checksums_right(SavedBytes& stream) {
  std::size_t at = 0;
  while (const auto bytes = record_bytes(stream, at)) {
    make_checksum_right(std::span(stream).subspan(at, *bytes));
    at += *bytes;
  }
}

// Changes each byte of each record's body in turn, in three ways, corrects the checksum, and calls
// `visit(stream)`.
template <typename Visit>
void for_each_flip(SavedBytes stream, Visit visit) {
  std::size_t at = 0;
  while (const auto bytes = record_bytes(stream, at)) {
    const std::span<std::byte> record = std::span(stream).subspan(at, *bytes);
    for (std::size_t i = state::kRecordHeadBytes; i < *bytes - state::kRecordTailBytes; ++i) {
      for (const std::byte flip : {std::byte{1}, std::byte{0x80}, std::byte{0xff}}) {
        record[i] ^= flip;
        make_checksum_right(record);
        visit(std::as_const(stream));
        record[i] ^= flip;
      }
    }
    make_checksum_right(record);
    at += *bytes;
  }
}

// The whole records of a stream, without its head and end.
inline std::vector<SavedBytes> records_of(const SavedBytes& stream) {
  std::vector<SavedBytes> records;
  std::size_t at = 0;
  while (const auto bytes = record_bytes(stream, at)) {
    records.emplace_back(stream.begin() + static_cast<std::ptrdiff_t>(at),
                         stream.begin() + static_cast<std::ptrdiff_t>(at + *bytes));
    at += *bytes;
  }
  return {records.begin() + 1, records.end() - 1};
}

inline state::RecordKind kind_of(const SavedBytes& record) {
  state::RecordKind kind{};
  std::memcpy(&kind.kind, record.data(), sizeof kind.kind);
  std::memcpy(&kind.version, record.data() + 4, sizeof kind.version);
  return kind;
}

// Makes a stream of these records, with a head and a correct end.
inline SavedBytes stream_of(const std::vector<SavedBytes>& records) {
  const auto append = [](SavedBytes& to, const SavedBytes& bytes) {
    to.insert(to.end(), bytes.begin(), bytes.end());
  };
  SavedBytes empty = state::Writer().finish();
  const std::size_t head_bytes = *record_bytes(empty, 0);
  SavedBytes out(empty.begin(), empty.begin() + static_cast<std::ptrdiff_t>(head_bytes));
  SavedBytes end(empty.begin() + static_cast<std::ptrdiff_t>(head_bytes), empty.end());
  for (const SavedBytes& record : records) append(out, record);
  const auto count = static_cast<std::uint32_t>(records.size());
  const std::uint64_t bytes_before = out.size();
  std::memcpy(end.data() + state::kRecordHeadBytes, &count, sizeof count);
  std::memcpy(end.data() + state::kRecordHeadBytes + sizeof count, &bytes_before, sizeof bytes_before);
  make_checksum_right(end);
  append(out, end);
  return out;
}

// The stream after calling `change(saved)` for each record of that kind.
template <typename Saved, typename Change>
SavedBytes changed(const SavedBytes& stream, state::RecordKind kind, Change change) {
  std::vector<SavedBytes> records = records_of(stream);
  for (SavedBytes& record : records) {
    if (kind_of(record) != kind) continue;
    const SavedBytes alone = stream_of({record});
    state::Reader reader(alone);
    static_cast<void>(reader.next());
    Saved saved{};
    describe(reader, saved);
    change(saved);
    state::Writer writer;
    writer.begin(kind);
    describe(writer, saved);
    writer.end();
    record = records_of(writer.finish()).front();
  }
  return stream_of(records);
}

}  // namespace pvrdma::test
