// The tables of a configuration: the keys of each, their valid values, and the members that receive them.
// Rules that involve several keys are in rules.cc.
//
// Thread: descriptions are constants. Reading a table reads the files that it names, for example the password
// and the token.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/config/config.h"
#include "control/config/section.h"
#include "schema/rules.h"

namespace pvrdma {

template <>
inline constexpr std::array kWords<log::Level>{
    Word{"debug", log::Level::kDebug}, Word{"info", log::Level::kInfo}, Word{"warn", log::Level::kWarn},
    Word{"error", log::Level::kError}};

template <>
inline constexpr std::array kWords<log::Format>{Word{"text", log::Format::kText},
                                                Word{"journal", log::Format::kJournal},
                                                Word{"json", log::Format::kJson}};

namespace control {

enum class StoreKind : std::uint8_t { kSqlite, kEtcd };

}  // namespace control

template <>
inline constexpr std::array kWords<control::StoreKind>{Word{"sqlite", control::StoreKind::kSqlite},
                                                       Word{"etcd", control::StoreKind::kEtcd}};

namespace control {

// --- Valid values. Each why_...() says what is wrong with a text; empty: it is valid. ---

std::string why_no_host_name(const std::string& text);
std::string why_no_socket(const std::string& text);
std::string why_no_socket_folder(const std::string& text);
std::string why_no_path(const std::string& text);
std::string why_no_file(const std::string& text);  // unless it can be read now
std::string why_no_prefix(const std::string& text);
std::string why_no_user(const std::string& text);  // unless it is a user of this host
std::string why_no_group(const std::string& text);
inline constexpr schema::TextRule kHostName{"a name", why_no_host_name};
inline constexpr schema::TextRule kSocket{"a path", why_no_socket};
inline constexpr schema::TextRule kSocketFolder{"a path", why_no_socket_folder};
inline constexpr schema::TextRule kPath{"a path", why_no_path};
inline constexpr schema::TextRule kFile{"a file", why_no_file};
inline constexpr schema::TextRule kPrefix{"a prefix", why_no_prefix};
inline constexpr schema::TextRule kUser{"a user", why_no_user};
inline constexpr schema::TextRule kGroup{"a group", why_no_group};

struct TextsRule {
  std::string (*why_not)(const std::vector<std::string>&);
  void read(schema::Reader& reader, const schema::ParsedJson& json, std::vector<std::string>& out) const;
};
std::string why_no_interfaces(const std::vector<std::string>& names);
std::string why_no_endpoints(const std::vector<std::string>& endpoints);

// The first line of a file that the value names.
struct SecretRule {
  std::string (*why_not)(const std::string&) = nullptr;
  void read(schema::Reader& reader, const schema::ParsedJson& json, std::string& out) const;
};
std::string why_no_token(const std::string& line);

inline constexpr std::uint64_t kMibMax = 1ULL << 27;  // 128 TiB: the most that a process can map
inline constexpr std::uint64_t kPerSecondMax = 1'000'000'000;
inline constexpr std::uint64_t kObjectsMax = 1ULL << 32;

// A VM's hardware version: the adapter that it has.
struct HardwareVersionRule {
  void read(schema::Reader& reader, const schema::ParsedJson& json, HardwareVersion& out) const;
};

// Microseconds, or "forever".
struct SpinRule {
  void read(schema::Reader& reader, const schema::ParsedJson& json, Duration& out) const;
};

// A number of shards, or "auto".
struct ShardsRule {
  void read(schema::Reader& reader, const schema::ParsedJson& json, std::uint32_t& out) const;
};

// A core to which the kernel lets a thread of this process be bound.
struct CoreRule {
  void read(schema::Reader& reader, const schema::ParsedJson& json, std::uint32_t& out) const;
};

// "10.0.0.1:8443" or "[fd00::1]:8443".
struct Listen {
  IpAddress address;
  std::uint16_t port = 0;
};
struct ListenRule {
  void read(schema::Reader& reader, const schema::ParsedJson& json, Listen& out) const;
};

// --- The tables ---

struct BudgetsTable : Budgets, TotalBudgets {};

struct AdapterTable : AdapterConfig, Budgets {
  std::optional<RoceVersion> asked_roce;
  std::string user;
  std::string group;
};

// Which kind of table [store] is.
struct StoreTable {
  StoreKind type = StoreKind::kSqlite;
};

struct SqliteTable : StoreTable, SqliteConfig {};

struct EtcdTable : StoreTable, EtcdConfig {};

struct TcpTable : TlsFilesConfig {
  std::optional<std::uint32_t> lanes;
  std::optional<std::string> congestion_control;
};

struct HcaTable {
  bool enabled = true;
  bool require_encryption = false;
};

struct ApiTable : ApiTcpConfig {
  Listen listen;
};

}  // namespace control
}  // namespace pvrdma

namespace pvrdma::schema {

template <>
inline constexpr auto kObject<control::DaemonConfig> = request(
    "[daemon]", field("api_socket", &control::DaemonConfig::api_socket, control::kSocket),
    field("log_level", &control::DaemonConfig::log_level, WordRule<log::Level>{"log level"}),
    field("log_format", &control::DaemonConfig::log_format,
          OptionalRule<WordRule<log::Format>>{{"log format"}}),
    field("spin_us", &control::DaemonConfig::spin, control::SpinRule{}),
    field("sandbox", &control::DaemonConfig::sandbox),
    field("dedicated_core", &control::DaemonConfig::dedicated_core, OptionalRule<control::CoreRule>{}),
    field("shards", &control::DaemonConfig::shards, control::ShardsRule{}),
    field("shard_balancing", &control::DaemonConfig::shard_balancing),
    field("ward", &control::DaemonConfig::ward),
    field("fault_injection", &control::DaemonConfig::fault_injection));

// The budgets of an adapter in its own table, or of every adapter in [budgets]. With a rate below the
// minimum, a VMM could wait for an answer beyond its time limit.
inline constexpr auto kBudgetKeys = record(
    "budgets", field("qps", &Budgets::qps, NumberRule{4, 32768}),
    field("cqs", &Budgets::cqs, NumberRule{2, 4096}), field("srqs", &Budgets::srqs, NumberRule{0, 256}),
    field("mrs", &Budgets::mrs, NumberRule{1, 262144}),
    field("registered_mib", &Budgets::registered_mib, NumberRule{1, control::kMibMax}),
    field("rings_mib", &Budgets::rings_mib, NumberRule{1, control::kMibMax}),
    field("mapped_mib", &Budgets::mapped_mib, NumberRule{1, control::kMibMax}),
    field("mappings", &Budgets::mappings, NumberRule{1, 16384}),
    field("native_connections", &Budgets::native_connections, NumberRule{0, 32768}),
    field("commands_per_s", &Budgets::commands_per_s, NumberRule{1000, control::kPerSecondMax}),
    field("doorbells_per_s", &Budgets::doorbells_per_s, NumberRule{10'000, control::kPerSecondMax}));

template <>
inline constexpr auto kObject<control::BudgetsTable> = request(
    "[budgets]", kBudgetKeys, field("total_qps", &TotalBudgets::qps, NumberRule{4, control::kObjectsMax}),
    field("total_mrs", &TotalBudgets::mrs, NumberRule{1, control::kObjectsMax}),
    field("total_registered_mib", &TotalBudgets::registered_mib, NumberRule{1, control::kMibMax}),
    field("total_rings_mib", &TotalBudgets::rings_mib, NumberRule{1, control::kMibMax}),
    field("total_mapped_mib", &TotalBudgets::mapped_mib, NumberRule{1, control::kMibMax}),
    field("total_mappings", &TotalBudgets::mappings, NumberRule{1, 28672}),
    field("total_native_connections", &TotalBudgets::native_connections, NumberRule{0, 65536}));

template <>
inline constexpr auto kObject<control::AdapterTable> = request(
    "[[adapter]]", field("name", &control::AdapterTable::name, kName).required(R"("VM-01")"),
    field("socket", &control::AdapterTable::socket, control::kSocket).required(R"("/run/pvrdma/vm-01.sock")"),
    field("mac", &control::AdapterTable::mac).required(R"("52:54:00:12:34:51", the VM's vmxnet3 adapter's)"),
    field("hardware_version", &control::AdapterTable::hardware_version, control::HardwareVersionRule{})
        .required("14"),
    field("roce", &control::AdapterTable::asked_roce, OptionalRule<WordRule<RoceVersion>>{{"RoCE version"}}),
    field("profile", &control::AdapterTable::profile, WordRule<Profile>{"profile"}),
    field("doorbells", &control::AdapterTable::doorbells, WordRule<DoorbellMode>{"doorbell mode"}),
    field("mtu", &control::AdapterTable::mtu, kNetworkMtu),
    field("addresses", &control::AdapterTable::addresses),
    field("owner", &control::AdapterTable::user, control::kUser),
    field("group", &control::AdapterTable::group, control::kGroup), kBudgetKeys);

template <>
inline constexpr auto kObject<control::RoceConfig> =
    request("[[roce]]", field("link", &control::RoceConfig::link).required(R"("tap:pvroce0")"),
            field("switch", &control::RoceConfig::dvs, kName),
            field("vlan", &control::RoceConfig::vlan, kVlan), field("peers", &control::RoceConfig::peers));

template <>
inline constexpr auto kObject<control::ClusterConfig> = request(
    "[host]", field("name", &control::ClusterConfig::host_name, control::kHostName).required(R"("esx-01")"),
    field("vmnics", &control::ClusterConfig::vmnics, control::TextsRule{control::why_no_interfaces}),
    field("socket_folder", &control::ClusterConfig::socket_folder, control::kSocketFolder));

template <>
inline constexpr auto kObject<control::StoreTable> = record(
    "[store]", field("type", &control::StoreTable::type, WordRule<control::StoreKind>{"kind of store"}));

template <>
inline constexpr auto kObject<control::SqliteTable> = request("[store]", kObject<control::StoreTable>,
                                                              field("path", &control::SqliteTable::path,
                                                                    control::kPath));

template <>
inline constexpr auto kObject<control::EtcdTable> = request(
    "[store]", kObject<control::StoreTable>,
    field("endpoints", &control::EtcdTable::endpoints, control::TextsRule{control::why_no_endpoints})
        .required(R"(["http://10.0.0.1:2379"])"),
    field("prefix", &control::EtcdTable::prefix, control::kPrefix), field("user", &control::EtcdTable::user),
    field("password_file", &control::EtcdTable::password, control::SecretRule{}),
    field("ca", &control::EtcdTable::ca_file, control::kFile),
    field("certificate", &control::EtcdTable::cert_file, control::kFile),
    field("key", &control::EtcdTable::key_file, control::kFile),
    field("lease_s", &control::EtcdTable::lease_seconds, NumberRule{3, 600}),
    field("compact", &control::EtcdTable::compact));

template <>
inline constexpr auto kObject<control::TcpTable> =
    request("[tcp]", field("lanes", &control::TcpTable::lanes, OptionalRule<NumberRule>{{1, 16}}),
            field("congestion_control", &control::TcpTable::congestion_control),
            field("ca", &control::TcpTable::ca, control::kFile),
            field("certificate", &control::TcpTable::certificate, control::kFile),
            field("key", &control::TcpTable::key, control::kFile));

template <>
inline constexpr auto kObject<control::HcaTable> = request("[hca]",
                                                           field("enabled", &control::HcaTable::enabled),
                                                           field("require_encryption",
                                                                 &control::HcaTable::require_encryption));

template <>
inline constexpr auto kObject<control::ApiTable> = request(
    "[api]",
    field("listen", &control::ApiTable::listen, control::ListenRule{}).required(R"("10.0.0.1:8443")"),
    field("certificate", &control::ApiTable::certificate, control::kFile)
        .required(R"("/etc/pvrdma/api.crt")"),
    field("key", &control::ApiTable::key, control::kFile).required(R"("/etc/pvrdma/api.key")"),
    field("token_file", &control::ApiTable::token, control::SecretRule{control::why_no_token})
        .required(R"("/etc/pvrdma/api.token")"),
    field("read_token_file", &control::ApiTable::read_token, control::SecretRule{control::why_no_token}));

}  // namespace pvrdma::schema
