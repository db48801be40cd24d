#include "control/api/json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace pvrdma::control {
namespace {

using Json = nlohmann::ordered_json;

// Guests choose some of the text (the name of their system), so it may be anything.
std::string to_part(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_text(const Json& json) {
  return to_part(json) + "\n";
}

template <typename Named>
Json to_object(const std::vector<Named>& list) {
  Json object = Json::object();
  for (const Named& entry : list) object[std::string(entry.name)] = entry.value;
  return object;
}

Json to_object(const std::vector<CounterGroup>& groups) {
  Json object = Json::object();
  for (const CounterGroup& group : groups) object[std::string(group.name)] = to_object(group.counters);
  return object;
}

Json gids_of(const AdapterSnapshot& adapter) {
  Json list = Json::array();
  for (const GidSnapshot& gid : adapter.gids) {
    list.push_back({{"index", gid.index}, {"gid", gid.gid}, {"roce", gid.roce}});
  }
  return list;
}

Json paths_of(const AdapterSnapshot& adapter) {
  Json object = Json::object();
  for (const PathUse& use : adapter.paths) {
    object[std::string(use.path)] = {{"messages", use.messages}, {"payload_bytes", use.payload_bytes}};
  }
  return object;
}

Json to_json(const AdapterSnapshot& adapter) {
  return Json{{"name", adapter.name},
              {"state", adapter.state},
              {"mac", adapter.mac},
              {"hardware_version", adapter.hardware_version},
              {"roce", adapter.roce},
              {"socket", adapter.socket},
              {"link_up", adapter.link_up},
              {"device_version", adapter.device_version},
              {"driver_version", adapter.driver_version},
              {"guest_os", adapter.guest_os},
              {"memory_bytes", adapter.memory_bytes},
              {"tx_messages", adapter.tx_messages},
              {"tx_bytes", adapter.tx_bytes},
              {"rx_messages", adapter.rx_messages},
              {"rx_bytes", adapter.rx_bytes},
              {"gids", gids_of(adapter)},
              {"objects", to_object(adapter.objects)},
              {"paths", paths_of(adapter)}};
}

Json to_json(const QpSnapshot& qp) {
  return Json{{"adapter", qp.adapter},
              {"qpn", qp.qpn},
              {"type", qp.type},
              {"state", qp.state},
              {"local_gid", qp.local_gid},
              {"remote_gid", qp.remote_gid},
              {"remote_qpn", qp.remote_qpn},
              {"peer_host", qp.peer_host},
              {"path", qp.path},
              {"path_reason", qp.path_reason},
              {"tx_messages", qp.tx_messages},
              {"tx_bytes", qp.tx_bytes},
              {"rx_messages", qp.rx_messages},
              {"rx_bytes", qp.rx_bytes},
              {"retransmits", qp.retransmits}};
}

bool wanted(std::string_view adapter, std::string_view name) {
  return adapter.empty() || adapter == name;
}

}  // namespace

std::string version_json(std::string_view version) {
  return to_text(Json{{"version", version}, {"api", "v1"}});
}

std::string adapters_json(const Snapshot& snapshot) {
  Json list = Json::array();
  for (const AdapterSnapshot& adapter : snapshot.adapters) list.push_back(to_json(adapter));
  return to_text(list);
}

std::string adapter_json(const AdapterSnapshot& adapter) {
  return to_text(to_json(adapter));
}

std::string qps_json(const Snapshot& snapshot, std::string_view adapter) {
  Json list = Json::array();
  for (const QpSnapshot& qp : snapshot.qps) {
    if (wanted(adapter, qp.adapter)) list.push_back(to_json(qp));
  }
  return to_text(list);
}

std::string stats_json(const Snapshot& snapshot, std::string_view adapter) {
  Json adapters = Json::array();
  for (const AdapterSnapshot& each : snapshot.adapters) {
    if (!wanted(adapter, each.name)) continue;
    Json entry{{"name", each.name}};
    entry.update(to_object(each.groups));
    adapters.push_back(std::move(entry));
  }
  Json all{{"adapters", std::move(adapters)}};
  if (adapter.empty()) all["host"] = to_object(snapshot.host);
  return to_text(all);
}

Result<Link> parse_link(std::string_view body) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.size() != 1 || !json.contains("up") || !json["up"].is_boolean()) {
    return fail(R"(the body must be {"up": true} or {"up": false})");
  }
  return json["up"].get<bool>() ? Link::kUp : Link::kDown;
}

std::string paths_json(const Snapshot& snapshot, std::string_view host) {
  Json list = Json::array();
  for (const QpSnapshot& qp : snapshot.qps) {
    if (qp.remote_gid.empty()) continue;
    const bool here = qp.path == "local" && qp.peer_host.empty();
    list.push_back({{"adapter", qp.adapter},
                    {"qpn", qp.qpn},
                    {"local_gid", qp.local_gid},
                    {"remote_gid", qp.remote_gid},
                    {"remote_qpn", qp.remote_qpn},
                    {"peer_host", here ? host : qp.peer_host},
                    {"path", qp.path.empty() ? "none" : qp.path},
                    {"reason", qp.path_reason}});
  }
  return to_text(list);
}

std::string cluster_json(std::string_view host, const StoreState& store, const TcpSnapshot& tcp) {
  Json peers = Json::array();
  for (const PeerSnapshot& peer : tcp.peers) {
    peers.push_back({{"host", peer.host},
                     {"lanes_up", peer.lanes_up},
                     {"sessions_up", peer.sessions_up},
                     {"reconnects", peer.reconnects},
                     {"trouble", peer.trouble}});
  }
  const Json state{{"description", store.description}, {"connected", store.connected},
                   {"trouble", store.trouble},         {"edits", store.edits},
                   {"conflicts", store.conflicts},     {"live_conflicts", store.live_conflicts},
                   {"bad_records", store.bad_records}, {"resyncs", store.resyncs}};
  const Json connections{{"listening", tcp.listening}, {"trouble", tcp.trouble}, {"peers", std::move(peers)}};
  return to_text({{"host", host}, {"store", state}, {"tcp", connections}});
}

std::string list_json(const std::vector<std::string>& objects) {
  return fmt::format("[{}]", fmt::join(objects, ","));
}

std::string advanced_json(std::string_view path, std::string_view value) {
  Json setting{{"path", path},
               {"type", "string"},
               {"value", value},
               {"default", ""},
               {"description", "VMkernel adapter whose address PVRDMA traffic between hosts uses"}};
  return to_part(Json::array({std::move(setting)}));
}

std::string ruleset_json(std::string_view name, const Ruleset& ruleset) {
  Json allowed = Json::array();
  for (const IpNetwork& network : ruleset.allowed) allowed.push_back(network.to_string());
  return to_part({{"name", name},
                  {"enabled", ruleset.enabled},
                  {"allow_all", ruleset.allow_all},
                  {"allowed", std::move(allowed)}});
}

std::string rules_json(std::string_view ruleset, std::uint16_t port) {
  Json rules = Json::array();
  for (const char* direction : {"Inbound", "Outbound"}) {
    rules.push_back({{"ruleset", ruleset},
                     {"direction", direction},
                     {"protocol", "TCP"},
                     {"port_type", "Dst"},
                     {"port_begin", port},
                     {"port_end", port}});
  }
  return to_part(rules);
}

std::string rdma_stats_json(std::string_view device,
                            const std::vector<std::pair<std::string, std::uint64_t>>& counters) {
  Json stats = Json::object();
  for (const auto& [name, value] : counters) stats[name] = value;
  return to_part({{"device", device}, {"stats", std::move(stats)}});
}

std::string error_json(std::string_view sentence) {
  return to_text(Json{{"error", sentence}});
}

}  // namespace pvrdma::control
