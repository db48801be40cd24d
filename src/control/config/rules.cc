#include "control/config/rules.h"

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <map>
#include <utility>

#include "base/cores.h"
#include "control/config/tables.h"

namespace pvrdma::control {
namespace {

Result<HostBudgets> read_budgets(const Section& section) {
  const auto budgets = read_section<BudgetsTable>(section);
  if (!budgets) return Failure(budgets.error());
  return HostBudgets{*budgets, *budgets};
}

Result<AdapterConfig> read_adapter(const Section& section, const Budgets& defaults) {
  auto adapter = read_section<AdapterTable>(section, AdapterTable{{}, defaults, {}});
  if (!adapter) return Failure(std::move(adapter).error());
  adapter->budgets = *adapter;
  const HardwareVersion version = adapter->hardware_version;
  adapter->roce = adapter->asked_roce.value_or(default_roce(version));
  if (!offers_roce(version, adapter->roce)) {
    return wrong(section, "roce",
                 fmt::format("needs hardware version {} or later and this adapter has {}: use v1 or a later "
                             "hardware version",
                             number_of(kFirstWithRoceV2), number_of(version)));
  }
  if (auto owner = find_owner(adapter->user, adapter->group)) adapter->owner = *owner;
  return *std::move(adapter);
}

Result<std::variant<SqliteConfig, EtcdConfig>> read_store(const Section& section) {
  const auto kind = read_section<StoreTable>(section);
  if (!kind) return Failure(kind.error());
  if (kind->type == StoreKind::kSqlite) {
    auto sqlite = read_section<SqliteTable>(section);
    if (!sqlite) return Failure(std::move(sqlite).error());
    return SqliteConfig(*std::move(sqlite));
  }
  auto etcd = read_section<EtcdTable>(section);
  if (!etcd) return Failure(std::move(etcd).error());
  if (etcd->user.empty() != etcd->password.empty()) {
    return wrong(section, "user and password_file belong together: give both or none");
  }
  if (etcd->cert_file.empty() != etcd->key_file.empty()) {
    return wrong(section, "certificate and key belong together: give both or none");
  }
  return EtcdConfig(*std::move(etcd));
}

Result<void> read_tcp(const Section& section, ClusterConfig& cluster) {
  auto tcp = read_section<TcpTable>(section);
  if (!tcp) return Failure(std::move(tcp).error());
  cluster.tcp_lanes = tcp->lanes.value_or(cluster.tcp_lanes);
  cluster.tcp_congestion_control = tcp->congestion_control;
  const int given = !tcp->ca.empty() + !tcp->certificate.empty() + !tcp->key.empty();
  if (given == 0) return {};
  if (given != 3) {
    return wrong(section,
                 "ca, certificate and key belong together: give all three for TLS between hosts, or none");
  }
  cluster.tcp_tls = *std::move(tcp);
  return {};
}

// The configuration of a member of a cluster.
Result<std::optional<ClusterConfig>> read_cluster(const Document& document) {
  const Section* host = document.table("host");
  const Section* store_table = document.table("store");
  const Section* tcp_table = document.table("tcp");
  const Section* hca_table = document.table("hca");
  if (host == nullptr) {
    for (const Section* table : {store_table, tcp_table, hca_table}) {
      if (table != nullptr) {
        return wrong(*table,
                     "without [host]: add a [host] table with the host's name, which makes this daemon a "
                     "member of a cluster");
      }
    }
    return std::nullopt;
  }
  auto cluster = read_section<ClusterConfig>(*host);
  if (!cluster) return Failure(std::move(cluster).error());
  if (store_table != nullptr) {
    auto store = read_store(*store_table);
    if (!store) return Failure(std::move(store).error());
    cluster->store = *std::move(store);
  }
  if (tcp_table != nullptr) {
    if (auto read = read_tcp(*tcp_table, *cluster); !read) return Failure(std::move(read).error());
  }
  if (hca_table != nullptr) {
    auto hca = read_section<HcaTable>(*hca_table);
    if (!hca) return Failure(std::move(hca).error());
    cluster->hca_enabled = hca->enabled;
    cluster->hca_require_encryption = hca->require_encryption;
  }
  return *std::move(cluster);
}

Result<ApiTcpConfig> read_api(const Section& section) {
  auto api = read_section<ApiTable>(section);
  if (!api) return Failure(std::move(api).error());
  if (api->read_token == api->token) {
    return wrong(section, "read_token_file",
                 "holds the token of token_file, with which a client may do everything: write another token "
                 "into it");
  }
  api->address = api->listen.address;
  api->port = api->listen.port;
  return *std::move(api);
}

Result<RoceConfig> read_roce(const Section& section, bool in_cluster, bool has_adapters) {
  auto roce = read_section<RoceConfig>(section);
  if (!roce) return roce;
  if (!roce->dvs.empty()) {
    if (!in_cluster) {
      return wrong(
          section, "switch",
          "is a switch, but this daemon is not in a cluster: leave it out for a link of this daemon's "
          "own adapters, or add a [host] table");
    }
    if (section.has("peers")) {
      return wrong(section, "peers",
                   "is for a daemon's own adapters: a switch's port groups have their own, see pvrdmactl dvs "
                   "portgroup set --native-peers");
    }
    return roce;
  }
  if (section.has("vlan")) {
    return wrong(section, "vlan", "is a VLAN without a switch: add switch = \"DSwitch\" or leave it out");
  }
  if (!has_adapters) {
    return wrong(section,
                 "serves no adapter: add switch = \"DSwitch\", a switch of the cluster, or an [[adapter]] of "
                 "this daemon");
  }
  return roce;
}

// Values that only one adapter may have.
class Taken {
 public:
  // Equal `value`s mean the same thing, however it is spelled. `owner` has the value, for the message.
  Result<void> take(const Section& section, const std::string& key, std::string value,
                    std::string_view owner) {
    const auto [it, free] =
        owners_.try_emplace(std::move(value), fmt::format("{} at {}", owner, section.origins.at(key).where));
    if (free) return {};
    return wrong(section, key, fmt::format("is taken: {} has it, choose another", it->second));
  }

 private:
  std::map<std::string, std::string> owners_;
};

std::string same_file(const std::string& path) {
  return std::filesystem::path(path).lexically_normal().string();
}

Result<void> check_unique(const Document& document, const Config& config) {
  Taken names;
  Taken sockets;
  Taken macs;
  Taken addresses;
  const Section& daemon = *document.table("daemon");
  if (daemon.has("api_socket")) {
    auto taken = sockets.take(daemon, "api_socket", same_file(config.daemon.api_socket), "the API");
    if (!taken) return taken;
  }
  for (std::size_t i = 0; i < config.adapters.size(); ++i) {
    const AdapterConfig& adapter = config.adapters[i];
    const Section& section = document.adapters[i];
    if (auto taken = names.take(section, "name", adapter.name, "the adapter"); !taken) return taken;
    const std::string owner = "adapter " + adapter.name;
    if (auto taken = sockets.take(section, "socket", same_file(adapter.socket), owner); !taken) return taken;
    for (const IpAddress& address : adapter.addresses) {
      if (auto taken = addresses.take(section, "addresses", address.to_string(), owner); !taken) return taken;
    }
    if (auto taken = macs.take(section, "mac", adapter.mac.to_string(), owner); !taken) return taken;
  }
  return {};
}

// Each segment has one link, and each device or socket is the link of one segment.
Result<void> check_links(const Document& document, const Config& config) {
  Taken links;
  std::map<std::pair<std::string, std::uint16_t>, std::string> served;
  for (std::size_t i = 0; i < config.roce.size(); ++i) {
    const RoceConfig& roce = config.roce[i];
    const Section& section = document.roce[i];
    const std::string name = roce.link.is_device() ? roce.link.name : same_file(roce.link.name);
    if (auto taken = links.take(section, "link", name, "another segment"); !taken) return taken;
    const auto [it, first] = served.try_emplace({roce.dvs, roce.vlan}, section.where);
    if (!first) {
      return wrong(section,
                   fmt::format("is the second link of its segment, which already has one at {}: remove one",
                               it->second));
    }
  }
  return {};
}

// What demands a single shard: a table or a key, and why. Empty: nothing does.
struct OneShard {
  std::string_view demanded_by = {};
  std::string_view why = {};
};

OneShard demand_of_one_shard(const Config& config) {
  if (config.daemon.dedicated_core) return {"dedicated_core", "a core is for one shard"};
  if (std::ranges::any_of(config.roce, [](const RoceConfig& link) { return link.dvs.empty(); }))
    return {"a [[roce]] without switch",
            "all of the daemon's own adapters would be on the shard of their link"};
  return {};
}

// A shard that never sleeps takes a core from the VMs, busy or not. So it is not multiplied unasked.
void set_shards_by_cores(Config& config) {
  config.daemon.shards_by_cores = true;
  const bool is_one = !demand_of_one_shard(config).why.empty() || config.daemon.spin == Duration::max();
  config.daemon.shards = is_one ? 1 : shards_for(usable_cores().size());
}

Result<void> check_shards(const Document& document, const Config& config) {
  if (config.daemon.shards == 1) return {};
  const OneShard one = demand_of_one_shard(config);
  if (one.why.empty()) return {};
  return wrong(*document.table("daemon"), "shards",
               fmt::format("is not possible with {}: {}", one.demanded_by, one.why));
}

Result<void> check_shard_balancing(const Document& document, const Config& config) {
  const DaemonConfig& daemon = config.daemon;
  if (!daemon.shard_balancing) return {};
  const Section& section = *document.table("daemon");
  if (daemon.shards == 1)
    return wrong(section, "shard_balancing", "needs several shards: set shards to 2 or more");
  if (daemon.spin == Duration::max())
    return wrong(section, "shard_balancing",
                 "is not possible with spin_us = \"forever\": a shard that never sleeps always looks busy");
  return {};
}

// Why the host can have no ward, for a sentence "ward = true WHY". Empty: it can.
std::string why_no_ward(const Config& config) {
  if (const OneShard one = demand_of_one_shard(config); !one.why.empty())
    return fmt::format("is not possible with {}: {}", one.demanded_by, one.why);
  if (config.daemon.spin == Duration::max())
    return "is not possible with spin_us = \"forever\": the ward's thread would take a core, too";
  return {};
}

Result<void> set_ward(const Document& document, Config& config) {
  const Section& section = *document.table("daemon");
  const std::string why_not = why_no_ward(config);
  if (!section.has("ward")) config.daemon.ward = why_not.empty();
  if (!config.daemon.ward || why_not.empty()) return {};
  return wrong(section, "ward", why_not);
}

}  // namespace

std::string why_one_shard(const Config& config) {
  if (config.daemon.shards > 1) return {};
  const OneShard one = demand_of_one_shard(config);
  if (!one.why.empty()) return std::string(one.why);
  if (!config.daemon.shards_by_cores) return "[daemon] shards is 1";
  if (config.daemon.spin == Duration::max())
    return "[daemon] shards is \"auto\", and spin_us is \"forever\": a shard would take a core even when "
           "idle";
  return fmt::format("[daemon] shards is \"auto\": a host has one shard for 8 cores, and this one has {}",
                     usable_cores().size());
}

std::string why_no_hca(const ClusterConfig& config) {
  if (config.hca_require_encryption)
    return "[hca] require_encryption is true on this host, and nothing shows whether RDMA NICs encrypt";
  return config.hca_enabled ? "" : "[hca] enabled is false on this host";
}

std::uint32_t shards_for(std::size_t cores) {
  return std::clamp<std::uint32_t>(static_cast<std::uint32_t>(cores / 8), 1, 8);
}

Result<Config> apply_rules(const Document& document) {
  Config config;
  auto daemon = read_section<DaemonConfig>(*document.table("daemon"));
  if (!daemon) return Failure(std::move(daemon).error());
  config.daemon = *std::move(daemon);
  if (const Section* table = document.table("budgets")) {
    const auto budgets = read_budgets(*table);
    if (!budgets) return Failure(budgets.error());
    config.budgets = *budgets;
  }
  for (const Section& section : document.adapters) {
    auto adapter = read_adapter(section, config.budgets.each);
    if (!adapter) return Failure(std::move(adapter).error());
    config.adapters.push_back(*std::move(adapter));
  }
  auto cluster = read_cluster(document);
  if (!cluster) return Failure(std::move(cluster).error());
  config.cluster = *std::move(cluster);
  for (const Section& section : document.roce) {
    auto roce = read_roce(section, config.cluster.has_value(), !config.adapters.empty());
    if (!roce) return Failure(std::move(roce).error());
    config.roce.push_back(*std::move(roce));
  }
  if (const Section* table = document.table("api")) {
    auto api = read_api(*table);
    if (!api) return Failure(std::move(api).error());
    config.api = *std::move(api);
  }
  if (auto unique = check_unique(document, config); !unique) return Failure(std::move(unique).error());
  if (!document.table("daemon")->has("shards") || config.daemon.shards == kShardsByCores)
    set_shards_by_cores(config);
  if (auto shards = check_shards(document, config); !shards) return Failure(std::move(shards).error());
  if (auto balancing = check_shard_balancing(document, config); !balancing)
    return Failure(std::move(balancing).error());
  if (auto ward = set_ward(document, config); !ward) return Failure(std::move(ward).error());
  if (auto links = check_links(document, config); !links) return Failure(std::move(links).error());
  return config;
}

}  // namespace pvrdma::control
