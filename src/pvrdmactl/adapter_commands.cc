// "adapter ...", "qp ...", "path ...", "watch", "stats" and "version": the state of this host.
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "pvrdmactl/grammar.h"
#include "pvrdmactl/json_fields.h"
#include "pvrdmactl/table.h"

namespace pvrdma::ctl {
namespace {

Table adapter_list(const Json& list) {
  Table table({{"Name"},
               {"State"},
               {"MAC"},
               {"HW", Align::kRight},
               {"RoCE"},
               {"QPs", Align::kRight},
               {"TX Bytes", Align::kRight},
               {"RX Bytes", Align::kRight},
               {"Socket"}});
  for (const Json& adapter : list) {
    table.add({text_at(adapter, "name"), text_at(adapter, "state"), text_at(adapter, "mac"),
               digits_at(adapter, "hardware_version"), text_at(adapter, "roce"),
               digits_at(adapter.at("objects"), "qps"), digits_at(adapter, "tx_bytes"),
               digits_at(adapter, "rx_bytes"), text_at(adapter, "socket")});
  }
  return table;
}

std::string lost_text(const Json& gid) {
  const std::string host = text_at(gid, "lost_to");
  return host.empty() ? "" : fmt::format(", not in use: host {} holds it", host);
}

std::string adapter_text(const Json& adapter) {
  Properties properties(text_at(adapter, "name"));
  properties.add("State", text_at(adapter, "state"));
  if (const auto trouble = adapter.value("trouble", std::string()); !trouble.empty())
    properties.add("Trouble", trouble);
  properties.add("MAC", text_at(adapter, "mac"));
  properties.add("Hardware Version", digits_at(adapter, "hardware_version"));
  properties.add("RoCE", text_at(adapter, "roce"));
  properties.add("Doorbells", text_at(adapter, "doorbells"));
  properties.add("Active MTU", digits_at(adapter, "mtu"));
  properties.add("Native Endpoints", text_at(adapter, "native_endpoints"));
  properties.add("Socket", text_at(adapter, "socket"));
  properties.add("Link", bool_at(adapter, "link_up") ? "up" : "down");
  properties.add("Device Version", digits_at(adapter, "device_version"));
  const std::uint64_t driver = number_at(adapter, "driver_version");
  properties.add("Driver Version", driver == 0 ? "no driver" : std::to_string(driver));
  properties.add("Guest OS", text_at(adapter, "guest_os"));
  properties.add("Guest Memory", mebibytes_at(adapter, "memory_bytes"));
  const std::string trouble = text_at(adapter, "pinned_trouble");
  properties.add("Pinned Memory", mebibytes_at(adapter, "pinned_bytes") +
                                      (trouble.empty() ? "" : fmt::format(" ({})", trouble)));
  for (const Json& gid : adapter.at("gids")) {
    properties.add(fmt::format("GID {}", number_at(gid, "index")),
                   fmt::format("{} (RoCE {}){}", text_at(gid, "gid"), text_at(gid, "roce"), lost_text(gid)));
  }
  std::string objects;
  for (const auto& [name, count] : adapter.at("objects").items()) {
    objects += fmt::format("{}{} {}", objects.empty() ? "" : ", ", count.get<std::uint64_t>(), name);
  }
  properties.add("Objects", objects);
  const Json budgets = adapter.value("budgets", Json::object());
  for (const auto& [name, budget] : budgets.items()) {
    const std::uint64_t refused = number_at(budget, "refused");
    properties.add(fmt::format("Budget {}", name),
                   fmt::format("{} of {}{}", number_at(budget, "use"), number_at(budget, "limit"),
                               refused == 0 ? "" : fmt::format(", refused {} times", refused)));
  }
  properties.add("TX", fmt::format("{} messages, {} bytes", number_at(adapter, "tx_messages"),
                                   number_at(adapter, "tx_bytes")));
  properties.add("RX", fmt::format("{} messages, {} bytes", number_at(adapter, "rx_messages"),
                                   number_at(adapter, "rx_bytes")));
  // A daemon of an earlier version does not count them.
  if (const auto offences = adapter.value("offences", std::uint64_t{0}); offences != 0)
    properties.add("Held Up Its Shard",
                   fmt::format("{} times, {} ms", offences, number_at(adapter, "offences_us") / 1000));
  for (const auto& [path, use] : adapter.at("paths").items()) {
    properties.add(fmt::format("Path {}", path),
                   fmt::format("{} messages, {} bytes sent", number_at(use, "messages"),
                               number_at(use, "payload_bytes")));
  }
  return properties.text();
}

void add_budgets(Table& table, const std::string& adapter, const Json& budgets) {
  for (const auto& [name, budget] : budgets.items()) {
    table.add(
        {adapter, name, digits_at(budget, "use"), digits_at(budget, "limit"), digits_at(budget, "refused")});
  }
}

Table budget_list(const Json& answer) {
  Table table({{"Adapter"},
               {"Budget"},
               {"Use", Align::kRight},
               {"Limit", Align::kRight},
               {"Refused", Align::kRight}});
  for (const Json& each : answer.at("adapters"))
    add_budgets(table, text_at(each, "name"), each.at("budgets"));
  add_budgets(table, "all together", answer.at("totals"));
  return table;
}

Table qp_list(const Json& list) {
  Table table({{"Adapter"},
               {"QPN", Align::kRight},
               {"Type"},
               {"State"},
               {"Path"},
               {"Remote GID"},
               {"Remote QPN", Align::kRight},
               {"TX Messages", Align::kRight},
               {"TX Bytes", Align::kRight},
               {"RX Messages", Align::kRight},
               {"RX Bytes", Align::kRight}});
  for (const Json& qp : list) {
    const bool connected = !text_at(qp, "remote_gid").empty();
    table.add({text_at(qp, "adapter"), digits_at(qp, "qpn"), text_at(qp, "type"), text_at(qp, "state"),
               or_dash(text_at(qp, "path")), or_dash(text_at(qp, "remote_gid")),
               connected ? digits_at(qp, "remote_qpn") : "-", digits_at(qp, "tx_messages"),
               digits_at(qp, "tx_bytes"), digits_at(qp, "rx_messages"), digits_at(qp, "rx_bytes")});
  }
  return table;
}

// `owner` as a row's first cell.
void add_counters(Table& table, const std::string& owner, const Json& groups) {
  for (const auto& [group, counters] : groups.items()) {
    if (!counters.is_object()) continue;  // the adapter's name
    for (const auto& [name, value] : counters.items()) {
      const auto number = value.template get<std::uint64_t>();
      if (number != 0) table.add({owner, group, name, std::to_string(number)});
    }
  }
}

Table stats(const Json& stats) {
  Table table({{"Adapter"}, {"Group"}, {"Counter"}, {"Value", Align::kRight}});
  for (const Json& adapter : stats.at("adapters")) add_counters(table, text_at(adapter, "name"), adapter);
  if (const auto host = stats.find("host"); host != stats.end()) add_counters(table, "-", *host);
  return table;
}

Table path_list(const Json& list) {
  Table table({{"Adapter"},
               {"QPN", Align::kRight},
               {"Path"},
               {"Peer Host"},
               {"Local GID"},
               {"Remote GID"},
               {"Remote QPN", Align::kRight},
               {"Reason"}});
  for (const Json& path : list) {
    table.add({text_at(path, "adapter"), digits_at(path, "qpn"), text_at(path, "path"),
               or_dash(text_at(path, "peer_host")), or_dash(text_at(path, "local_gid")),
               or_dash(text_at(path, "remote_gid")), digits_at(path, "remote_qpn"), text_at(path, "reason")});
  }
  return table;
}

Table path_summary(const Json& list) {
  Table table({{"Adapter"}, {"Path"}, {"Peer Host"}, {"Connections", Align::kRight}, {"Reason"}});
  for (const Json& row : list) {
    table.add({text_at(row, "adapter"), text_at(row, "path"), or_dash(text_at(row, "peer_host")),
               digits_at(row, "connections"), text_at(row, "reason")});
  }
  return table;
}

Result<Json> with_own_version(Json answer, const Values& /*values*/) {
  answer["pvrdmactl"] = PVRDMA_VERSION;
  return answer;
}

std::string version_text(const Json& answer) {
  return fmt::format("pvrdmactl {}\npvrdmad {}\n", text_at(answer, "pvrdmactl"), text_at(answer, "version"));
}

Argument the_adapter() {
  return named("NAME", "the adapter", Names::kAdapters);
}

Argument only_adapter() {
  return {.name = "adapter", .help = "only this adapter's", .names = Names::kAdapters};
}

}  // namespace

Section adapter_commands() {
  return {
      .namespaces = {{"adapter", "PVRDMA adapters that this host serves"},
                     {"adapter budget", "limits of what adapters use"},
                     {"qp", "queue pairs"},
                     {"path", "paths that connections take"}},
      .commands = {
          {.words = "adapter list",
           .help = "list the adapters",
           .arguments = {other_host()},
           .path = "/v1/adapters",
           .table = adapter_list},
          {.words = "adapter get",
           .help = "show one adapter",
           .arguments = {the_adapter(), other_host()},
           .path = "/v1/adapters/{NAME}",
           .text = adapter_text},
          {.words = "adapter set",
           .help = "change one adapter",
           .arguments = {the_adapter(),
                         {.name = "link",
                          .kind = Kind::kUpDown,
                          .help = "its link to the switch",
                          .required = true,
                          .member = "/up"}},
           .method = Method::kPut,
           .path = "/v1/adapters/{NAME}/link",
           .text = adapter_text},
          {.words = "adapter budget list",
           .help = "list what each adapter and all together use of their budgets",
           .arguments = {other_host()},
           .path = "/v1/budgets",
           .table = budget_list},
          {.words = "qp list",
           .help = "list the queue pairs and their traffic",
           .arguments =
               {only_adapter(),
                {.name = "path", .help = "only connections that take it: local, tcp, hca, roce or none"},
                {.name = "limit",
                 .help = "a page: the number of QPs, at most 10000; they come in the order of their QPNs"},
                {.name = "after", .help = "the last QPN of the page before"},
                other_host()},
           .path = "/v1/qps?adapter={adapter}&path={path}&after={after}&limit={limit}",
           .table = qp_list},
          {.words = "path list",
           .help = "list the connections with the path of each, and why",
           .arguments = {other_host()},
           .path = "/v1/paths",
           .table = path_list},
          {.words = "path summary",
           .help = "count the connections by adapter, path, reason and peer host",
           .arguments = {other_host()},
           .path = "/v1/paths/summary",
           .table = path_summary},
          {.words = "watch",
           .help = "print what changes, as lines of JSON, until an interrupt",
           .path = "/v1/watch",
           .transfer = Transfer::kWatch},
          {.words = "stats",
           .help = "show the counters that are not 0",
           .arguments = {only_adapter(), other_host()},
           .path = "/v1/stats?adapter={adapter}",
           .table = stats},
          {.words = "version",
           .help = "show the versions of pvrdmactl and of the daemon",
           .path = "/v1/version",
           .select = with_own_version,
           .text = version_text}}};
}

}  // namespace pvrdma::ctl
