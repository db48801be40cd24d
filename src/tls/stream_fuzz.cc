// Fuzzes a Stream, as server or client, against an arbitrary peer. The peer's own TLS renegotiates, floods
// with new keys, or stops at any point. Bytes on the way are changed, cut off or made up.
//
// Input: how@0:1 (bit 0: ours is the client; bits 1 and 2: the kind of context; bit 3: bytes only, without
// TLS at the other end), then steps, see Step. The fuzzer checks: nothing crashes or blocks. A broken stream
// says why and stays broken. The bytes read are exactly those that the peer wrote, in order. More messages of
// TLS itself than stream.h allows end the stream.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <memory>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "support/fuzz_input.h"
#include "tls/context.h"
#include "tls/test_certificates.h"

namespace pvrdma::tls {
namespace {

using test::FuzzInput;

constexpr int kStepsMax = 64;
constexpr int kHandshakeRounds = 8;

enum class Step : std::uint8_t {
  kMove,         // deliver what both have written; then ours reads
  kPeerWrites,   // bytes@0:2
  kNewKeys,      // count@0:1; odd: also requests new keys from ours
  kRenegotiate,  // TLS 1.2
  kPeerStops,    // in order
  kBytes,        // count@0:1, then that many bytes, sent straight to ours
  kChange,       // at@0:2, what@2:1: changes the next bytes from the peer
  kCut,          // at@0:2: cuts the next bytes there, and no more bytes come
  kWrite,        // bytes@0:2, by ours
  kStop,         // by ours
  kHandshake,
  kCount
};

std::byte pattern(std::uint64_t at) {
  return static_cast<std::byte>(at * 131 + (at >> 8));
}

// All contexts, made once.
struct Contexts {
  Contexts() {
    log::set_level(log::Level::kError);
    mutual = Context::mutual(files).value();
    server_only = Context::server_only(files.certificate, files.key).value();
    for (SSL_CTX* const context : {raw_client.get(), raw_server.get()}) {
      PVRDMA_CHECK(SSL_CTX_use_certificate_file(context, files.certificate.c_str(), SSL_FILETYPE_PEM) == 1 &&
                       SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) == 1,
                   "the certificate can be used");
      SSL_CTX_set_num_tickets(context, 0);
      SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    }
    // The server asks the peer for a certificate, so the peer must verify, too.
    SSL_CTX_set_verify(raw_server.get(), SSL_VERIFY_PEER, [](int, X509_STORE_CTX*) { return 1; });
  }
  struct Free {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  TestCertificates certificates;
  const Files files = certificates.issue("a");
  std::unique_ptr<Context> mutual;
  std::unique_ptr<Context> server_only;
  std::unique_ptr<SSL_CTX, Free> raw_client{SSL_CTX_new(TLS_client_method())};
  std::unique_ptr<SSL_CTX, Free> raw_server{SSL_CTX_new(TLS_server_method())};
};

class Pair {
 public:
  Pair(const Contexts& contexts, std::uint8_t how) {
    std::array<int, 2> fds{};
    PVRDMA_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0, "socketpair");
    far_ = Fd(fds[1]);
    PVRDMA_CHECK(::fcntl(far_.get(), F_SETFL, O_NONBLOCK) == 0, "O_NONBLOCK");
    const bool client = (how & 1) != 0;
    const Context& context = client || (how & 2) != 0 ? *contexts.mutual : *contexts.server_only;
    ours_ = (client ? context.client(Fd(fds[0])) : context.server(Fd(fds[0]))).value();
    if ((how & 8) != 0) return;
    peer_.reset(SSL_new(client ? contexts.raw_server.get() : contexts.raw_client.get()));
    if ((how & 4) != 0) SSL_set_max_proto_version(peer_.get(), TLS1_2_VERSION);
    client ? SSL_set_accept_state(peer_.get()) : SSL_set_connect_state(peer_.get());
    SSL_set_options(peer_.get(), SSL_OP_ALLOW_CLIENT_RENEGOTIATION);
    SSL_set_bio(peer_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));  // takes ownership
  }

  void run(FuzzInput input) {
    for (int i = 0; i < kStepsMax && !input.empty(); ++i) step(input);
    for (int i = 0; i < kHandshakeRounds; ++i) move();
  }

 private:
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  void step(FuzzInput& input) {
    switch (static_cast<Step>(input.byte() % static_cast<std::uint8_t>(Step::kCount))) {
      case Step::kMove:
        return move();
      case Step::kPeerWrites:
        return peer_writes(1 + input.u16() % (2 * kRecordBytes));
      case Step::kNewKeys: {
        const std::uint8_t count = input.byte();
        for (int i = 0; peer_ && i < count; ++i) new_key(count % 2 != 0);
        return;
      }
      case Step::kRenegotiate:
        if (peer_) {
          SSL_renegotiate(peer_.get());
          SSL_do_handshake(peer_.get());
          ERR_clear_error();
        }
        return;
      case Step::kPeerStops:
        if (peer_) SSL_shutdown(peer_.get());
        ERR_clear_error();
        return;
      case Step::kBytes: {
        const auto bytes = input.take_bytes(input.byte());
        to_ours(bytes);
        tampered_ = tampered_ || !bytes.empty();
        return;
      }
      case Step::kChange:
        change_at_ = input.u16();
        change_ = static_cast<std::byte>(input.byte());
        return;
      case Step::kCut:
        cut_at_ = input.u16();
        return;
      case Step::kWrite:
        return write(1 + input.u16() % (2 * kRecordBytes));
      case Step::kStop:
        return ours_->shut_down();
      case Step::kHandshake:
        static_cast<void>(shake_hands());
        return;
      case Step::kCount:
        return;
    }
  }

  void peer_writes(std::size_t bytes) {
    if (!peer_ || SSL_is_init_finished(peer_.get()) != 1) return;
    std::vector<std::byte> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) data[i] = pattern(peer_wrote_ + i);
    std::size_t sent = 0;
    if (SSL_write_ex(peer_.get(), data.data(), bytes, &sent) == 1) peer_wrote_ += sent;
    ERR_clear_error();
  }
  void new_key(bool ask) {
    if (SSL_is_init_finished(peer_.get()) != 1 || SSL_version(peer_.get()) != TLS1_3_VERSION) return;
    const int kind = ask ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED;
    if (SSL_key_update(peer_.get(), kind) == 1 && SSL_do_handshake(peer_.get()) == 1) ++new_keys_;
    ERR_clear_error();
  }

  void to_ours(std::span<const std::byte> bytes) {
    if (bytes.empty() || !far_) return;
    const ssize_t sent = ::send(far_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(bytes.size())) tampered_ = true;  // a full socket loses the rest
  }

  void move() {
    if (peer_) {
      std::array<char, 16384> piece;
      for (ssize_t got; (got = ::recv(far_.get(), piece.data(), piece.size(), 0)) > 0;)
        BIO_write(SSL_get_rbio(peer_.get()), piece.data(), static_cast<int>(got));
      if (SSL_is_init_finished(peer_.get()) != 1) SSL_do_handshake(peer_.get());
      while (SSL_read(peer_.get(), piece.data(), static_cast<int>(piece.size())) > 0) {
      }
      ERR_clear_error();
      send_what_the_peer_wrote();
    }
    if (shake_hands()) read();
  }
  void send_what_the_peer_wrote() {
    char* data = nullptr;
    const long size = BIO_get_mem_data(SSL_get_wbio(peer_.get()), &data);
    const auto* const begin = reinterpret_cast<const std::byte*>(data);
    std::vector<std::byte> bytes(begin, begin + std::max(0L, size));
    static_cast<void>(BIO_reset(SSL_get_wbio(peer_.get())));
    if (change_ != std::byte{0} && change_at_ < bytes.size()) {
      bytes[change_at_] ^= std::exchange(change_, std::byte{0});
      tampered_ = true;
    }
    const bool cut = cut_at_ < bytes.size();
    if (cut) bytes.resize(cut_at_);
    to_ours(bytes);
    if (cut) {
      tampered_ = true;
      ::shutdown(far_.get(), SHUT_WR);
    }
  }

  bool shake_hands() {
    const Io io = ours_->handshake();
    check(io);
    PVRDMA_CHECK(!ready_ || io == Io::kDone, "a handshake is over once");
    ready_ = io == Io::kDone;
    return ready_;
  }
  void read() {
    std::array<std::byte, 4096> got;
    while (true) {
      const Transfer transfer = ours_->read(got);
      check(transfer.io);
      PVRDMA_CHECK((transfer.io == Io::kDone) == (transfer.bytes != 0), "bytes come when it is done");
      if (transfer.io == Io::kWantRead && !tampered_ && peer_) {
        PVRDMA_CHECK(new_keys_ <= kControlMessages + read_ / kBytesPerControlMessage,
                     "a flood ends the stream");
      }
      if (transfer.io != Io::kDone) return;
      PVRDMA_CHECK(transfer.bytes <= peer_wrote_ - read_, "no more than was written");
      for (std::size_t i = 0; i < transfer.bytes; ++i, ++read_)
        PVRDMA_CHECK(got[i] == pattern(read_), "the bytes that were written");
    }
  }
  void write(std::size_t bytes) {
    if (!ready_) return;
    // Bytes that were not taken are offered again unchanged.
    if (unwritten_ == 0) unwritten_ = bytes;
    const std::vector<std::byte> data(unwritten_, std::byte{0x3c});
    const Transfer transfer = ours_->write(data);
    check(transfer.io);
    PVRDMA_CHECK(transfer.bytes <= std::min(unwritten_, kRecordBytes), "one record");
    if (transfer.io == Io::kDone) unwritten_ = 0;
  }
  void check(Io io) {
    PVRDMA_CHECK(!broken_ || io == Io::kBroken || ready_, "what is broken stays so");
    if (io != Io::kBroken) return;
    broken_ = true;
    PVRDMA_CHECK(ours_->is_broken() && !ours_->trouble().empty(), "what broke says why");
  }

  std::unique_ptr<Stream> ours_;
  Fd far_;
  std::unique_ptr<SSL, Free> peer_;  // null: bytes only
  std::uint64_t peer_wrote_ = 0;
  std::uint64_t read_ = 0;
  std::uint64_t new_keys_ = 0;
  std::size_t unwritten_ = 0;
  std::size_t change_at_ = 0;
  std::byte change_{0};
  std::size_t cut_at_ = SIZE_MAX;
  bool tampered_ = false;
  bool ready_ = false;
  bool broken_ = false;
};

}  // namespace
}  // namespace pvrdma::tls

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pvrdma::tls;
  static const Contexts contexts;
  pvrdma::test::FuzzInput input(data, size);
  const std::uint8_t how = input.byte();
  Pair(contexts, how).run(input);
  return 0;
}
