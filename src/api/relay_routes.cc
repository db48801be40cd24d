#include "api/relay_routes.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fmt/core.h>
#include <utility>
#include <vector>

#include "api/host_reads.h"
#include "base/check.h"
#include "base/no_such.h"

namespace pvrdma::api {
namespace {

constexpr std::string_view kRoot = "/v1";

// Each is a GET of JSON. Below "/v1/hosts/{host}" it is that host's.
constexpr std::array<std::string_view, 17> kOfHost{"/v1/version",
                                                   "/v1/process",
                                                   "/v1/adapters",
                                                   "/v1/adapters/{adapter}",
                                                   "/v1/qps",
                                                   "/v1/stats",
                                                   "/v1/paths",
                                                   "/v1/paths/summary",
                                                   "/v1/shards",
                                                   "/v1/budgets",
                                                   "/v1/captures",
                                                   "/v1/faults",
                                                   "/v1/events",
                                                   "/v1/cluster",
                                                   "/v1/motions",
                                                   "/v1/vms/{vm}/motion",
                                                   "/v1/vms/{vm}/qemu-args"};
// "/v1/hosts/{host}/rdma/{device}/stats" asks it of another host.
constexpr std::string_view kRdmaStats = "/v1/hosts/self/rdma/{device}/stats";

// The texts of a route that is made of another one.
struct Texts {
  std::string path;
  std::string summary;
};

// Routes borrow their texts.
const std::vector<Texts>& texts() {
  static const std::vector<Texts> all = [] {
    std::vector<Texts> made;
    for (const std::string_view path : kOfHost)
      made.push_back({fmt::format("/v1/hosts/{{host}}{}", path.substr(kRoot.size())),
                      fmt::format("GET {} of that host, in a cluster whose hosts have certificates", path)});
    return made;
  }();
  return all;
}

const Route& route_of(const Router& router, std::string_view path) {
  const auto found = std::ranges::find_if(
      router.routes(), [&](const Route& each) { return each.method == "GET" && each.path == path; });
  PVRDMA_CHECK(found != router.routes().end(), "each path of the list is a route");
  return *found;
}

Error not_alive(const std::string& host) {
  return {
      .code = EHOSTDOWN,
      .message = fmt::format("host {} is not asked, because it is not alive: its pvrdmad does not run, or "
                             "does not reach the store; run 'pvrdmactl doctor' there",
                             host),
      .kind = ErrorKind::kUnavailable};
}

// A GET of `path` as the host's own daemon gets it.
Call inner_call(const Call& call) {
  const std::string_view above = "/v1/hosts/";
  Call inner = call;
  inner.path = fmt::format("{}{}", kRoot, call.path.substr(above.size() + call.names[0].size()));
  inner.names.erase(inner.names.begin());
  return inner;
}

}  // namespace

bool is_relayed(std::string_view path) {
  const auto parts = segments(path);
  return matches(kRdmaStats, parts) ||
         std::ranges::any_of(kOfHost, [&](std::string_view each) { return matches(each, parts); });
}

void add_relay_routes(Router& router, const ApiParts& parts) {
  for (std::size_t i = 0; i < kOfHost.size(); ++i) {
    const Route& own = route_of(router, kOfHost[i]);
    const auto handler = [answer_here = own.handler, plane = parts.plane,
                          reads = parts.reads](const Call& call) {
      const std::string host = host_name(plane->host(), call.names[0]);
      const Call inner = inner_call(call);
      if (host == plane->host()) return answer_here(inner);
      const auto inventory = plane->inventory();
      if (!inventory->hosts.contains(host)) return refuse(no_such("host", host, "host"));
      if (!inventory->live_hosts.contains(host)) return refuse(not_alive(host));
      return reads->read(host, {inner.path, {inner.query.begin(), inner.query.end()}});
    };
    router.add({.method = "GET",
                .path = texts()[i].path,
                .summary = texts()[i].summary,
                .body = nullptr,
                .answer = own.answer,
                .handler = handler,
                .query = own.query,
                .of_cluster = true});
  }
}

}  // namespace pvrdma::api
