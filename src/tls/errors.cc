#include "tls/errors.h"

#include <array>
#include <ctime>
#include <memory>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

namespace pvrdma::tls {
namespace {

std::string subject_of(X509* certificate) {
  if (certificate == nullptr) return "of an unknown subject";
  std::array<char, 200> name{};
  X509_NAME_oneline(X509_get_subject_name(certificate), name.data(), static_cast<int>(name.size()));
  return printable(name.data());
}

std::string oldest_version(const SSL& ssl) {
  // The macro behind this name casts const away.
  return SSL_get_min_proto_version(const_cast<SSL*>(&ssl)) == TLS1_3_VERSION ? "1.3" : "1.2 or newer";
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) out += c >= ' ' && c <= '~' ? c : '?';
  return out;
}

std::string date_of(const ASN1_TIME* time) {
  std::tm parts{};
  std::array<char, 40> text{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1 ||
      std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts) == 0) {
    return "an unreadable date";
  }
  return text.data();
}

std::string describe_refused_certificate(X509_STORE_CTX* context) {
  X509* const certificate = X509_STORE_CTX_get_current_cert(context);
  const int error = X509_STORE_CTX_get_error(context);
  const std::string which =
      (X509_STORE_CTX_get_error_depth(context) == 0 ? "the peer's certificate ("
                                                    : "a certificate of the peer's chain (") +
      subject_of(certificate) + ")";
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return which + " expired on " + date_of(X509_get0_notAfter(certificate));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return which + " is not valid before " + date_of(X509_get0_notBefore(certificate));
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:  // by another authority with the same name
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return which + " was not signed by the authority that this host trusts";
    default:
      return which + " was refused: " + X509_verify_cert_error_string(error);
  }
}

std::string describe_error(const SSL& ssl) {
  const unsigned long error = ERR_peek_error();
  const int reason = ERR_GET_REASON(error);
  if (ERR_GET_LIB(error) != ERR_LIB_SSL) return "TLS failed: " + openssl_reason();
  switch (reason) {
    case SSL_R_UNEXPECTED_EOF_WHILE_READING:
      ERR_clear_error();
      return "the peer cut the connection";
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      ERR_clear_error();
      return "the peer showed no certificate";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
      ERR_clear_error();
      return "the peer and this host have no version of TLS in common; this host speaks TLS " +
             oldest_version(ssl);
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
      ERR_clear_error();
      return "the peer does not speak TLS; is TLS configured on both sides?";
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
      ERR_clear_error();
      return "a TLS record was changed on its way";
    default:
      break;
  }
  // An alert from the peer: OpenSSL adds its number to a base.
  if (reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256) {
    ERR_clear_error();
    const int alert = reason - SSL_AD_REASON_OFFSET;
    const std::string name =
        alert == SSL_AD_CERTIFICATE_REQUIRED ? "certificate required" : SSL_alert_desc_string_long(alert);
    return "the peer refused this host with the TLS alert \"" + name + "\"";
  }
  return "TLS failed: " + openssl_reason();
}

std::string openssl_reason() {
  const char* const reason = ERR_reason_error_string(ERR_peek_error());
  ERR_clear_error();
  return reason != nullptr ? reason : "no reason given";
}

}  // namespace pvrdma::tls
