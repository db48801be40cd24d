// TestCertificates: a certificate authority of a test, in its own folder. The destructor removes it.
//
// Thread: a test's.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <string>
#include <vector>

#include "base/check.h"
#include "tls/context.h"

namespace pvrdma::tls {

class TestCertificates {
 public:
  struct Subject {
    std::string common_name;
    std::vector<std::string> dns_names;  // empty: no subjectAltName
    long valid_from_s = -3600;           // seconds from now
    long valid_until_s = 86400;
  };

  explicit TestCertificates(const std::string& authority = "test authority") {
    std::string folder = (std::filesystem::temp_directory_path() / "pvrdma-test-tls-XXXXXX").string();
    PVRDMA_CHECK(::mkdtemp(folder.data()) != nullptr, "the test needs a folder");
    folder_ = folder;
    authority_key_ = make_key();
    authority_ = make({.common_name = authority}, *authority_key_, true);
    write("ca.pem", [&](std::FILE* file) { return PEM_write_X509(file, authority_.get()); });
  }
  TestCertificates(const TestCertificates&) = delete;
  TestCertificates& operator=(const TestCertificates&) = delete;
  ~TestCertificates() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  const std::filesystem::path& folder() const { return folder_; }

  // The files of a new certificate, its key, and this authority's own certificate.
  Files issue_as(const Subject& subject) {
    const std::string name = "host" + std::to_string(++issued_);
    const Key key = make_key();
    const Certificate certificate = make(subject, *key, false);
    const std::string pem =
        write(name + ".pem", [&](std::FILE* f) { return PEM_write_X509(f, certificate.get()); });
    const std::string key_pem = write(name + ".key", [&](std::FILE* f) {
      return PEM_write_PrivateKey(f, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
    return {.ca = (folder_ / "ca.pem").string(), .certificate = pem, .key = key_pem};
  }
  // A certificate for the host's name.
  Files issue(const std::string& host) { return issue_as({.common_name = host, .dns_names = {host}}); }
  // A mutual context with such a certificate.
  std::shared_ptr<Context> context(const std::string& host) { return Context::mutual(issue(host)).value(); }

  // The file of a key with a passphrase. No certificate uses it.
  std::string locked_key() {
    const Key key = make_key();
    std::string passphrase = "secret";
    return write("locked.key", [&](std::FILE* f) {
      return PEM_write_PrivateKey(f, key.get(), EVP_aes_128_cbc(), nullptr, 0, nullptr, passphrase.data());
    });
  }
  // The file of a key of another type. No certificate uses it.
  std::string rsa_key() {
    const Key key(EVP_RSA_gen(2048));
    PVRDMA_CHECK(key != nullptr, "makes a key");
    return write("rsa.key", [&](std::FILE* f) {
      return PEM_write_PrivateKey(f, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
  }

 private:
  template <auto kFree>
  struct Free {
    void operator()(auto* object) const { kFree(object); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
  using Certificate = std::unique_ptr<X509, Free<X509_free>>;

  static Key make_key() {
    Key key(EVP_EC_gen("P-256"));
    PVRDMA_CHECK(key != nullptr, "makes a key");
    return key;
  }

  static void add_extension(X509& certificate, int nid, const std::string& value) {
    const std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>> extension(
        X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str()));
    PVRDMA_CHECK(extension && X509_add_ext(&certificate, extension.get(), -1) == 1, "adds an extension");
  }

  // Signed by the authority, or by its own key.
  Certificate make(const Subject& subject, EVP_PKEY& key, bool is_authority) {
    Certificate made(X509_new());
    X509_set_version(made.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), subject.valid_from_s);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), subject.valid_until_s);
    X509_set_pubkey(made.get(), &key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(subject.common_name.c_str()), -1, -1,
                               0);
    X509_set_issuer_name(made.get(), X509_get_subject_name(is_authority ? made.get() : authority_.get()));
    if (is_authority) {
      add_extension(*made, NID_basic_constraints, "critical,CA:TRUE");
      add_extension(*made, NID_key_usage, "critical,keyCertSign,cRLSign");
    }
    std::string names;
    for (const std::string& name : subject.dns_names) names += (names.empty() ? "DNS:" : ",DNS:") + name;
    if (!names.empty()) add_extension(*made, NID_subject_alt_name, names);
    EVP_PKEY* const signer = is_authority ? &key : authority_key_.get();
    PVRDMA_CHECK(X509_sign(made.get(), signer, EVP_sha256()) > 0, "signs");
    return made;
  }

  template <typename Write>
  std::string write(const std::string& name, Write&& write_pem) {
    const std::string path = (folder_ / name).string();
    std::FILE* const file = std::fopen(path.c_str(), "w");
    PVRDMA_CHECK(file != nullptr && write_pem(file) == 1 && std::fclose(file) == 0, "writes a PEM file");
    std::filesystem::permissions(path,
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    return path;
  }

  std::filesystem::path folder_;
  Key authority_key_;
  Certificate authority_;
  long serial_ = 0;
  int issued_ = 0;
};

}  // namespace pvrdma::tls
