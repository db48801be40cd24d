#include "transport/tcp/tls_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <strings.h>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "transport/tcp/pieces.h"
#include "transport/tcp/tls_errors.h"

namespace pvrdma::transport::tcp {
namespace {

constexpr std::size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
constexpr std::size_t kInputBytes = Stream::kReadyBytesMax + kRecordBytes;  // a record more than is asked for

// The socket below, as OpenSSL's BIO: its own socket BIO would raise SIGPIPE.
struct Socket {
  Fd fd;
  int error = 0;  // of the last call that failed for good
  bool at_end = false;
};

Socket& socket_of(BIO* bio) {
  return *static_cast<Socket*>(BIO_get_data(bio));
}

int finish(BIO* bio, ssize_t moved, int retry_flag) {
  BIO_clear_retry_flags(bio);
  if (moved >= 0) return static_cast<int>(moved);
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
    BIO_set_flags(bio, retry_flag | BIO_FLAGS_SHOULD_RETRY);
  } else {
    socket_of(bio).error = errno;
  }
  return -1;
}

int bio_read(BIO* bio, char* into, int size) {
  Socket& socket = socket_of(bio);
  const ssize_t got = ::recv(socket.fd.get(), into, static_cast<std::size_t>(size), MSG_DONTWAIT);
  socket.at_end = got == 0;
  return finish(bio, got, BIO_FLAGS_READ);
}

int bio_write(BIO* bio, const char* from, int size) {
  const ssize_t sent =
      ::send(socket_of(bio).fd.get(), from, static_cast<std::size_t>(size), MSG_DONTWAIT | MSG_NOSIGNAL);
  return finish(bio, sent, BIO_FLAGS_WRITE);
}

long bio_control(BIO* bio, int command, long, void*) {
  switch (command) {
    case BIO_CTRL_FLUSH:
      return 1;
    case BIO_CTRL_EOF:
      return socket_of(bio).at_end ? 1 : 0;
    default:
      return 0;
  }
}

const BIO_METHOD* bio_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "connection");
    PVRDMA_CHECK(made != nullptr, "out of memory");
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_ctrl(made, bio_control);
    return made;
  }();
  return method;
}

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using OwnedSsl = std::unique_ptr<SSL, FreeSsl>;

std::string_view text_of(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(ASN1_STRING_length(text))};
}

std::vector<std::string> names_of(const X509* certificate) {
  std::vector<std::string> names;
  auto* const alternatives =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(alternatives); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(alternatives, i);
    if (name->type == GEN_DNS) names.emplace_back(text_of(name->d.dNSName));
  }
  GENERAL_NAMES_free(alternatives);
  if (!names.empty()) return names;
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int last = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (last >= 0) names.emplace_back(text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, last))));
  return names;
}

class TlsStream final : public Stream {
 public:
  TlsStream(std::unique_ptr<Socket> socket, OwnedSsl ssl) : socket_(std::move(socket)), ssl_(std::move(ssl)) {
    SSL_set_app_data(ssl_.get(), this);
    SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, on_verified);
  }
  ~TlsStream() override {
    if (!is_ready_ || is_broken_) return;
    ERR_clear_error();
    SSL_shutdown(ssl_.get());  // as far as the socket takes it now
    ERR_clear_error();
  }
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  int fd() const override { return socket_->fd.get(); }

  Handshake handshake() override {
    if (is_ready_) return Handshake::kDone;
    if (is_broken_) return Handshake::kFailed;
    ERR_clear_error();
    const int done = SSL_do_handshake(ssl_.get());
    if (done == 1) {
      is_ready_ = true;
      return Handshake::kDone;
    }
    switch (SSL_get_error(ssl_.get(), done)) {
      case SSL_ERROR_WANT_READ:
        return Handshake::kWantRead;
      case SSL_ERROR_WANT_WRITE:
        return Handshake::kWantWrite;
      default:
        fail_for_good();
        return Handshake::kFailed;
    }
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
    std::size_t skip = 0;  // in the first of `pieces`
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
      if (encrypt(from, size) == Io::kBroken) return {taken == 0 ? Io::kBroken : Io::kDone, taken};
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
  bool wants_write() const override { return unsent_ != 0; }

  // A repetition names the same bytes. OpenSSL reads them again when a message of its own was in the way.
  Io flush() override {
    if (is_broken_) return Io::kBroken;
    return unsent_ == 0 ? Io::kDone : encrypt(record_.data(), unsent_);
  }

  bool peer_is(std::string_view host) const override {
    const std::vector<std::string> names = peer_names();
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return name.size() == host.size() && ::strncasecmp(name.data(), host.data(), host.size()) == 0;
    });
  }

  std::vector<std::string> peer_names() const override {
    const X509* const certificate = is_ready_ ? SSL_get0_peer_certificate(ssl_.get()) : nullptr;
    return certificate == nullptr ? std::vector<std::string>{} : names_of(certificate);
  }

  std::string trouble() const override { return trouble_; }

 private:
  std::size_t held() const { return end_ - begin_; }

  void drop(std::size_t bytes) {
    begin_ += bytes;
    if (begin_ == end_) begin_ = end_ = 0;
  }

  // So that `wanted` bytes and a record more fit behind begin_.
  void make_room(std::size_t wanted) {
    if (!input_) input_ = std::make_unique_for_overwrite<std::byte[]>(kInputBytes);
    if (begin_ + wanted + kRecordBytes <= kInputBytes) return;
    std::memmove(input_.get(), input_.get() + begin_, held());
    end_ -= begin_;
    begin_ = 0;
  }

  Transfer decrypt(std::span<std::byte> into) {
    if (is_broken_) return {Io::kBroken, 0};
    ERR_clear_error();
    std::size_t got = 0;
    const int done = SSL_read_ex(ssl_.get(), into.data(), into.size(), &got);
    if (done == 1) return {Io::kDone, got};
    switch (SSL_get_error(ssl_.get(), done)) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:  // an answer of TLS itself: it goes out with our next record
        return {Io::kWouldBlock, 0};
      case SSL_ERROR_ZERO_RETURN:
        return {Io::kClosed, 0};
      default:
        fail_for_good();
        return {Io::kBroken, 0};
    }
  }

  // Makes a record of all `size` bytes (1 ... kRecordBytes). kWouldBlock: record_ has unsent_ of them.
  Io encrypt(const std::byte* from, std::size_t size) {
    ERR_clear_error();
    if (unsent_ == 0 && ++records_ % kRecordsPerKey == 0 &&
        SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
      fail_for_good();
      return Io::kBroken;
    }
    std::size_t sent = 0;
    const int done = SSL_write_ex(ssl_.get(), from, size, &sent);
    if (done == 1) {
      PVRDMA_CHECK(sent == size, "a record is sent as a whole");
      unsent_ = 0;
      return Io::kDone;
    }
    switch (SSL_get_error(ssl_.get(), done)) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        if (from != record_.data()) std::memcpy(record_.data(), from, size);
        unsent_ = size;
        return Io::kWouldBlock;
      default:
        fail_for_good();
        return Io::kBroken;
    }
  }

  void fail_for_good() {
    is_broken_ = true;
    if (!trouble_.empty()) {
      ERR_clear_error();  // on_verified has said it better
    } else if (ERR_peek_error() != 0) {
      trouble_ = describe_tls_error();
    } else if (socket_->error != 0) {
      trouble_ = "the connection broke: " + std::generic_category().message(socket_->error);
    } else {
      trouble_ = "the peer cut the connection";
    }
  }

  static int on_verified(int fine, X509_STORE_CTX* context) {
    const int index = SSL_get_ex_data_X509_STORE_CTX_idx();
    auto* const ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(context, index));
    auto* const self = static_cast<TlsStream*>(SSL_get_app_data(ssl));
    if (fine != 1 && self->trouble_.empty()) self->trouble_ = describe_refused_certificate(context);
    return fine;
  }

  std::unique_ptr<Socket> socket_;  // before ssl_: its BIO borrows it
  OwnedSsl ssl_;
  bool is_ready_ = false;
  bool is_broken_ = false;
  std::string trouble_;

  std::unique_ptr<std::byte[]> input_;  // decrypted, [begin_, end_); made when first needed
  std::size_t begin_ = 0;
  std::size_t end_ = 0;

  std::array<std::byte, kRecordBytes> record_;
  std::size_t unsent_ = 0;  // bytes in record_ that OpenSSL could not send in full
  std::uint64_t records_ = 0;
};

}  // namespace

Result<std::unique_ptr<Stream>> make_tls_stream(Fd socket, ssl_ctx_st& context, TlsRole role) {
  auto owned = std::make_unique<Socket>();
  owned->fd = std::move(socket);
  OwnedSsl ssl(SSL_new(&context));
  BIO* const bio = ssl ? BIO_new(bio_method()) : nullptr;
  if (bio == nullptr) return fail("no TLS connection can be made: " + openssl_reason());
  BIO_set_data(bio, owned.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl.get(), bio, bio);  // owns it
  if (role == TlsRole::kClient) {
    SSL_set_connect_state(ssl.get());
  } else {
    SSL_set_accept_state(ssl.get());
  }
  return std::make_unique<TlsStream>(std::move(owned), std::move(ssl));
}

}  // namespace pvrdma::transport::tcp
