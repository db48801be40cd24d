#include "transport/tcp/tls_stream.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "transport/tcp/pieces.h"

namespace pvrdma::transport::tcp {
namespace {

using tls::kRecordBytes;

// One record more than the caller asks for.
constexpr std::size_t kInputBytes = Stream::kReadyBytesMax + kRecordBytes;

class TlsStream final : public Stream {
 public:
  explicit TlsStream(std::unique_ptr<tls::Stream> stream) : stream_(std::move(stream)) {}

  int fd() const override { return stream_->fd(); }

  Handshake handshake() override {
    const tls::Io io = stream_->handshake();
    handshake_wants_write_ = io == tls::Io::kWantWrite;
    switch (io) {
      case tls::Io::kDone:
        return Handshake::kDone;
      case tls::Io::kWantRead:
        return Handshake::kWantRead;
      case tls::Io::kWantWrite:
        return Handshake::kWantWrite;
      case tls::Io::kClosed:
      case tls::Io::kBroken:
        break;
    }
    return stream_->is_cut() ? Handshake::kCut : Handshake::kFailed;
  }

  Transfer read_some(std::span<std::byte> into) override {
    PVRDMA_CHECK(!into.empty(), "a read of nothing cannot tell the stream's end");
    if (held() == 0) return decrypt(into);
    const std::size_t size = std::min(held(), into.size());
    std::memcpy(into.data(), input_.get() + begin_, size);
    drop(size);
    return {Io::kDone, size};
  }

  Transfer ready(std::size_t wanted) override {
    PVRDMA_CHECK(wanted <= kReadyBytesMax, "asks for more than a stream gathers");
    if (held() < wanted) make_room(wanted);
    while (held() < wanted) {
      const Transfer got = decrypt({input_.get() + end_, kInputBytes - end_});
      if (got.io != Io::kDone) return {got.io, held()};
      end_ += got.bytes;
    }
    return {Io::kDone, held()};
  }

  std::size_t read_into(const guestmem::SpanList& into) override {
    guestmem::SpanList source;
    if (!source.append(input_.get() + begin_, held())) return 0;
    const auto size = static_cast<std::size_t>(guestmem::copy(into, source, into.bytes()));
    drop(size);
    return size;
  }

  Transfer write_some(std::span<const iovec> pieces) override {
    if (const Io io = flush(); io != Io::kDone) return {io, 0};
    std::size_t taken = 0;
    std::size_t skip = 0;  // bytes to skip in the first of `pieces`
    while (unsent_ == 0) {
      while (!pieces.empty() && pieces.front().iov_len <= skip) {
        skip = 0;
        pieces = pieces.subspan(1);
      }
      if (pieces.empty()) break;
      const std::byte* from = static_cast<const std::byte*>(pieces.front().iov_base) + skip;
      std::size_t size = std::min(pieces.front().iov_len - skip, kRecordBytes);
      if (size < kRecordBytes && pieces.size() > 1) {
        size = gather(pieces, record_, skip);
        from = record_.data();
      }
      if (encrypt({from, size}) == Io::kBroken) return {taken == 0 ? Io::kBroken : Io::kDone, taken};
      taken += size;
      for (std::size_t left = size; left != 0;) {
        const std::size_t step = std::min(left, pieces.front().iov_len - skip);
        left -= step;
        skip += step;
        if (skip == pieces.front().iov_len && left != 0) {
          skip = 0;
          pieces = pieces.subspan(1);
        }
      }
    }
    return {Io::kDone, taken};
  }

  void push() override {}
  bool wants_write() const override { return unsent_ != 0 || handshake_wants_write_; }

  // A repeated write must name the same bytes: OpenSSL reads them again if it had to send a message of its
  // own first.
  Io flush() override {
    if (stream_->is_broken()) return Io::kBroken;
    return unsent_ == 0 ? Io::kDone : encrypt({record_.data(), unsent_});
  }

  bool peer_is(std::string_view host) const override { return stream_->peer_is(host); }
  std::vector<std::string> peer_names() const override { return stream_->peer_names(); }
  std::string trouble() const override { return stream_->trouble(); }

 private:
  std::size_t held() const { return end_ - begin_; }

  void drop(std::size_t bytes) {
    begin_ += bytes;
    if (begin_ == end_) begin_ = end_ = 0;
  }

  // Makes room for `wanted` bytes and one more record after begin_.
  void make_room(std::size_t wanted) {
    if (!input_) input_ = std::make_unique_for_overwrite<std::byte[]>(kInputBytes);
    if (begin_ + wanted + kRecordBytes <= kInputBytes) return;
    std::memmove(input_.get(), input_.get() + begin_, held());
    end_ -= begin_;
    begin_ = 0;
  }

  // Answers of TLS itself that the socket does not take now leave with our next record.
  static Io without_direction(tls::Io io) {
    switch (io) {
      case tls::Io::kDone:
        return Io::kDone;
      case tls::Io::kWantRead:
      case tls::Io::kWantWrite:
        return Io::kWouldBlock;
      case tls::Io::kClosed:
        return Io::kClosed;
      case tls::Io::kBroken:
        break;
    }
    return Io::kBroken;
  }

  Transfer decrypt(std::span<std::byte> into) {
    const tls::Transfer got = stream_->read(into);
    return {without_direction(got.io), got.bytes};
  }

  // Makes one record of all `bytes` (1 ... kRecordBytes). kWouldBlock: unsent_ bytes of it are in record_.
  Io encrypt(std::span<const std::byte> bytes) {
    const Io io = without_direction(stream_->write(bytes).io);
    unsent_ = io == Io::kWouldBlock ? bytes.size() : 0;
    if (unsent_ != 0 && bytes.data() != record_.data())
      std::memcpy(record_.data(), bytes.data(), bytes.size());
    return io;
  }

  const std::unique_ptr<tls::Stream> stream_;
  bool handshake_wants_write_ = false;

  std::unique_ptr<std::byte[]> input_;  // decrypted, [begin_, end_); made when first needed
  std::size_t begin_ = 0;
  std::size_t end_ = 0;

  std::array<std::byte, kRecordBytes> record_;
  std::size_t unsent_ = 0;  // bytes in record_ that OpenSSL could not send completely
};

}  // namespace

std::unique_ptr<Stream> make_tls_stream(std::unique_ptr<tls::Stream> stream) {
  return std::make_unique<TlsStream>(std::move(stream));
}

}  // namespace pvrdma::transport::tcp
