// Config: what the operator wants of this daemon, read from a TOML file and from flags, checked, with
// defaults filled in.
//
// Whoever has a Config has a valid one: load_config() is the only way to make it from what a person wrote.
// Every mistake is one sentence that names the place (FILE:LINE or the flag), the key, its value and what is
// allowed.
//
// Thread: values; load_config() any thread, blocking (reads a file).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/budgets.h"
#include "base/doorbell_mode.h"
#include "base/hardware_version.h"
#include "base/ip_address.h"
#include "base/link_name.h"
#include "base/log.h"
#include "base/mac.h"
#include "base/network_mtu.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/socket_owner.h"
#include "base/time.h"
#include "control/store/store.h"

namespace pvrdma::control {

struct AdapterConfig {
  std::string name;    // is_name(); unique
  std::string socket;  // path of the vfio-user socket, at most 107 bytes; unique
  Mac mac;             // of the vmxnet3 function beside it; unicast, unique
  HardwareVersion hardware_version{};
  RoceVersion roce{};  // one that the hardware version offers
  Profile profile = Profile::kOpen;
  DoorbellMode doorbells = DoorbellMode::kTrapped;
  NetworkMtu mtu = kNetworkMtuDefault;
  std::vector<IpAddress> addresses;  // the only ones its guest may use besides those of its MAC; empty: any
  SocketOwner owner;                 // of the socket's file: mode 0600, with a group 0660
  Budgets budgets;
  friend bool operator==(const AdapterConfig&, const AdapterConfig&) = default;
};

struct DaemonConfig {
  std::string api_socket = "/run/pvrdma/api.sock";
  log::Level log_level = log::Level::kInfo;
  Duration spin = std::chrono::microseconds(50);  // Duration::max() = for ever
  bool sandbox = true;                            // confine the process once it has started
  bool fault_injection = false;                   // the API may add faults
  // The shard's thread runs there only, and never sleeps while there are doorbells to poll. One that a thread
  // can be bound to; none: it runs anywhere.
  std::optional<std::uint32_t> dedicated_core;
};

// PEM files; absolute paths.
struct TlsFilesConfig {
  std::string ca;
  std::string certificate;
  std::string key;
};

// What makes the daemon a member of a cluster.
struct ClusterConfig {
  std::string host_name;            // is_name()
  std::vector<std::string> vmnics;  // netdevs, vmnic0 first; empty: every one with a device behind it
  std::string socket_folder = "/run/pvrdma";
  std::variant<SqliteConfig, EtcdConfig> store;
  std::uint32_t tcp_lanes = 4;                   // 1 … 16
  std::string tcp_congestion_control = "cubic";  // as the kernel names it
  std::optional<TlsFilesConfig> tcp_tls;         // none: plain TCP between hosts
  bool hca_enabled = true;                       // use this host's RDMA NIC
  bool hca_require_encryption = false;           // do not, as nothing shows whether it encrypts
};

// A second place where the API answers, with TLS and a bearer token.
struct ApiTcpConfig {
  IpAddress address;
  std::uint16_t port = 0;
  std::string certificate;  // PEM files
  std::string key;
  std::string token;  // 16 to 256 visible characters
};

// Where the RoCE frames of one segment go in and out, by which its adapters reach native endpoints.
struct RoceConfig {
  LinkName link;                 // each device and socket once
  std::string dvs;               // a switch of the cluster; empty: the segment of this daemon's own adapters
  std::uint16_t vlan = 0;        // of the switch
  std::vector<IpNetwork> peers;  // of the daemon's own adapters, whom they may reach; empty: any
};

struct Config {
  DaemonConfig daemon;
  HostBudgets budgets;
  std::vector<AdapterConfig> adapters;  // at least one, unless there is a cluster
  std::optional<ClusterConfig> cluster;
  std::optional<ApiTcpConfig> api;
  std::vector<RoceConfig> roce;  // each segment once
};

// Where a configuration comes from. Flags come after the file: they override its [daemon] and add adapters
// and links.
struct ConfigSources {
  std::optional<std::string> file;  // path
  // "name=VM-01,socket=/x.sock,mac=…,hw=14[,roce=v1][,profile=esxi][,doorbells=mapped][,mtu=9000][,qps=64]"
  std::vector<std::string> adapter_flags;
  std::vector<std::string> roce_links;  // "tap:pvroce0": of the daemon's own adapters
  std::optional<std::string> api_socket;
  std::optional<std::string> log_level;
  std::optional<std::int64_t> dedicated_core;
  bool fault_injection = false;  // given; else the file's
};

Result<Config> load_config(const ConfigSources& sources);

}  // namespace pvrdma::control
