// "hca": the RDMA NIC as a path.
#include <fmt/core.h>

#include "pvrdmactl/grammar.h"
#include "pvrdmactl/json_fields.h"
#include "pvrdmactl/table.h"

namespace pvrdma::ctl {
namespace {

double scaled(const Json& check, const char* key, double unit) {
  return static_cast<double>(number_at(check, key)) / unit;
}

std::string check_text(const Json& check) {
  Properties properties(text_at(check, "device"));
  properties.add("MTU", digits_at(check, "mtu"));
  properties.add("GIDs", joined(check.at("gids")));
  properties.add("GID Used", text_at(check, "gid"));
  properties.add("Max QPs", digits_at(check, "max_qps"));
  properties.add("Max Work Requests", digits_at(check, "max_work_requests"));
  properties.add("Max SGEs", digits_at(check, "max_sges"));
  properties.add("Max CQEs", digits_at(check, "max_cqes"));
  properties.add("Max MRs", digits_at(check, "max_regions"));
  properties.add("Max MR Bytes", digits_at(check, "max_region_bytes"));
  properties.add("Max READs", digits_at(check, "max_reads"));
  const auto per_gib = [&](const char* key) { return fmt::format("{:.1f} ms/GiB", scaled(check, key, 1e3)); };
  properties.add(fmt::format("Register {} MiB, Untouched", number_at(check, "memory_mib")),
                 per_gib("register_untouched_us"));
  properties.add("Register Again", per_gib("register_us"));
  properties.add("Deregister", per_gib("deregister_us"));
  properties.add("SEND 64 B", fmt::format("{:.3f} million/s", scaled(check, "sends", 1e6)));
  const auto rate = [&](const char* key) { return fmt::format("{:.3f} GB/s", scaled(check, key, 1e9)); };
  properties.add("SEND 4 KiB", rate("send_bytes"));
  properties.add("READ 4 KiB", rate("read_bytes"));
  properties.add("READ 64 KiB", rate("long_read_bytes"));
  properties.add("READ 64 B, Alone", fmt::format("{:.1f} us", scaled(check, "read_ns", 1e3)));
  return properties.text();
}

}  // namespace

Section hca_commands() {
  return {.namespaces = {{"hca", "the host's RDMA NIC"}},
          .commands = {{.words = "hca check",
                        .help = "measure an RDMA NIC of this host, in loopback: a table for bug reports",
                        .arguments = {{.letter = 'd',
                                       .name = "device",
                                       .help = "as libibverbs calls it; default: the only one",
                                       .member = "/device"},
                                      {.name = "memory",
                                       .kind = Kind::kNumber,
                                       .help = "register this much memory; default: 256",
                                       .shows = "MiB",
                                       .member = "/memory_mib"}},
                        .method = Method::kPost,
                        .path = "/v1/hca/check",
                        .answer_seconds = 120,
                        .text = check_text}}};
}

}  // namespace pvrdma::ctl
