// Config: the operator's configuration of this daemon, read from a TOML file and from flags, checked, with
// defaults filled in.
//
// A Config is always valid: load_config() is the only way to make it from a user's text. Each mistake is
// reported as one sentence with the place (FILE:LINE or the flag), the key, its value and the allowed values.
//
// Thread: values; load_config() any thread, blocking (reads a file).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ip_address.h"
#include "base/log.h"
#include "base/log_format.h"
#include "base/result.h"
#include "base/socket_owner.h"
#include "base/time.h"
#include "control/store/store.h"
#include "vocabulary/budgets.h"
#include "vocabulary/doorbell_mode.h"
#include "vocabulary/ethernet.h"
#include "vocabulary/hardware_version.h"
#include "vocabulary/link_name.h"
#include "vocabulary/mac.h"
#include "vocabulary/profile.h"

namespace pvrdma::control {

struct AdapterConfig {
  std::string name;    // is_name(); unique
  std::string socket;  // path of the vfio-user socket, at most 107 bytes; unique
  Mac mac;             // of the vmxnet3 function beside the adapter; unicast, unique
  HardwareVersion hardware_version{};
  RoceVersion roce{};  // a version that the hardware version offers
  Profile profile = Profile::kOpen;
  DoorbellMode doorbells = kDoorbellModeDefault;
  NetworkMtu mtu = kNetworkMtuDefault;
  // The only addresses that its guest may use besides those of its MAC; empty: any.
  std::vector<IpAddress> addresses;
  SocketOwner owner;  // of the socket file: mode 0600, or 0660 with a group
  Budgets budgets;
  friend bool operator==(const AdapterConfig&, const AdapterConfig&) = default;
};

struct DaemonConfig {
  std::string api_socket = "/run/pvrdma/api.sock";
  log::Level log_level = log::Level::kInfo;
  std::optional<log::Format> log_format;          // empty: log::default_format()
  Duration spin = std::chrono::microseconds(50);  // Duration::max() = for ever
  bool sandbox = true;                            // confine the process once it has started
  bool fault_injection = false;                   // the API may add faults
  // How many threads serve the adapters, which are dealt out to them. Several only without a dedicated core,
  // and with RoCE links only in a cluster.
  std::uint32_t shards = 1;
  bool shards_by_cores = false;  // `shards` follows from this host's cores
  bool shard_balancing = false;  // the daemon moves adapters from a busy shard to an idle one by itself
  bool ward = false;  // there is one more shard, to which the daemon moves adapters that delay others
  // The shard's thread runs only on this core, and never sleeps while there are doorbells to poll. A thread
  // can be bound to the core. Empty: the thread runs on any core.
  std::optional<std::uint32_t> dedicated_core;
  // The daemon ends when no adapter has had a client for this time. Empty: it serves until a signal.
  std::optional<Duration> idle_end;
};

// Absolute paths of PEM files.
struct TlsFilesConfig {
  std::string ca;
  std::string certificate;
  std::string key;
};

// The configuration of a member of a cluster.
struct ClusterConfig {
  std::string host_name;            // is_name()
  std::vector<std::string> vmnics;  // netdevs, vmnic0 first; empty: all netdevs with a device
  std::string socket_folder = "/run/pvrdma";
  std::variant<SqliteConfig, EtcdConfig> store;
  std::uint32_t tcp_lanes = 4;                        // 1 … 16
  std::optional<std::string> tcp_congestion_control;  // empty: cubic, where this process may use it
  std::optional<TlsFilesConfig> tcp_tls;              // empty: plain TCP between hosts
  bool hca_enabled = true;                            // use this host's RDMA NIC
  bool hca_require_encryption = false;  // true disables the NIC, because nothing shows whether it encrypts
};

// A second address at which the API answers, with TLS and a bearer token.
struct ApiTcpConfig {
  IpAddress address;
  std::uint16_t port = 0;
  std::string certificate;  // PEM files
  std::string key;
  std::string token;       // 16 to 256 visible characters
  std::string read_token;  // the same, for a client that may only read; empty: there is none
};

// The link that carries the RoCE frames of one segment, by which its adapters reach native endpoints.
struct RoceConfig {
  LinkName link;                 // each device and socket may occur only once
  std::string dvs;               // a switch of the cluster; empty: the segment of this daemon's own adapters
  std::uint16_t vlan = 0;        // VLAN of the switch
  std::vector<IpNetwork> peers;  // the endpoints that the daemon's own adapters may reach; empty: any
};

struct Config {
  DaemonConfig daemon;
  HostBudgets budgets;
  std::vector<AdapterConfig> adapters;  // at least one, unless the daemon is in a cluster
  std::optional<ClusterConfig> cluster;
  std::optional<ApiTcpConfig> api;
  std::vector<RoceConfig> roce;  // each segment may occur only once
};

// Why this host uses no RDMA NIC, as a clause; empty: it uses one if there is one.
std::string why_no_hca(const ClusterConfig& config);

// The number of shards of a host with `cores` usable cores: one for eight cores, 1 to 8. A busy
// shard takes a core from the VMs, and VMs of two shards exchange small messages more slowly.
std::uint32_t shards_for(std::size_t cores);

// Why the adapters have one shard, as a clause; empty: they have several.
std::string why_one_shard(const Config& config);

// Adapters for the processes of one user, instead of a file: node0, node1 ..., with mapped doorbells, whose
// sockets and the API's are in one folder.
struct CiSource {
  std::int64_t adapters = 0;
  std::string folder;
};
inline constexpr std::int64_t kCiAdaptersMax = 64;

// The sources of a configuration. Flags are applied after the file: they override its [daemon] and add
// adapters and links.
struct ConfigSources {
  std::optional<std::string> file;  // path
  std::optional<CiSource> ci;
  // "name=VM-01,socket=/x.sock,mac=…,hw=14[,roce=v1][,profile=esxi][,doorbells=mapped][,mtu=9000][,qps=64]"
  std::vector<std::string> adapter_flags;
  std::vector<std::string> roce_links;  // "tap:pvroce0", for the daemon's own adapters
  std::optional<std::string> api_socket;
  std::optional<std::string> log_level;
  std::optional<std::string> log_format;
  std::optional<std::int64_t> dedicated_core;
  std::optional<std::string> shards;  // a number, or "auto"
  bool shard_balancing = false;       // as the next two
  bool ward = false;
  bool fault_injection = false;  // true if the flag is given; otherwise the file decides
};

Result<Config> load_config(const ConfigSources& sources);

}  // namespace pvrdma::control
