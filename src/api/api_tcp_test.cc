// The API over TCP: TLS, the token, and clients that are silent, slow, or never stop sending.
#include <algorithm>
#include <filesystem>
#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string>
#include <sys/socket.h>
#include <vector>

#include "api/api_fixture.h"
#include "api/tls_listener.h"
#include "base/fd.h"
#include "support/log_of.h"
#include "web/assets.h"

namespace pvrdma::api {
namespace {

using testing::HasSubstr;

constexpr const char* kToken = "0123456789abcdef";
constexpr const char* kReadToken = "fedcba9876543210";
constexpr const char* kCertifiedName = "api.example";

// Writes a key and a self-signed certificate for 127.0.0.1 and kCertifiedName, as two PEM files.
void write_certificate(const std::string& certificate_file, const std::string& key_file,
                       const EVP_CIPHER* cipher = nullptr) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("test"), -1, -1,
                             0);
  X509_set_issuer_name(certificate, name);
  X509_EXTENSION* alternative = X509V3_EXT_conf_nid(
      nullptr, nullptr, NID_subject_alt_name, (std::string("IP:127.0.0.1,DNS:") + kCertifiedName).c_str());
  X509_add_ext(certificate, alternative, -1);
  X509_sign(certificate, key, EVP_sha256());
  std::FILE* file = std::fopen(certificate_file.c_str(), "w");
  PEM_write_X509(file, certificate);
  std::fclose(file);
  file = std::fopen(key_file.c_str(), "w");
  std::string passphrase = "secret";
  PEM_write_PrivateKey(file, key, cipher, nullptr, 0, nullptr, passphrase.data());
  std::fclose(file);
  X509_EXTENSION_free(alternative);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

class ApiOverTcp : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    write_certificate(config_.certificate, config_.key);
    server_ = ApiServer::listen(folder_ + "/api.sock", host_.parts(member_.plane.get()), config_).value();
    server_->start();
    ASSERT_NE(server_->tcp_port(), 0);
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<httplib::SSLClient> client() {
    auto made = std::make_unique<httplib::SSLClient>("127.0.0.1", server_->tcp_port());
    made->set_ca_cert_path(config_.certificate.c_str());
    made->enable_server_certificate_verification(true);
    return made;
  }
  httplib::Result get(const std::string& path, const httplib::Headers& headers) {
    return client()->Get(path, headers);
  }
  static httplib::Headers bearer(const std::string& token) { return {{"Authorization", "Bearer " + token}}; }

  Fd connect() const {
    sockaddr_storage address{};
    const socklen_t length = config_.address.to_sockaddr(server_->tcp_port(), address);
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
    return fd;
  }
  static bool is_closed_by_server(const Fd& fd) {
    char byte = 0;
    return ::recv(fd.get(), &byte, 1, 0) <= 0;
  }

  const std::string folder_ = test_path("");
  control::ApiTcpConfig config_{.address = IpAddress::parse("127.0.0.1").value(),
                                .port = 0,
                                .certificate = folder_ + "/certificate.pem",
                                .key = folder_ + "/key.pem",
                                .token = kToken,
                                .read_token = kReadToken};
  FakeHost host_;
  FakeMember member_;
  std::unique_ptr<ApiServer> server_;
};

TEST_F(ApiOverTcp, GoesByItsAddressesAndTheNamesOfItsCertificate) {
  const auto status = [&](const std::string& header, const std::string& value) {
    httplib::Headers headers = bearer(kToken);
    headers.emplace(header, value);
    const auto answer = get("/v1/version", headers);
    return answer ? answer->status : 0;
  };
  EXPECT_EQ(status("Host", "127.0.0.1:8443"), 200);
  EXPECT_EQ(status("Host", "10.9.8.7"), 200);
  EXPECT_EQ(status("Host", kCertifiedName), 200);
  EXPECT_EQ(status("Host", "evil.example"), 403);
  EXPECT_EQ(status("Origin", "https://evil.example"), 403);
}

TEST_F(ApiOverTcp, AnswersWhoHasTheToken) {
  const auto answer = get("/v1/hosts/self", bearer(kToken));
  ASSERT_TRUE(answer) << to_string(answer.error());
  EXPECT_EQ(answer->status, 200);
  EXPECT_THAT(answer->body, HasSubstr("\"name\":\"esx-01\""));
  EXPECT_EQ(get("/v1/version", {{"Authorization", std::string("bearer ") + kToken}})->status, 200)
      << "the scheme's case does not matter";
  const auto made = client()->Post("/v1/dvs", bearer(kToken), R"({"name": "dvs1"})", "application/json");
  ASSERT_TRUE(made);
  EXPECT_EQ(made->status, 200);
  EXPECT_TRUE(member_.plane->inventory()->switches.contains("dvs1"));
}

TEST_F(ApiOverTcp, TheTokenForReadingReadsOnly) {
  for (const char* path : {"/v1/version", "/v1/hosts/self", "/metrics", "/openapi.json"}) {
    EXPECT_EQ(get(path, bearer(kReadToken))->status, 200) << path;
  }
  EXPECT_EQ(client()->Head("/v1/version", bearer(kReadToken))->status, 200);
  EXPECT_THAT(get("/v1/version", bearer(kReadToken))->body, HasSubstr("\"role\":\"read-only\""));
  EXPECT_THAT(get("/v1/version", bearer(kToken))->body, HasSubstr("\"role\":\"administrator\""));
  const auto made = client()->Post("/v1/dvs", bearer(kReadToken), R"({"name": "dvs1"})", "application/json");
  ASSERT_TRUE(made);
  EXPECT_EQ(made->status, 403);
  EXPECT_EQ(made->body,
            "{\"error\":\"the token of [api] read_token_file permits only GET: POST /v1/dvs needs the token "
            "of [api] token_file\"}\n");
  const auto large =
      client()->Post("/v1/dvs", bearer(kReadToken), std::string(kBodyBytesMax + 1, ' '), "application/json");
  ASSERT_TRUE(large);
  EXPECT_EQ(large->status, 403) << "it is refused before its body is looked at";
  EXPECT_TRUE(member_.plane->inventory()->switches.empty());
}

TEST_F(ApiOverTcp, TheWebClientNeedsNoTokenButWhatItAsksDoes) {
  if (web::assets().empty()) GTEST_SKIP() << "built without the web client (PVRDMA_WEB=OFF)";
  EXPECT_EQ(get("/", {})->status, 302);
  EXPECT_EQ(get("/ui/", {})->status, 200);
  EXPECT_EQ(client()->Head("/ui/")->status, 200);
  EXPECT_EQ(get("/ui/no-such.js", {})->status, 404);
  EXPECT_EQ(get("/ui/", {{"Host", "evil.example"}})->status, 403);
  for (const char* path : {"/v1/version", "/openapi.json", "/ui/views/x", "/x"})
    EXPECT_EQ(get(path, {})->status, 401) << path;
  EXPECT_EQ(client()->Post("/ui/", "{}", "application/json")->status, 401);
}

TEST_F(ApiOverTcp, WithoutATokenForReadingNoOtherTokenIsAccepted) {
  config_.read_token.clear();
  const auto other =
      ApiServer::listen(folder_ + "/other.sock", host_.parts(member_.plane.get()), config_).value();
  other->start();
  httplib::SSLClient ask("127.0.0.1", other->tcp_port());
  ask.enable_server_certificate_verification(false);
  for (const std::string& token : {std::string(kReadToken), std::string(), std::string(" ")}) {
    const auto answer = ask.Get("/v1/version", bearer(token));
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 401) << token;
  }
}

TEST_F(ApiOverTcp, RefusesWhoHasNot) {
  const std::string token = kToken;
  const std::vector<httplib::Headers> wrong{
      {},
      bearer(""),
      bearer("0123456789abcdeF"),
      bearer(token + "0"),
      bearer(token.substr(1)),
      {{"Authorization", token}},
      {{"Authorization", "Basic " + token}},
      {{"Authorization", "Bearer " + token}, {"Authorization", "Bearer " + token}},
  };
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    const auto answer = get("/v1/version", wrong[i]);
    ASSERT_TRUE(answer) << i;
    EXPECT_EQ(answer->status, 401) << i;
    EXPECT_EQ(answer->get_header_value("WWW-Authenticate"), "Bearer realm=\"pvrdmad\"") << i;
    EXPECT_THAT(answer->body, HasSubstr("Authorization: Bearer TOKEN")) << i;
  }
  for (const char* path : {"/openapi.json", "/metrics", "/nothing"}) {
    EXPECT_EQ(get(path, {})->status, 401) << path;
  }
  const std::string body = R"({"name": "dvs1"})";
  const auto post = client()->Post("/v1/dvs", body.size(), slowly(body), "application/json");
  ASSERT_TRUE(post) << "the answer arrives although nobody keeps the body";
  EXPECT_EQ(post->status, 401);
  EXPECT_TRUE(member_.plane->inventory()->switches.empty());
}

TEST_F(ApiOverTcp, TellsOfWrongTokensOnceInAWhile) {
  const std::string told = test::log_of([&] {
    EXPECT_EQ(get("/v1/version", {})->status, 401);  // as a browser asks first
    EXPECT_EQ(get("/v1/version", bearer("0123456789abcdeF"))->status, 401);
    EXPECT_EQ(get("/v1/version", bearer("0123456789abcdeG"))->status, 401);
  });
  EXPECT_THAT(told, HasSubstr("API over TCP: the client at 127.0.0.1 gave a wrong token"));
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
}

TEST_F(ApiOverTcp, NeedsNoTokenOnTheUnixSocket) {
  EXPECT_EQ(unix_client(folder_ + "/api.sock").Get("/v1/version")->status, 200);
}

TEST_F(ApiOverTcp, TakesTls12AndNewerOnly) {
  for (const auto& [version, accepted] :
       {std::pair(TLS1_3_VERSION, true), std::pair(TLS1_2_VERSION, true), std::pair(TLS1_1_VERSION, false)}) {
    SSL_CTX* context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_security_level(context, 0);
    SSL_CTX_set_min_proto_version(context, version);
    SSL_CTX_set_max_proto_version(context, version);
    const Fd fd = connect();
    SSL* ssl = SSL_new(context);
    SSL_set_fd(ssl, fd.get());
    EXPECT_EQ(SSL_connect(ssl) == 1, accepted) << version;
    SSL_free(ssl);
    SSL_CTX_free(context);
  }
  httplib::Client plain("127.0.0.1", server_->tcp_port());
  EXPECT_FALSE(plain.Get("/v1/version")) << "no TLS at all";
}

TEST_F(ApiOverTcp, DropsClientsThatAreSilent) {
  std::vector<Fd> silent;
  for (std::size_t i = 0; i < 2 * TlsListener::kThreads; ++i) silent.push_back(connect());
  EXPECT_EQ(unix_client(folder_ + "/api.sock").Get("/v1/version")->status, 200)
      << "the UNIX socket has threads of its own";
  for (const Fd& fd : silent) EXPECT_TRUE(is_closed_by_server(fd));
  EXPECT_EQ(get("/v1/version", bearer(kToken))->status, 200);
}

TEST_F(ApiOverTcp, DropsClientsThatAreEndless) {
  httplib::Headers headers = bearer(kToken);
  for (int i = 0; i < 60; ++i) headers.emplace("X-" + std::to_string(i), std::string(4000, 'x'));
  const auto answer = get("/v1/version", headers);
  EXPECT_TRUE(!answer || answer->status == 400);
  EXPECT_EQ(get("/v1/version", bearer(kToken))->status, 200);
}

TEST_F(ApiOverTcp, RefusesBodiesThatAreTooLong) {
  const auto answer =
      client()->Post("/v1/dvs", bearer(kToken), std::string(kBodyBytesMax + 1, ' '), "application/json");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 413);
}

TEST_F(ApiOverTcp, StopsWithClientsConnected) {
  std::vector<Fd> silent;
  for (std::size_t i = 0; i < TlsListener::kThreads + 4; ++i) silent.push_back(connect());
  server_.reset();
  for (const Fd& fd : silent) EXPECT_TRUE(is_closed_by_server(fd));
}

TEST_F(ApiOverTcp, NamesWhatItCannotUse) {
  const auto listen = [&](const control::ApiTcpConfig& config) {
    return ApiServer::listen(folder_ + "/other.sock", host_.parts(), config).error();
  };
  control::ApiTcpConfig config = config_;
  config.port = server_->tcp_port();
  EXPECT_EQ(listen(config).code, EADDRINUSE);
  EXPECT_THAT(listen(config).message, HasSubstr("127.0.0.1 port " + std::to_string(config.port)));
  config = config_;
  config.certificate = folder_ + "/none.pem";
  EXPECT_THAT(listen(config).message, HasSubstr("certificate " + folder_ + "/none.pem"));
  config = config_;
  config.key = config.certificate;
  EXPECT_THAT(listen(config).message, HasSubstr("[api] key " + config.certificate));
  config = config_;
  write_certificate(folder_ + "/locked.pem", folder_ + "/locked.key", EVP_aes_128_cbc());
  config.certificate = folder_ + "/locked.pem";
  config.key = folder_ + "/locked.key";
  EXPECT_THAT(listen(config).message, HasSubstr("[api] key " + config.key + " has a passphrase"));
  config = config_;
  config.address = IpAddress::parse("203.0.113.7").value();
  EXPECT_THAT(listen(config).message, HasSubstr("203.0.113.7"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/other.sock")) << "nothing is left behind";
}

}  // namespace
}  // namespace pvrdma::api
