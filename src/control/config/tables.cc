#include "control/config/tables.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <fstream>
#include <set>
#include <system_error>
#include <utility>

#include "base/cores.h"
#include "base/whole_number.h"
#include "control/config/rules.h"
#include "vocabulary/name.h"
#include "vocabulary/shards.h"

namespace pvrdma::control {
namespace {

constexpr std::size_t kSocketPathBytesMax = 107;  // sockaddr_un::sun_path without its NUL
constexpr std::size_t kSocketFolderBytesMax = kSocketPathBytesMax - (1 + kNameCharsMax + 5);  // "/NAME.sock"
constexpr std::int64_t kSpinUsMax = 1'000'000;
constexpr std::size_t kTokenCharsMin = 16;
constexpr std::size_t kTokenCharsMax = 256;
constexpr std::size_t kInterfaceCharsMax = 15;

std::optional<Listen> parse_listen(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::string host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const auto address = IpAddress::parse(host);
  const std::uint16_t port = whole_number<std::uint16_t>(text.substr(colon + 1)).value_or(0);
  if (!address || address->is_v6() != bracketed || port == 0) return std::nullopt;
  return Listen{*address, port};
}

}  // namespace

std::string why_no_host_name(const std::string& text) {
  return text == "self" ? "means the host that answers: choose another name" : schema::why_no_name(text);
}

std::string why_no_socket(const std::string& text) {
  if (text.empty() || text.find('\0') != std::string::npos) {
    return "is not a path: give the socket a file name";
  }
  if (text.size() <= kSocketPathBytesMax) return {};
  return fmt::format("is too long: it has {} bytes, and a UNIX socket's path has at most {}", text.size(),
                     kSocketPathBytesMax);
}

std::string why_no_socket_folder(const std::string& text) {
  if (std::string why = why_no_path(text); !why.empty()) return why;
  if (text.size() <= kSocketFolderBytesMax) return {};
  return fmt::format("is too long: it has {} bytes, and {} leave room for the sockets' names", text.size(),
                     kSocketFolderBytesMax);
}

std::string why_no_path(const std::string& text) {
  const bool absolute = text.starts_with('/') && text.find('\0') == std::string::npos;
  return absolute ? "" : "is not an absolute path: begin it with /";
}

std::string why_no_file(const std::string& text) {
  if (std::string why = why_no_path(text); !why.empty()) return why;
  errno = 0;
  if (std::ifstream(text).good()) return {};
  return fmt::format("cannot be read ({}): name a file that the daemon's user may read",
                     std::generic_category().message(errno));
}

std::string why_no_prefix(const std::string& text) {
  return text.starts_with('/') && text.ends_with('/') ? "" : "is not a prefix: begin and end it with /";
}

std::string why_no_user(const std::string& text) {
  const auto found = find_user(text);
  return found ? "" : "cannot be the owner: " + found.error().message;
}

std::string why_no_group(const std::string& text) {
  const auto found = find_group(text);
  return found ? "" : "cannot be the group: " + found.error().message;
}

void TextsRule::read(schema::Reader& reader, const schema::ParsedJson& json,
                     std::vector<std::string>& out) const {
  if (!json.is_array() || !std::all_of(json.begin(), json.end(),
                                       [](const schema::ParsedJson& each) { return each.is_string(); })) {
    return reader.wrong(json, "a list of strings",
                        "has the wrong type: it takes a list of strings, such as [\"eth1\", \"eth2\"]");
  }
  out = json.get<std::vector<std::string>>();
  if (std::string why = why_not(out); !why.empty()) reader.wrong(json, "a list of strings", std::move(why));
}

std::string why_no_interfaces(const std::vector<std::string>& names) {
  const bool usable = std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return !name.empty() && name.size() <= kInterfaceCharsMax && name.find('/') == std::string::npos;
  });
  const bool each_once = std::set<std::string>(names.begin(), names.end()).size() == names.size();
  return usable && each_once ? "" : "is not a list of network interfaces: give each one's name once";
}

std::string why_no_endpoints(const std::vector<std::string>& endpoints) {
  const bool usable = std::all_of(endpoints.begin(), endpoints.end(), [](const std::string& each) {
    return each.starts_with("http://") || each.starts_with("https://");
  });
  return usable && !endpoints.empty() ? "" : "is not a list of endpoints: write each as http://10.0.0.1:2379";
}

void SecretRule::read(schema::Reader& reader, const schema::ParsedJson& json, std::string& out) const {
  std::string path;
  kFile.read(reader, json, path);
  if (reader.failed()) return;
  std::ifstream file(path);
  std::getline(file, out);
  std::string why = out.empty()          ? "is empty: write the secret into its first line"
                    : why_not == nullptr ? std::string()
                                         : why_not(out);
  if (!why.empty()) reader.wrong(json, "a file with a secret", std::move(why));
}

std::string why_no_token(const std::string& line) {
  const bool visible = std::all_of(line.begin(), line.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (visible && line.size() >= kTokenCharsMin && line.size() <= kTokenCharsMax) return {};
  return fmt::format("holds no token: its first line must have {} to {} visible characters", kTokenCharsMin,
                     kTokenCharsMax);
}

void HardwareVersionRule::read(schema::Reader& reader, const schema::ParsedJson& json,
                               HardwareVersion& out) const {
  const auto version = json.is_number_integer() ? adapter_of(json.get<std::int64_t>()) : std::nullopt;
  if (version) {
    out = *version;
    return;
  }
  reader.wrong(
      json, "a hardware version",
      fmt::format("is not a hardware version with PVRDMA: allowed are {}", hardware_versions_with_adapter()));
}

void SpinRule::read(schema::Reader& reader, const schema::ParsedJson& json, Duration& out) const {
  if (json == "forever") {
    out = Duration::max();
    return;
  }
  const std::int64_t spin_us = json.is_number_integer() ? json.get<std::int64_t>() : -1;
  if (spin_us < 0 || spin_us > kSpinUsMax) {
    return reader.wrong(
        json, "a time",
        fmt::format("is not a spinning time: allowed are 0 to {} microseconds, or \"forever\"", kSpinUsMax));
  }
  out = std::chrono::microseconds(spin_us);
}

void ShardsRule::read(schema::Reader& reader, const schema::ParsedJson& json, std::uint32_t& out) const {
  if (json == "auto") {
    out = kShardsByCores;
    return;
  }
  const std::int64_t shards = json.is_number_integer() ? json.get<std::int64_t>() : 0;
  if (shards < 1 || shards > kShardsMax) {
    return reader.wrong(
        json, "a number",
        fmt::format("is not a number of shards: allowed are 1 to {}, or \"auto\"", kShardsMax));
  }
  out = static_cast<std::uint32_t>(shards);
}

void CoreRule::read(schema::Reader& reader, const schema::ParsedJson& json, std::uint32_t& out) const {
  const std::vector<std::uint32_t> usable = usable_cores();
  const std::int64_t number = json.is_number_integer() ? json.get<std::int64_t>() : -1;
  const auto core = std::find(usable.begin(), usable.end(), number);
  if (core == usable.end()) {
    return reader.wrong(json, "a core",
                        fmt::format("is not a core of this host that the daemon may use: allowed are {}",
                                    describe_cores(usable)));
  }
  out = *core;
}

void ListenRule::read(schema::Reader& reader, const schema::ParsedJson& json, Listen& out) const {
  std::string text;
  schema::TextRule{}.read(reader, json, text);
  if (reader.failed()) return;
  const auto listen = parse_listen(text);
  if (!listen) {
    return reader.wrong(json, "an address and port",
                        "is not an address and port: write it as 10.0.0.1:8443 or [fd00::1]:8443");
  }
  out = *listen;
}

}  // namespace pvrdma::control
