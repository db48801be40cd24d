#include "tls/stream.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <mutex>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <strings.h>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "tls/errors.h"

namespace pvrdma::tls {

static_assert(kRecordBytes == SSL3_RT_MAX_PLAIN_LENGTH);

// The socket as an OpenSSL BIO. OpenSSL's own socket BIO would raise SIGPIPE.
struct Socket {
  Fd fd;
  int error = 0;  // of the last call that failed for good
  bool at_end = false;
};

namespace {

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

// Null: there is no memory for it. Another call tries again.
const BIO_METHOD* bio_method() {
  static std::mutex mutex;
  static BIO_METHOD* method = nullptr;  // guarded by mutex
  const std::lock_guard lock(mutex);
  if (method == nullptr) {
    static const int type = BIO_get_new_index() | BIO_TYPE_SOURCE_SINK;
    method = BIO_meth_new(type, "connection");
    if (method == nullptr) return nullptr;
    BIO_meth_set_read(method, bio_read);
    BIO_meth_set_write(method, bio_write);
    BIO_meth_set_ctrl(method, bio_control);
  }
  return method;
}

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

}  // namespace

void Stream::Free::operator()(ssl_st* ssl) const {
  SSL_free(ssl);
}

Result<std::unique_ptr<Stream>> Stream::create(Fd socket, ssl_ctx_st& context, Role role) {
  auto owned = std::make_unique<Socket>();
  owned->fd = std::move(socket);
  OwnedSsl ssl(SSL_new(&context));
  const BIO_METHOD* const method = bio_method();
  BIO* const bio = ssl && method != nullptr ? BIO_new(method) : nullptr;
  if (bio == nullptr) return fail("no TLS connection can be made: " + openssl_reason());
  BIO_set_data(bio, owned.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl.get(), bio, bio);  // takes ownership
  if (role == Role::kClient) {
    SSL_set_connect_state(ssl.get());
  } else {
    SSL_set_accept_state(ssl.get());
  }
  return std::unique_ptr<Stream>(new Stream(std::move(owned), std::move(ssl)));
}

Stream::Stream(std::unique_ptr<Socket> socket, OwnedSsl ssl)
    : socket_(std::move(socket)), ssl_(std::move(ssl)) {
  SSL_set_app_data(ssl_.get(), this);
  SSL_set_verify(ssl_.get(), SSL_get_verify_mode(ssl_.get()), on_verified);
  SSL_set_msg_callback(ssl_.get(), on_message);
  SSL_set_msg_callback_arg(ssl_.get(), this);
}

Stream::~Stream() {
  shut_down();
}

int Stream::fd() const {
  return socket_->fd.get();
}

Io Stream::handshake() {
  if (is_ready_) return Io::kDone;
  if (is_broken_) return Io::kBroken;
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_.get());
  if (done != 1) return verdict(done);
  is_ready_ = true;
  return Io::kDone;
}

Transfer Stream::read(std::span<std::byte> into) {
  if (is_broken_) return {Io::kBroken, 0};
  ERR_clear_error();
  std::size_t got = 0;
  const int done = SSL_read_ex(ssl_.get(), into.data(), into.size(), &got);
  if (done == 1) {
    received_bytes_ += got;
    return {Io::kDone, got};
  }
  if (is_flooded_) {
    ERR_clear_error();
    is_broken_ = true;
    trouble_ = fmt::format("the peer sent {} messages of TLS itself with {} bytes of data: too many",
                           control_messages_, received_bytes_);
    return {Io::kBroken, 0};
  }
  if (SSL_get_error(ssl_.get(), done) == SSL_ERROR_ZERO_RETURN) return {Io::kClosed, 0};
  return {verdict(done), 0};
}

bool Stream::holds_input() const {
  return SSL_has_pending(ssl_.get()) == 1;
}

Transfer Stream::write(std::span<const std::byte> from) {
  if (is_broken_) return {Io::kBroken, 0};
  ERR_clear_error();
  // TLS 1.2 has no key update.
  if (!is_retry_ && ++records_ % kRecordsPerKey == 0 && SSL_version(ssl_.get()) == TLS1_3_VERSION &&
      SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
    note_trouble();
    return {Io::kBroken, 0};
  }
  const std::size_t size = std::min(from.size(), kRecordBytes);
  std::size_t sent = 0;
  const int done = SSL_write_ex(ssl_.get(), from.data(), size, &sent);
  is_retry_ = done != 1;
  if (is_retry_) return {verdict(done), 0};
  PVRDMA_CHECK(sent == size, "without partial writes all of it is sent");
  return {Io::kDone, size};
}

void Stream::shut_down() {
  if (!is_ready_ || is_broken_ || std::exchange(is_shut_down_, true)) return;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

bool Stream::peer_is(std::string_view host) const {
  const std::vector<std::string> names = peer_names();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return name.size() == host.size() && ::strncasecmp(name.data(), host.data(), host.size()) == 0;
  });
}

std::vector<std::string> Stream::peer_names() const {
  const X509* const certificate = is_ready_ ? SSL_get0_peer_certificate(ssl_.get()) : nullptr;
  return certificate == nullptr ? std::vector<std::string>{} : names_of(certificate);
}

// The result of a call that returned `result`, which was not success.
Io Stream::verdict(int result) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Io::kWantRead;
    case SSL_ERROR_WANT_WRITE:
      return Io::kWantWrite;
    default:
      note_trouble();
      return Io::kBroken;
  }
}

void Stream::note_trouble() {
  is_broken_ = true;
  if (!trouble_.empty()) {
    ERR_clear_error();  // on_verified() has already recorded a better text
  } else if (const unsigned long error = ERR_peek_error(); error != 0) {
    is_cut_ = ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    trouble_ = describe_error(*ssl_);
  } else if (socket_->error != 0) {
    is_cut_ = socket_->error == ECONNRESET || socket_->error == EPIPE;
    trouble_ = "the connection broke: " + std::generic_category().message(socket_->error);
  } else {
    is_cut_ = true;
    trouble_ = "the peer cut the connection";
  }
}

// Counts messages that are not data: handshake messages (a KeyUpdate is one), and each warning that we send
// to refuse a renegotiation. To leave the loop inside SSL_read(), it marks the stream as ended by the peer,
// because OpenSSL then reads no further record.
void Stream::on_message(int is_written, int /*version*/, int type, const void* /*bytes*/,
                        std::size_t /*size*/, ssl_st* ssl, void* self) {
  auto& stream = *static_cast<Stream*>(self);
  if (!stream.is_ready_ || type != (is_written != 0 ? SSL3_RT_ALERT : SSL3_RT_HANDSHAKE)) return;
  const std::uint64_t allowed = kControlMessages + stream.received_bytes_ / kBytesPerControlMessage;
  if (++stream.control_messages_ <= allowed) return;
  stream.is_flooded_ = true;
  SSL_set_shutdown(ssl, SSL_get_shutdown(ssl) | SSL_RECEIVED_SHUTDOWN);
}

int Stream::on_verified(int fine, x509_store_ctx_st* context) {
  const int index = SSL_get_ex_data_X509_STORE_CTX_idx();
  auto* const ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(context, index));
  auto* const self = static_cast<Stream*>(SSL_get_app_data(ssl));
  if (fine != 1 && self->trouble_.empty()) self->trouble_ = describe_refused_certificate(context);
  return fine;
}

}  // namespace pvrdma::tls
