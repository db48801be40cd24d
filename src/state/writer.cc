#include "state/writer.h"

#include <bit>
#include <utility>

#include "base/check.h"
#include "state/crc32c.h"

namespace pvrdma::state {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

static_assert(std::endian::native == std::endian::little, "as the stream");

}  // namespace

Writer::Writer(const Head& head) {
  begin({kHeadKind, 1});
  put(kMagic, 8);
  put(kFormat, 2);
  text("product_version", head.product_version, kProductVersionBytesMax);
  bytes("id", head.id);
  end();
  records_ = 0;
}

void Writer::put(std::uint64_t value, std::size_t bytes) {
  const auto* const first = reinterpret_cast<const std::byte*>(&value);
  out_.insert(out_.end(), first, first + bytes);
}

void Writer::begin(RecordKind kind) {
  record_ = out_.size();
  put(kind.kind, 2);
  put(kMustUnderstand, 2);
  put(kind.version, 2);
  put(0, 2);
  put(0, 4);  // the length; end() fills it in
}

void Writer::end() {
  const std::size_t length = out_.size() - record_ - kRecordHeadBytes;
  PVRDMA_CHECK(length <= kRecordBytesMax, "no object is larger");
  for (std::size_t i = 0; i < 4; ++i) out_[record_ + 8 + i] = static_cast<std::byte>(length >> (8 * i));
  put(crc32c(std::span(out_).subspan(record_)), 4);
  ++records_;
}

std::vector<std::byte> Writer::take() {
  taken_ += out_.size();
  return std::exchange(out_, {});
}

void Writer::end_stream() {
  const std::uint32_t records = records_;
  const std::uint64_t bytes_before = taken_ + out_.size();
  begin({kEndKind, 1});
  put(records, 4);
  put(bytes_before, 8);
  end();
}

std::vector<std::byte> Writer::finish() {
  end_stream();
  return take();
}

void Writer::text(std::string_view /*name*/, const std::string& value, std::uint32_t most) {
  PVRDMA_CHECK(value.size() <= most, "a text is within its bound");
  put(value.size(), 4);
  for (const char c : value) put(static_cast<std::uint8_t>(c), 1);
}

void Writer::pages(std::string_view /*name*/, const std::vector<std::uint64_t>& pages,
                   std::uint32_t /*most*/) {
  const auto run_from = [&pages](std::size_t first) {
    std::size_t end = first + 1;
    while (end < pages.size() && pages[end] == pages[end - 1] + kPageBytes) ++end;
    return end;
  };
  std::uint32_t runs = 0;
  for (std::size_t at = 0; at < pages.size(); at = run_from(at)) ++runs;
  put(runs, 4);
  for (std::size_t at = 0; at < pages.size();) {
    const std::size_t end = run_from(at);
    put(pages[at], 8);
    put(end - at, 4);
    at = end;
  }
}

}  // namespace pvrdma::state
