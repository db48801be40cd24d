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
#include "control/schema/rules.h"

namespace pvrdma {

template <>
inline constexpr std::array kWords<log::Level>{
    Word{"debug", log::Level::kDebug}, Word{"info", log::Level::kInfo}, Word{"warn", log::Level::kWarn},
    Word{"error", log::Level::kError}};

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
inline constexpr TextRule kHostName{"a name", why_no_host_name};
inline constexpr TextRule kSocket{"a path", why_no_socket};
inline constexpr TextRule kSocketFolder{"a path", why_no_socket_folder};
inline constexpr TextRule kPath{"a path", why_no_path};
inline constexpr TextRule kFile{"a file", why_no_file};
inline constexpr TextRule kPrefix{"a prefix", why_no_prefix};
inline constexpr TextRule kUser{"a user", why_no_user};
inline constexpr TextRule kGroup{"a group", why_no_group};

struct TextsRule {
  std::string (*why_not)(const std::vector<std::string>&);
  void read(Reader& reader, const ParsedJson& json, std::vector<std::string>& out) const;
};
std::string why_no_interfaces(const std::vector<std::string>& names);
std::string why_no_endpoints(const std::vector<std::string>& endpoints);

// The first line of a file that the value names.
struct SecretRule {
  std::string (*why_not)(const std::string&) = nullptr;
  void read(Reader& reader, const ParsedJson& json, std::string& out) const;
};
std::string why_no_token(const std::string& line);

inline constexpr std::uint64_t kMibMax = 1ULL << 27;  // 128 TiB: the most that a process can map
inline constexpr std::uint64_t kPerSecondMax = 1'000'000'000;
inline constexpr std::uint64_t kObjectsMax = 1ULL << 32;

struct HardwareVersionRule {
  void read(Reader& reader, const ParsedJson& json, HardwareVersion& out) const;
};

// Microseconds, or "forever".
struct SpinRule {
  void read(Reader& reader, const ParsedJson& json, Duration& out) const;
};

// A core to which the kernel lets a thread of this process be bound.
struct CoreRule {
  void read(Reader& reader, const ParsedJson& json, std::uint32_t& out) const;
};

// "10.0.0.1:8443" or "[fd00::1]:8443".
struct Listen {
  IpAddress address;
  std::uint16_t port = 0;
};
struct ListenRule {
  void read(Reader& reader, const ParsedJson& json, Listen& out) const;
};

// --- The tables ---

template <>
inline constexpr auto kObject<DaemonConfig> =
    request("[daemon]", field("api_socket", &DaemonConfig::api_socket, kSocket),
            field("log_level", &DaemonConfig::log_level, WordRule<log::Level>{"log level"}),
            field("spin_us", &DaemonConfig::spin, SpinRule{}), field("sandbox", &DaemonConfig::sandbox),
            field("dedicated_core", &DaemonConfig::dedicated_core, OptionalRule<CoreRule>{}),
            field("fault_injection", &DaemonConfig::fault_injection));

// The budgets of an adapter in its own table, or of every adapter in [budgets]. With a rate below the
// minimum, a VMM could wait for an answer beyond its time limit.
inline constexpr auto kBudgetKeys = record(
    "budgets", field("qps", &Budgets::qps, NumberRule{4, 32768}),
    field("cqs", &Budgets::cqs, NumberRule{2, 4096}), field("srqs", &Budgets::srqs, NumberRule{0, 256}),
    field("mrs", &Budgets::mrs, NumberRule{1, 262144}),
    field("registered_mib", &Budgets::registered_mib, NumberRule{1, kMibMax}),
    field("rings_mib", &Budgets::rings_mib, NumberRule{1, kMibMax}),
    field("mapped_mib", &Budgets::mapped_mib, NumberRule{1, kMibMax}),
    field("commands_per_s", &Budgets::commands_per_s, NumberRule{1000, kPerSecondMax}),
    field("doorbells_per_s", &Budgets::doorbells_per_s, NumberRule{10'000, kPerSecondMax}));

struct BudgetsTable : Budgets, TotalBudgets {};
template <>
inline constexpr auto kObject<BudgetsTable> =
    request("[budgets]", kBudgetKeys, field("total_qps", &TotalBudgets::qps, NumberRule{4, kObjectsMax}),
            field("total_mrs", &TotalBudgets::mrs, NumberRule{1, kObjectsMax}),
            field("total_registered_mib", &TotalBudgets::registered_mib, NumberRule{1, kMibMax}),
            field("total_rings_mib", &TotalBudgets::rings_mib, NumberRule{1, kMibMax}),
            field("total_mapped_mib", &TotalBudgets::mapped_mib, NumberRule{1, kMibMax}));

struct AdapterTable : AdapterConfig, Budgets {
  std::optional<RoceVersion> asked_roce;
  std::string user;
  std::string group;
};
template <>
inline constexpr auto kObject<AdapterTable> = request(
    "[[adapter]]", field("name", &AdapterTable::name, kName).required(R"("VM-01")"),
    field("socket", &AdapterTable::socket, kSocket).required(R"("/run/pvrdma/vm-01.sock")"),
    field("mac", &AdapterTable::mac).required(R"("52:54:00:12:34:51", the VM's vmxnet3 adapter's)"),
    field("hardware_version", &AdapterTable::hardware_version, HardwareVersionRule{}).required("14"),
    field("roce", &AdapterTable::asked_roce, OptionalRule<WordRule<RoceVersion>>{{"RoCE version"}}),
    field("profile", &AdapterTable::profile, WordRule<Profile>{"profile"}),
    field("doorbells", &AdapterTable::doorbells, WordRule<DoorbellMode>{"doorbell mode"}),
    field("mtu", &AdapterTable::mtu, kNetworkMtu), field("addresses", &AdapterTable::addresses),
    field("owner", &AdapterTable::user, kUser), field("group", &AdapterTable::group, kGroup), kBudgetKeys);

template <>
inline constexpr auto kObject<RoceConfig> =
    request("[[roce]]", field("link", &RoceConfig::link).required(R"("tap:pvroce0")"),
            field("switch", &RoceConfig::dvs, kName), field("vlan", &RoceConfig::vlan, kVlan),
            field("peers", &RoceConfig::peers));

template <>
inline constexpr auto kObject<ClusterConfig> =
    request("[host]", field("name", &ClusterConfig::host_name, kHostName).required(R"("esx-01")"),
            field("vmnics", &ClusterConfig::vmnics, TextsRule{why_no_interfaces}),
            field("socket_folder", &ClusterConfig::socket_folder, kSocketFolder));

// Which kind of table [store] is.
struct StoreTable {
  StoreKind type = StoreKind::kSqlite;
};
template <>
inline constexpr auto kObject<StoreTable> = record("[store]", field("type", &StoreTable::type,
                                                                    WordRule<StoreKind>{"kind of store"}));

struct SqliteTable : StoreTable, SqliteConfig {};
template <>
inline constexpr auto kObject<SqliteTable> = request("[store]", kObject<StoreTable>,
                                                     field("path", &SqliteTable::path, kPath));

struct EtcdTable : StoreTable, EtcdConfig {};
template <>
inline constexpr auto kObject<EtcdTable> = request(
    "[store]", kObject<StoreTable>,
    field("endpoints", &EtcdTable::endpoints, TextsRule{why_no_endpoints})
        .required(R"(["http://10.0.0.1:2379"])"),
    field("prefix", &EtcdTable::prefix, kPrefix), field("user", &EtcdTable::user),
    field("password_file", &EtcdTable::password, SecretRule{}), field("ca", &EtcdTable::ca_file, kFile),
    field("certificate", &EtcdTable::cert_file, kFile), field("key", &EtcdTable::key_file, kFile),
    field("lease_s", &EtcdTable::lease_seconds, NumberRule{3, 600}), field("compact", &EtcdTable::compact));

struct TcpTable : TlsFilesConfig {
  std::optional<std::uint32_t> lanes;
  std::optional<std::string> congestion_control;
};
template <>
inline constexpr auto kObject<TcpTable> =
    request("[tcp]", field("lanes", &TcpTable::lanes, OptionalRule<NumberRule>{{1, 16}}),
            field("congestion_control", &TcpTable::congestion_control), field("ca", &TcpTable::ca, kFile),
            field("certificate", &TcpTable::certificate, kFile), field("key", &TcpTable::key, kFile));

struct HcaTable {
  bool enabled = true;
  bool require_encryption = false;
};
template <>
inline constexpr auto kObject<HcaTable> = request("[hca]", field("enabled", &HcaTable::enabled),
                                                  field("require_encryption", &HcaTable::require_encryption));

struct ApiTable : ApiTcpConfig {
  Listen listen;
};
template <>
inline constexpr auto kObject<ApiTable> = request(
    "[api]", field("listen", &ApiTable::listen, ListenRule{}).required(R"("10.0.0.1:8443")"),
    field("certificate", &ApiTable::certificate, kFile).required(R"("/etc/pvrdma/api.crt")"),
    field("key", &ApiTable::key, kFile).required(R"("/etc/pvrdma/api.key")"),
    field("token_file", &ApiTable::token, SecretRule{why_no_token}).required(R"("/etc/pvrdma/api.token")"));

}  // namespace control
}  // namespace pvrdma
