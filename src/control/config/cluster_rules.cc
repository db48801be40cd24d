#include "control/config/cluster_rules.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fmt/core.h>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "base/name.h"
#include "control/config/values.h"

namespace pvrdma::control {
namespace {

constexpr std::array<std::string_view, 3> kHostKeys{"name", "vmnics", "socket_folder"};
constexpr std::array<std::string_view, 2> kSqliteKeys{"type", "path"};
constexpr std::array<std::string_view, 9> kEtcdKeys{
    "type", "endpoints", "prefix", "user", "password_file", "ca", "certificate", "key", "lease_s"};
constexpr std::array<std::string_view, 5> kTcpKeys{"lanes", "congestion_control", "ca", "certificate", "key"};
constexpr std::array<std::string_view, 4> kApiKeys{"listen", "certificate", "key", "token_file"};

constexpr std::uint32_t kLanesMax = 16;
constexpr std::uint32_t kLeaseSecondsMin = 3;
constexpr std::uint32_t kLeaseSecondsMax = 600;
constexpr std::size_t kTokenCharsMin = 16;
constexpr std::size_t kTokenCharsMax = 256;
constexpr std::size_t kInterfaceCharsMax = 15;
constexpr std::size_t kSocketFolderBytesMax = 107 - (1 + kNameCharsMax + 5);  // "/NAME.sock" follows

// `target` keeps its default when the key is absent.
template <typename T>
Result<void> optional(const Section& section, std::string_view key, T& target,
                      Result<T> (*parse)(const Section&, const Setting&)) {
  const Setting* setting = section.find(key);
  if (setting == nullptr) return {};
  auto value = parse(section, *setting);
  if (!value) return Failure(std::move(value).error());
  target = *std::move(value);
  return {};
}

Result<void> optional_number(const Section& section, std::string_view key, std::uint32_t& target,
                             std::uint32_t min, std::uint32_t max) {
  const Setting* setting = section.find(key);
  if (setting == nullptr) return {};
  const auto value = parse_number(section, *setting, min, max);
  if (!value) return Failure(value.error());
  target = *value;
  return {};
}

// A file that can be read now.
Result<std::string> parse_file(const Section& section, const Setting& setting) {
  auto path = parse_path(section, setting);
  if (!path) return path;
  errno = 0;
  if (!std::ifstream(*path).good()) {
    return wrong(section, setting,
                 fmt::format("cannot be read ({}): name a file that the daemon's user may read",
                             std::generic_category().message(errno)));
  }
  return path;
}

// The first line of a file.
Result<std::string> parse_secret(const Section& section, const Setting& setting) {
  const auto path = parse_file(section, setting);
  if (!path) return path;
  std::string line;
  std::ifstream file(*path);
  std::getline(file, line);
  if (line.empty()) return wrong(section, setting, "is empty: write the secret into its first line");
  return line;
}

Result<std::string> parse_token(const Section& section, const Setting& setting) {
  auto token = parse_secret(section, setting);
  if (!token) return token;
  const bool visible = std::all_of(token->begin(), token->end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!visible || token->size() < kTokenCharsMin || token->size() > kTokenCharsMax) {
    return wrong(section, setting,
                 fmt::format("holds no token: its first line must have {} to {} visible characters",
                             kTokenCharsMin, kTokenCharsMax));
  }
  return token;
}

Result<std::string> parse_socket_folder(const Section& section, const Setting& setting) {
  auto path = parse_path(section, setting);
  if (path && path->size() > kSocketFolderBytesMax) {
    return wrong(section, setting,
                 fmt::format("is too long: it has {} bytes, and {} leave room for the sockets' names",
                             path->size(), kSocketFolderBytesMax));
  }
  return path;
}

Result<std::string> parse_host_name(const Section& section, const Setting& setting) {
  auto name = parse_name(section, setting);
  if (name && *name == "self") {
    return wrong(section, setting, "stands for the host that is asked: name the host otherwise");
  }
  return name;
}

Result<std::vector<std::string>> parse_vmnics(const Section& section, const Setting& setting) {
  auto names = parse_texts(section, setting);
  if (!names) return names;
  const bool usable = std::all_of(names->begin(), names->end(), [](const std::string& name) {
    return !name.empty() && name.size() <= kInterfaceCharsMax && name.find('/') == std::string::npos;
  });
  if (!usable || std::set<std::string>(names->begin(), names->end()).size() != names->size()) {
    return wrong(section, setting, "is no list of network interfaces: give each one's name once");
  }
  return names;
}

Result<std::vector<std::string>> parse_endpoints(const Section& section, const Setting& setting) {
  auto endpoints = parse_texts(section, setting);
  if (!endpoints) return endpoints;
  const bool usable = std::all_of(endpoints->begin(), endpoints->end(), [](const std::string& each) {
    return each.starts_with("http://") || each.starts_with("https://");
  });
  if (endpoints->empty() || !usable) {
    return wrong(section, setting, "is no list of endpoints: write each as http://10.0.0.1:2379");
  }
  return endpoints;
}

Result<std::string> parse_prefix(const Section& section, const Setting& setting) {
  auto prefix_text = parse_text(section, setting);
  if (prefix_text && (!prefix_text->starts_with('/') || !prefix_text->ends_with('/'))) {
    return wrong(section, setting, "is no prefix: begin and end it with /");
  }
  return prefix_text;
}

Result<std::variant<SqliteConfig, EtcdConfig>> parse_store(const Section& section) {
  std::string type = "sqlite";
  if (auto read = optional(section, "type", type, parse_text); !read) return Failure(std::move(read).error());
  if (type == "sqlite") {
    if (auto known = check_keys(section, kSqliteKeys); !known) return Failure(std::move(known).error());
    SqliteConfig sqlite;
    if (auto read = optional(section, "path", sqlite.path, parse_path); !read) {
      return Failure(std::move(read).error());
    }
    return sqlite;
  }
  if (type != "etcd") {
    return wrong(section, *section.find("type"), "is no kind of store: allowed are sqlite, etcd");
  }
  if (auto known = check_keys(section, kEtcdKeys); !known) return Failure(std::move(known).error());
  EtcdConfig etcd;
  auto endpoints = required(section, "endpoints", "endpoints = [\"http://10.0.0.1:2379\"]", parse_endpoints);
  if (!endpoints) return Failure(std::move(endpoints).error());
  etcd.endpoints = *std::move(endpoints);
  for (const auto& read :
       {optional(section, "prefix", etcd.prefix, parse_prefix),
        optional(section, "user", etcd.user, parse_text),
        optional(section, "password_file", etcd.password, parse_secret),
        optional(section, "ca", etcd.ca_file, parse_file),
        optional(section, "certificate", etcd.cert_file, parse_file),
        optional(section, "key", etcd.key_file, parse_file),
        optional_number(section, "lease_s", etcd.lease_seconds, kLeaseSecondsMin, kLeaseSecondsMax)}) {
    if (!read) return Failure(read.error());
  }
  if (etcd.user.empty() != etcd.password.empty()) {
    return fail(fmt::format("{}user and password_file belong together: give both or none",
                            prefix(section, section.where)));
  }
  if (etcd.cert_file.empty() != etcd.key_file.empty()) {
    return fail(fmt::format("{}certificate and key belong together: give both or none",
                            prefix(section, section.where)));
  }
  return etcd;
}

Result<void> parse_tcp(const Section& section, ClusterConfig& cluster) {
  if (auto known = check_keys(section, kTcpKeys); !known) return known;
  if (auto read = optional_number(section, "lanes", cluster.tcp_lanes, 1, kLanesMax); !read) return read;
  TlsFilesConfig tls;
  for (const auto& read :
       {optional(section, "congestion_control", cluster.tcp_congestion_control, parse_text),
        optional(section, "ca", tls.ca, parse_file),
        optional(section, "certificate", tls.certificate, parse_file),
        optional(section, "key", tls.key, parse_file)}) {
    if (!read) return read;
  }
  const int given = !tls.ca.empty() + !tls.certificate.empty() + !tls.key.empty();
  if (given != 0 && given != 3) {
    return fail(
        fmt::format("{}ca, certificate and key belong together: give all three for TLS between hosts, "
                    "or none",
                    prefix(section, section.where)));
  }
  if (given == 3) cluster.tcp_tls = std::move(tls);
  return {};
}

Result<ClusterConfig> parse_cluster(const Document& document) {
  const Section& host = *document.host;
  if (auto known = check_keys(host, kHostKeys); !known) return Failure(std::move(known).error());
  auto name = required(host, "name", "name = \"esx-01\"", parse_host_name);
  if (!name) return Failure(std::move(name).error());
  ClusterConfig cluster;
  cluster.host_name = *std::move(name);
  for (const auto& read : {optional(host, "vmnics", cluster.vmnics, parse_vmnics),
                           optional(host, "socket_folder", cluster.socket_folder, parse_socket_folder)}) {
    if (!read) return Failure(read.error());
  }
  if (document.store) {
    auto store = parse_store(*document.store);
    if (!store) return Failure(std::move(store).error());
    cluster.store = *std::move(store);
  }
  if (document.tcp) {
    if (auto read = parse_tcp(*document.tcp, cluster); !read) return Failure(std::move(read).error());
  }
  return cluster;
}

// "10.0.0.1:8443" or "[fd00::1]:8443".
Result<std::pair<IpAddress, std::uint16_t>> parse_listen(const Section& section, const Setting& setting) {
  const auto text = parse_text(section, setting);
  if (!text) return Failure(text.error());
  const std::size_t colon = text->rfind(':');
  const std::string port_text = colon == std::string::npos ? "" : text->substr(colon + 1);
  std::string host = text->substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const auto address = IpAddress::parse(host);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (!address || address->is_v6() != bracketed || error != std::errc{} || port == 0 ||
      end != port_text.data() + port_text.size()) {
    return wrong(section, setting, "is no address and port: write it as 10.0.0.1:8443 or [fd00::1]:8443");
  }
  return std::pair(*address, port);
}

Result<ApiTcpConfig> parse_api(const Section& section) {
  if (auto known = check_keys(section, kApiKeys); !known) return Failure(std::move(known).error());
  const auto listen = required(section, "listen", "listen = \"10.0.0.1:8443\"", parse_listen);
  if (!listen) return Failure(listen.error());
  auto certificate = required(section, "certificate", "certificate = \"/etc/pvrdma/api.crt\"", parse_file);
  if (!certificate) return Failure(std::move(certificate).error());
  auto key = required(section, "key", "key = \"/etc/pvrdma/api.key\"", parse_file);
  if (!key) return Failure(std::move(key).error());
  auto token = required(section, "token_file", "token_file = \"/etc/pvrdma/api.token\"", parse_token);
  if (!token) return Failure(std::move(token).error());
  return ApiTcpConfig{listen->first, listen->second, *std::move(certificate), *std::move(key),
                      *std::move(token)};
}

}  // namespace

Result<void> apply_cluster_rules(const Document& document, Config& config) {
  for (const auto* table : {&document.store, &document.tcp}) {
    if (*table && !document.host) {
      return fail(
          fmt::format("{}without [host]: add a [host] table with the host's name, which makes this "
                      "daemon a member of a cluster",
                      prefix(**table, (*table)->where)));
    }
  }
  if (document.host) {
    auto cluster = parse_cluster(document);
    if (!cluster) return Failure(std::move(cluster).error());
    config.cluster = *std::move(cluster);
  }
  if (document.api) {
    auto api = parse_api(*document.api);
    if (!api) return Failure(std::move(api).error());
    config.api = *std::move(api);
  }
  return {};
}

}  // namespace pvrdma::control
