#include "pvrdmactl/api_client.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <httplib.h>
#include <memory>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <utility>

namespace pvrdma::ctl {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "pvrdmactl.XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A key and its self-signed certificate for 127.0.0.1, as PEM files.
void make_certificate(const std::string& certificate_path, const std::string& key_path, long valid_s) {
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -7200);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), valid_s);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("esx-01"), -1,
                             -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  X509_EXTENSION* names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1,DNS:esx-01");
  X509_add_ext(certificate.get(), names, -1);
  X509_EXTENSION_free(names);
  ASSERT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> certificate_file(
      std::fopen(certificate_path.c_str(), "w"), std::fclose);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> key_file(std::fopen(key_path.c_str(), "w"),
                                                                 std::fclose);
  ASSERT_TRUE(PEM_write_X509(certificate_file.get(), certificate.get()));
  ASSERT_TRUE(PEM_write_PrivateKey(key_file.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr));
}

// Answers with the request that it received. Runs until it is destroyed.
class Echo {
 public:
  explicit Echo(std::unique_ptr<httplib::Server> server) : server_(std::move(server)) {
    const auto tell = [](const httplib::Request& request, httplib::Response& answer) {
      answer.set_content(request.method + " " + request.target + " " + request.body + " " +
                             request.get_header_value("Content-Type") + " " +
                             request.get_header_value("Authorization"),
                         "text/plain");
    };
    const auto refuse = [](const httplib::Request&, httplib::Response& answer) {
      answer.status = 409;
      answer.set_content(R"({"error":"the VM is on"})", "application/json");
    };
    server_->Delete("/refused", refuse);
    server_->Get(".*", tell).Post(".*", tell).Put(".*", tell).Patch(".*", tell).Delete(".*", tell);
  }
  ~Echo() {
    server_->stop();
    if (thread_.joinable()) thread_.join();
  }
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;

  void serve_unix(const std::string& path) {
    server_->set_address_family(AF_UNIX);
    ASSERT_TRUE(server_->bind_to_port(path, 80));
    start();
  }
  std::uint16_t serve_tcp() {
    const int port = server_->bind_to_any_port("127.0.0.1");
    EXPECT_GT(port, 0);
    start();
    return static_cast<std::uint16_t>(port);
  }

 private:
  void start() {
    thread_ = std::thread([this] { server_->listen_after_bind(); });
    while (!server_->is_running()) std::this_thread::yield();  // until it runs, stop() would do nothing
  }

  std::unique_ptr<httplib::Server> server_;
  std::thread thread_;
};

Endpoint at_socket(std::string path) {
  Endpoint endpoint;
  endpoint.socket = std::move(path);
  return endpoint;
}

std::string sent(const Endpoint& endpoint, const Request& request) {
  const auto answer = send(endpoint, request);
  return answer ? *answer : "refused: " + answer.error().message;
}

// --- UNIX socket ---

TEST(ApiClient, SendsEachMethodOverTheSocket) {
  const Folder folder;
  Echo server(std::make_unique<httplib::Server>());
  server.serve_unix(folder / "api.sock");
  const Endpoint endpoint = at_socket(folder / "api.sock");
  EXPECT_EQ(sent(endpoint, {Method::kGet, "/v1/qps?adapter=VM-01", ""}), "GET /v1/qps?adapter=VM-01   ");
  EXPECT_EQ(sent(endpoint, {Method::kPost, "/a", "{}"}), "POST /a {} application/json ");
  EXPECT_EQ(sent(endpoint, {Method::kPut, "/a", "{\"b\":1}"}), "PUT /a {\"b\":1} application/json ");
  EXPECT_EQ(sent(endpoint, {Method::kPatch, "/a", "{}"}), "PATCH /a {} application/json ");
  EXPECT_EQ(sent(endpoint, {Method::kDelete, "/a?network=fd00%3A%3A%2F64", ""}),
            "DELETE /a?network=fd00%3A%3A%2F64   ");
  EXPECT_EQ(sent(endpoint, {Method::kDelete, "/refused", ""}), "refused: the VM is on");
}

TEST(ApiClient, SaysWhereItLookedForTheDaemon) {
  EXPECT_EQ(
      sent(at_socket("/nowhere/api.sock"), {Method::kGet, "/v1/version", ""}),
      "refused: the daemon cannot be reached at /nowhere/api.sock (No such file or directory): is pvrdmad "
      "running, and is this its api_socket?");
}

TEST(ApiClient, RefusesAPathNoSocketCanHave) {
  const std::string path(108, 'x');
  EXPECT_EQ(sent(at_socket(path), {Method::kGet, "/v1/version", ""}),
            "refused: the API socket's path \"" + path + "\" must have 1 to 107 bytes");
}

// --- TLS ---

class Tls : public ::testing::Test {
 protected:
  void SetUp() override { write(folder_ / "token", "0123456789abcdef\n"); }

  // A server whose certificate is valid for `valid_s` seconds from now.
  Endpoint serve(long valid_s) {
    make_certificate(folder_ / "cert.pem", folder_ / "key.pem", valid_s);
    auto tls =
        std::make_unique<httplib::SSLServer>((folder_ / "cert.pem").c_str(), (folder_ / "key.pem").c_str());
    EXPECT_TRUE(tls->is_valid());
    server_ = std::make_unique<Echo>(std::move(tls));
    Endpoint endpoint;
    endpoint.host = "127.0.0.1";
    endpoint.port = server_->serve_tcp();
    endpoint.token_file = folder_ / "token";
    endpoint.ca = folder_ / "cert.pem";
    return endpoint;
  }

  Folder folder_;
  std::unique_ptr<Echo> server_;
};

constexpr long kHour = 3600;
const Request kVersion{Method::kGet, "/v1/version", ""};

TEST_F(Tls, SendsTheTokenToAServerItTrusts) {
  const Endpoint endpoint = serve(kHour);
  EXPECT_EQ(sent(endpoint, kVersion), "GET /v1/version   Bearer 0123456789abcdef");
  EXPECT_EQ(sent(endpoint, {Method::kPatch, "/a", "{}"}),
            "PATCH /a {} application/json Bearer 0123456789abcdef");
  EXPECT_EQ(sent(endpoint, {Method::kDelete, "/refused", ""}), "refused: the VM is on");
}

TEST_F(Tls, TrustsNobodyItWasNotTold) {
  Endpoint endpoint = serve(kHour);
  make_certificate(folder_ / "other.pem", folder_ / "other.key", kHour);
  const std::string where = endpoint.to_string();
  for (const std::string& ca : {std::string(), folder_ / "other.pem"}) {
    endpoint.ca = ca;
    EXPECT_EQ(sent(endpoint, kVersion), "refused: the certificate of " + where +
                                            " is not trusted, expired or for another name: give the CA that "
                                            "signed it as --ca, and the host as "
                                            "the certificate names it")
        << ca;
  }
}

TEST_F(Tls, RefusesACertificateForAnotherName) {
  Endpoint endpoint = serve(kHour);
  endpoint.host = "localhost";
  EXPECT_TRUE(sent(endpoint, kVersion).starts_with("refused: the certificate of https://localhost:"));
}

TEST_F(Tls, RefusesAnExpiredCertificate) {
  EXPECT_TRUE(sent(serve(-kHour), kVersion).starts_with("refused: the certificate of https://127.0.0.1:"));
}

TEST_F(Tls, SaysWhichFileItCannotUse) {
  Endpoint endpoint = serve(kHour);
  endpoint.ca = folder_ / "nothing.pem";
  EXPECT_EQ(sent(endpoint, kVersion),
            "refused: cannot read the CA file " + endpoint.ca + ": No such file or directory");
  write(folder_ / "empty.pem", "no certificate\n");
  endpoint.ca = folder_ / "empty.pem";
  EXPECT_EQ(sent(endpoint, kVersion),
            "refused: no certificates in " + endpoint.ca + ": give a PEM file as --ca");
  endpoint.token_file = folder_ / "nothing";
  EXPECT_EQ(sent(endpoint, kVersion),
            "refused: cannot read the token file " + endpoint.token_file + ": No such file or directory");
}

TEST_F(Tls, SendsNoTokenThatIsNone) {
  Endpoint endpoint = serve(kHour);
  for (const std::string& token : {std::string(), std::string("short"), std::string(257, 'x'),
                                   std::string("0123456789 abcdef"), std::string("0123456789abcdef\x01")}) {
    write(folder_ / "token", token);
    EXPECT_EQ(sent(endpoint, kVersion), "refused: the token file " + endpoint.token_file +
                                            " must have a line of 16 to 256 visible characters");
  }
  write(folder_ / "token", "0123456789abcdef\r\nnotes\n");
  EXPECT_EQ(sent(endpoint, kVersion), "GET /v1/version   Bearer 0123456789abcdef");
}

TEST_F(Tls, SaysWhenNobodyListensOrSpeaksTls) {
  Endpoint endpoint = serve(kHour);
  server_.reset();
  EXPECT_EQ(sent(endpoint, kVersion), "refused: the daemon cannot be reached at " + endpoint.to_string() +
                                          ": is pvrdmad running, and is this its [api] listen?");
  Echo plain(std::make_unique<httplib::Server>());
  endpoint.port = plain.serve_tcp();
  EXPECT_EQ(sent(endpoint, kVersion), "refused: no TLS connection to " + endpoint.to_string() +
                                          ": is this the [api] listen of a pvrdmad?");
}

}  // namespace
}  // namespace pvrdma::ctl
