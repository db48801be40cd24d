#include "api/process_routes.h"

#include <ctime>
#include <fmt/format.h>
#include <sys/resource.h>
#include <utility>

#include "api/requests.h"
#include "api/routes.h"

namespace pvrdma::api {
namespace {

std::optional<std::uint64_t> soft_limit(__rlimit_resource resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace

ProcessAnswer process_now(std::string_view version, bool in_cluster,
                          std::vector<tls::CertificateState> certificates) {
  return {.version = version,
          .in_cluster = in_cluster,
          .now_s = static_cast<std::uint64_t>(std::time(nullptr)),
          .open_files_max = soft_limit(RLIMIT_NOFILE),
          .locked_bytes_max = soft_limit(RLIMIT_MEMLOCK),
          .certificates = std::move(certificates)};
}

std::string certificate_metrics(const std::vector<tls::CertificateState>& certificates) {
  std::string text;
  for (const tls::CertificateState& each : certificates) {
    text +=
        fmt::format("pvrdma_certificate_not_after_seconds{{use=\"{}\"}} {}\n", each.use, each.not_after_s);
  }
  return text.empty() ? text : "# TYPE pvrdma_certificate_not_after_seconds gauge\n" + text;
}

void add_process_routes(Router& router, const ApiParts& parts) {
  router.add(
      {"GET", "/v1/process", "The daemon's limits, clock and certificates", nullptr,
       schema_for<ProcessAnswer>,
       [version = parts.version, in_cluster = parts.plane != nullptr, certificates = parts.certificates](
           const Call&) { return ok(text_of(process_now(version, in_cluster, certificates()))); }});
}

}  // namespace pvrdma::api
