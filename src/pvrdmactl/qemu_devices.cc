#include "pvrdmactl/qemu_devices.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {
namespace {

using Properties = std::map<std::string, std::string>;

// Members of objects get the names that QEMU gives them in its other form: "socket.path".
void flatten(const Json& object, const std::string& prefix, Properties& into) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) flatten(value, prefix + key + '.', into);
    if (value.is_string()) into[prefix + key] = value.get<std::string>();
  }
}

// "driver,key=value". A doubled comma belongs to the value.
Properties split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      parts.back() += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == ',') {
      parts.back() += text[++i];
    } else {
      parts.emplace_back();
    }
  }
  Properties properties{{"driver", parts.front()}};
  for (const std::string& part : parts) {
    if (const auto equals = part.find('='); equals != std::string::npos)
      properties[part.substr(0, equals)] = part.substr(equals + 1);
  }
  return properties;
}

Properties properties_of(const std::string& text) {
  if (!text.starts_with('{')) return split(text);
  Properties properties;
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) flatten(json, "", properties);
  return properties;
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Empty: it has no address.
std::optional<QemuDevice> device_of(Properties properties) {
  const std::string address = properties["addr"];  // "SLOT" or "SLOT.FUNCTION", hexadecimal
  if (address.empty()) return std::nullopt;
  const auto point = address.find('.');
  const std::string bus = properties["bus"];
  return QemuDevice{
      .driver = properties["driver"],
      .bus = bus.empty() ? "pcie.0" : bus,
      .slot = std::strtoul(address.c_str(), nullptr, 16),
      .function = point == std::string::npos ? 0 : std::strtoul(address.c_str() + point + 1, nullptr, 16),
      .mac = lower_case(properties["mac"]),
      .socket = properties["socket.path"]};
}

}  // namespace

std::vector<QemuDevice> devices_of(const std::vector<std::string>& arguments) {
  std::vector<QemuDevice> devices;
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    if (arguments[i] != "-device" && arguments[i] != "--device") continue;
    if (auto device = device_of(properties_of(arguments[i + 1]))) devices.push_back(*std::move(device));
  }
  return devices;
}

}  // namespace pvrdma::ctl
