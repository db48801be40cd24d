// What the daemon says about its own process: limits of the kernel, its clock, its certificates.
//
// Thread: values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "schema/rules.h"
#include "tls/certificates.h"

namespace pvrdma::api {

struct ProcessAnswer {
  std::string_view version;
  bool in_cluster = false;
  std::uint64_t now_s = 0;                      // since the epoch
  std::optional<std::uint64_t> open_files_max;  // empty: no limit
  std::optional<std::uint64_t> locked_bytes_max;
  std::vector<tls::CertificateState> certificates;
};

ProcessAnswer process_now(std::string_view version, bool in_cluster,
                          std::vector<tls::CertificateState> certificates);

}  // namespace pvrdma::api

namespace pvrdma::schema {

template <>
inline constexpr auto kObject<tls::CertificateState> = record(
    "Certificate", field("use", &tls::CertificateState::use), field("file", &tls::CertificateState::file),
    field("not_after_s", &tls::CertificateState::not_after_s)
        .noted(R"("description": "When it expires, in seconds since 1970")"));

template <>
inline constexpr auto kObject<api::ProcessAnswer> =
    record("Process", field("version", &api::ProcessAnswer::version),
           field("in_cluster", &api::ProcessAnswer::in_cluster), field("now_s", &api::ProcessAnswer::now_s),
           field("open_files_max", &api::ProcessAnswer::open_files_max).noted(R"("nullable": true)"),
           field("locked_bytes_max", &api::ProcessAnswer::locked_bytes_max).noted(R"("nullable": true)"),
           field("certificates", &api::ProcessAnswer::certificates));

}  // namespace pvrdma::schema
