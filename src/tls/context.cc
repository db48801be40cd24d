#include "tls/context.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509err.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <utility>

#include "base/log.h"
#include "tls/errors.h"

namespace pvrdma::tls {
namespace {

constexpr int kChainDepthMax = 8;
constexpr std::size_t kReadAheadBytes = 64 * 1024;  // of ciphertext: one system call reads four records

// `name` is the file's role and its path.
Result<struct stat> look_at(const std::string& name, const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat state {};
  if (!file || ::fstat(file.get(), &state) != 0) return fail_errno(errno, "cannot read " + name);
  if (S_ISDIR(state.st_mode)) return fail(EISDIR, "cannot read " + name + ": it is a folder");
  return state;
}

// OpenSSL would otherwise ask for the passphrase at a terminal.
int no_passphrase(char*, int, int, void* was_asked) {
  if (was_asked != nullptr) *static_cast<bool*>(was_asked) = true;
  return -1;
}

Result<> load_authority(SSL_CTX* context, const std::string& path) {
  const std::string name = "CA file " + path;
  if (const auto seen = look_at(name, path); !seen) return Failure(seen.error());
  if (SSL_CTX_load_verify_file(context, path.c_str()) != 1)
    return fail(name + " is not a PEM file with certificates: " + openssl_reason());
  return {};
}

Result<> load_certificate(SSL_CTX* context, const std::string& path) {
  const std::string name = "certificate " + path;
  if (const auto seen = look_at(name, path); !seen) return Failure(seen.error());
  if (SSL_CTX_use_certificate_chain_file(context, path.c_str()) != 1)
    return fail(name + " is not a PEM file with a certificate that can be used: " + openssl_reason());
  const X509* const certificate = SSL_CTX_get0_certificate(context);
  const ASN1_TIME* const from = X509_get0_notBefore(certificate);
  const ASN1_TIME* const until = X509_get0_notAfter(certificate);
  if (X509_cmp_current_time(until) < 0) {
    log::warn("the certificate in {} expired on {}: peers will refuse it", path, date_of(until));
  } else if (X509_cmp_current_time(from) > 0) {
    log::warn("the certificate in {} is not valid before {}: peers will refuse it", path, date_of(from));
  }
  return {};
}

Result<> load_key(SSL_CTX* context, const std::string& path, const std::string& certificate_path) {
  const std::string name = "key " + path;
  const auto seen = look_at(name, path);
  if (!seen) return Failure(seen.error());
  if ((seen->st_mode & S_IROTH) != 0)
    log::warn("everyone on this host may read the private key in {}: chmod o-r it", path);
  bool has_passphrase = false;
  SSL_CTX_set_default_passwd_cb_userdata(context, &has_passphrase);
  const bool loaded = SSL_CTX_use_PrivateKey_file(context, path.c_str(), SSL_FILETYPE_PEM) == 1;
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);
  // When OpenSSL loads a key, it compares it only with a certificate of the same key type.
  if (loaded && SSL_CTX_check_private_key(context) == 1) return {};
  const unsigned long error = ERR_peek_error();
  if (loaded || (ERR_GET_LIB(error) == ERR_LIB_X509 && ERR_GET_REASON(error) == X509_R_KEY_VALUES_MISMATCH)) {
    ERR_clear_error();
    return fail(name + " does not belong to certificate " + certificate_path);
  }
  if (has_passphrase) {
    ERR_clear_error();
    return fail(name + " has a passphrase: write one without");
  }
  return fail(name + " is not a PEM file with a private key: " + openssl_reason());
}

// 128 bits come first: they are the fastest on processors with AES instructions.
constexpr const char* kSuites13 =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
constexpr const char* kSuites12 = "ECDHE+AESGCM:ECDHE+CHACHA20";  // TLS 1.2 also has weak suites

Result<> set_rules(SSL_CTX* context, int oldest_version) {
  if (context == nullptr) return fail(ENOMEM, "OpenSSL has no memory for a TLS context");
  SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Partial writes stay off: a peer may ask for records as small as 512 bytes, but Stream needs a write to be
  // complete or pending.
  SSL_CTX_set_mode(context, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadAheadBytes);
  SSL_CTX_set_verify_depth(context, kChainDepthMax);
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  if (SSL_CTX_set_min_proto_version(context, oldest_version) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_num_tickets(context, 0) != 1 || SSL_CTX_set_ciphersuites(context, kSuites13) != 1 ||
      SSL_CTX_set_cipher_list(context, kSuites12) != 1) {
    return fail("OpenSSL cannot be set up: " + openssl_reason());
  }
  return {};
}

Result<> load_identity(SSL_CTX* context, const std::string& certificate, const std::string& key) {
  if (auto loaded = load_certificate(context, certificate); !loaded) return loaded;
  return load_key(context, key, certificate);
}

}  // namespace

void Context::Free::operator()(ssl_ctx_st* context) const {
  SSL_CTX_free(context);
}

Result<Context::Owned> Context::load_mutual(const Files& files) {
  ERR_clear_error();
  Owned context(SSL_CTX_new(TLS_method()));
  if (auto set = set_rules(context.get(), TLS1_3_VERSION); !set) return Failure(std::move(set).error());
  if (auto loaded = load_authority(context.get(), files.ca); !loaded)
    return Failure(std::move(loaded).error());
  if (auto loaded = load_identity(context.get(), files.certificate, files.key); !loaded)
    return Failure(std::move(loaded).error());
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return context;
}

Result<Context::Owned> Context::load_server_only(const Files& files) {
  ERR_clear_error();
  Owned context(SSL_CTX_new(TLS_server_method()));
  if (auto set = set_rules(context.get(), TLS1_2_VERSION); !set) return Failure(std::move(set).error());
  if (auto loaded = load_identity(context.get(), files.certificate, files.key); !loaded)
    return Failure(std::move(loaded).error());
  return context;
}

Result<std::unique_ptr<Context>> Context::make(Load load, Files files) {
  auto context = load(files);
  if (!context) return Failure(std::move(context).error());
  return std::unique_ptr<Context>(new Context(load, std::move(files), *std::move(context)));
}

Result<std::unique_ptr<Context>> Context::mutual(const Files& files) {
  return make(load_mutual, files);
}

Result<std::unique_ptr<Context>> Context::server_only(const std::string& certificate,
                                                      const std::string& key) {
  return make(load_server_only, {.ca = {}, .certificate = certificate, .key = key});
}

Result<void> Context::reload() {
  auto loaded = load_(files_);
  if (!loaded) return Failure(std::move(loaded).error());
  const std::lock_guard lock(mutex_);
  context_.swap(*loaded);
  return {};
}

Context::Owned Context::current() const {
  const std::lock_guard lock(mutex_);
  SSL_CTX_up_ref(context_.get());
  return Owned(context_.get());
}

std::uint64_t Context::not_after_s() const {
  const Owned context = current();
  std::tm parts{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(context.get())), &parts) != 1) return 0;
  return static_cast<std::uint64_t>(std::max<std::time_t>(::timegm(&parts), 0));
}

bool Context::is_certified_as(const std::string& name) const {
  const Owned context = current();
  X509* const certificate = SSL_CTX_get0_certificate(context.get());
  return X509_check_host(certificate, name.data(), name.size(), 0, nullptr) == 1;
}

Result<std::unique_ptr<Stream>> Context::client(Fd socket) const {
  return Stream::create(std::move(socket), *current(), Role::kClient);
}

Result<std::unique_ptr<Stream>> Context::server(Fd socket) const {
  return Stream::create(std::move(socket), *current(), Role::kServer);
}

}  // namespace pvrdma::tls
