#include "state/reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "state/crc32c.h"

namespace pvrdma::state {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::size_t kRunBytes = 12;

static_assert(std::endian::native == std::endian::little, "as the stream");

std::uint64_t load(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return value;
}

}  // namespace

bool Reader::holds_record(std::span<const std::byte> bytes) {
  if (bytes.size() < kRecordHeadBytes) return false;
  const std::uint64_t length = load(bytes.subspan(8, 4));
  return length > kRecordBytesMax || bytes.size() >= kRecordHeadBytes + length + kRecordTailBytes;
}

Reader::Reader(std::span<const std::byte> stream) : left_(stream) {
  const std::optional<Record> head = open_record();
  if (!head) return;
  if (head->kind.kind != kHeadKind || take(8) != kMagic) {
    refuse("this is not a saved state");
    return;
  }
  const std::uint64_t format = take(2);
  if (format != kFormat)
    refuse("its format is " + std::to_string(format) + ", this daemon reads " + std::to_string(kFormat));
  text("product_version", head_.product_version, kProductVersionBytesMax);
  bytes("id", head_.id);
  records_ = 0;
}

std::optional<Reader::Record> Reader::open_record() {
  if (failed()) return std::nullopt;
  if (left_.size() < kRecordHeadBytes + kRecordTailBytes) {
    refuse("it is truncated");
    return std::nullopt;
  }
  const std::uint64_t length = load(left_.subspan(8, 4));
  if (length > kRecordBytesMax || length > left_.size() - kRecordHeadBytes - kRecordTailBytes) {
    refuse("a record is truncated, or too long");
    return std::nullopt;
  }
  const std::size_t summed = kRecordHeadBytes + static_cast<std::size_t>(length);
  if (load(left_.subspan(summed, kRecordTailBytes)) != crc32c(left_.first(summed))) {
    refuse("the checksum of a record is wrong");
    return std::nullopt;
  }
  const Record record{.kind = {.kind = static_cast<std::uint16_t>(load(left_.first(2))),
                               .version = static_cast<std::uint16_t>(load(left_.subspan(4, 2)))},
                      .must_be_understood = (load(left_.subspan(2, 2)) & kMustUnderstand) != 0};
  body_ = left_.subspan(kRecordHeadBytes, static_cast<std::size_t>(length));
  left_ = left_.subspan(summed + kRecordTailBytes);
  bytes_before_ = bytes_;
  bytes_ += summed + kRecordTailBytes;
  ++records_;
  return record;
}

std::optional<Reader::Record> Reader::next() {
  if (!failed() && !body_.empty()) refuse("a record has more fields than this daemon knows");
  if (ended_) return std::nullopt;
  const std::optional<Record> record = open_record();
  if (!record || record->kind.kind != kEndKind) return record;
  const bool all_there = take(4) == records_ - 1 && take(8) == bytes_before_;
  if (!all_there || !body_.empty() || !left_.empty()) refuse("records are missing, or there are too many");
  ended_ = true;
  return std::nullopt;
}

void Reader::skip(const Record& record) {
  if (record.must_be_understood)
    refuse("record kind " + std::to_string(record.kind.kind) + " version " +
           std::to_string(record.kind.version) + " is not known to this daemon");
  body_ = {};
}

void Reader::refuse(std::string why) {
  if (!fault_) fault_ = std::move(why);
  body_ = {};
}

Result<> Reader::result() const {
  if (fault_) return fail("the saved state is refused, record " + std::to_string(records_) + ": " + *fault_);
  return {};
}

std::uint64_t Reader::take(std::size_t bytes) {
  if (bytes > body_.size()) {
    refuse("it ends in the middle of a field");
    return 0;
  }
  const std::uint64_t value = load(body_.first(bytes));
  body_ = body_.subspan(bytes);
  return value;
}

std::uint64_t Reader::checked(std::string_view name, std::uint64_t value, std::uint64_t least,
                              std::uint64_t most) {
  if (failed()) return least;
  if (value >= least && value <= most) return value;
  refuse(std::string(name) + " is " + std::to_string(value) + ", not " + std::to_string(least) + " to " +
         std::to_string(most));
  return least;
}

std::uint32_t Reader::take_count(std::string_view name, std::uint32_t most, std::size_t bytes_at_least) {
  const std::uint64_t count = checked(name, take(4), 0, most);
  if (count <= body_.size() / bytes_at_least) return static_cast<std::uint32_t>(count);
  refuse(std::string(name) + ": the record ends before its " + std::to_string(count) + " elements");
  return 0;
}

void Reader::text(std::string_view name, std::string& value, std::uint32_t most) {
  value.clear();
  const std::uint32_t count = take_count(name, most, 1);
  for (std::uint32_t i = 0; i < count; ++i) value += static_cast<char>(checked(name, take(1), ' ', '~'));
  if (failed()) value.clear();
}

void Reader::pages(std::string_view name, std::vector<std::uint64_t>& pages, std::uint32_t most) {
  pages.clear();
  const std::uint32_t runs = take_count(name, most, kRunBytes);
  for (std::uint32_t run = 0; run < runs; ++run) {
    const std::uint64_t first = take(8);
    const std::uint64_t count = checked(name, take(4), 1, most - pages.size());
    if (failed()) return pages.clear();
    if (first % kPageBytes != 0 || count > (UINT64_MAX - first) / kPageBytes) {
      refuse(std::string(name) + ": a page is not aligned, or beyond the last address");
      return pages.clear();
    }
    for (std::uint64_t i = 0; i < count; ++i) pages.push_back(first + i * kPageBytes);
  }
}

}  // namespace pvrdma::state
