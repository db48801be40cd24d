#include "api/process_routes.h"

#include <ctime>
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

void add_process_routes(Router& router, const ApiParts& parts) {
  router.add(
      {"GET", "/v1/process", "The daemon's limits, clock and certificates", nullptr,
       schema_for<ProcessAnswer>,
       [version = parts.version, in_cluster = parts.plane != nullptr, certificates = parts.certificates](
           const Call&) { return ok(text_of(process_now(version, in_cluster, certificates()))); }});
}

}  // namespace pvrdma::api
