#include "pvrdmactl/views.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "pvrdmactl/table.h"

namespace pvrdma::ctl {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kJsonIndent = 2;

// The library throws on what is missing or of another type; nothing of that leaves this file.
template <typename Render>
Result<std::string> view(const std::string& text, Render render) {
  try {
    return render(Json::parse(text));
  } catch (const Json::exception& error) {
    return fail(fmt::format(
        "the daemon's answer is not what this pvrdmactl expects: are they of the same version? ({})",
        error.what()));
  }
}

std::string text_at(const Json& object, const char* key) {
  return object.at(key).get<std::string>();
}
std::uint64_t number_at(const Json& object, const char* key) {
  return object.at(key).get<std::uint64_t>();
}
std::string digits_at(const Json& object, const char* key) {
  return std::to_string(number_at(object, key));
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string mebibytes(std::uint64_t bytes) {
  return fmt::format("{} MiB", bytes >> 20);
}

std::string adapter_list_text(const Json& list) {
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
  return table.text();
}

std::string adapter_text(const Json& adapter) {
  Properties properties(text_at(adapter, "name"));
  properties.add("State", text_at(adapter, "state"));
  properties.add("MAC", text_at(adapter, "mac"));
  properties.add("Hardware Version", digits_at(adapter, "hardware_version"));
  properties.add("RoCE", text_at(adapter, "roce"));
  properties.add("Socket", text_at(adapter, "socket"));
  properties.add("Link", adapter.at("link_up").get<bool>() ? "up" : "down");
  properties.add("Device Version", digits_at(adapter, "device_version"));
  const std::uint64_t driver = number_at(adapter, "driver_version");
  properties.add("Driver Version", driver == 0 ? "no driver" : std::to_string(driver));
  properties.add("Guest OS", text_at(adapter, "guest_os"));
  properties.add("Guest Memory", mebibytes(number_at(adapter, "memory_bytes")));
  for (const Json& gid : adapter.at("gids")) {
    properties.add(fmt::format("GID {}", number_at(gid, "index")),
                   fmt::format("{} (RoCE {})", text_at(gid, "gid"), text_at(gid, "roce")));
  }
  std::string objects;
  for (const auto& [name, count] : adapter.at("objects").items()) {
    objects += fmt::format("{}{} {}", objects.empty() ? "" : ", ", count.get<std::uint64_t>(), name);
  }
  properties.add("Objects", objects);
  properties.add("TX", fmt::format("{} messages, {} bytes", number_at(adapter, "tx_messages"),
                                   number_at(adapter, "tx_bytes")));
  properties.add("RX", fmt::format("{} messages, {} bytes", number_at(adapter, "rx_messages"),
                                   number_at(adapter, "rx_bytes")));
  for (const auto& [path, use] : adapter.at("paths").items()) {
    properties.add(fmt::format("Path {}", path),
                   fmt::format("{} messages, {} bytes sent", number_at(use, "messages"),
                               number_at(use, "payload_bytes")));
  }
  return properties.text();
}

std::string qp_list_text(const Json& list) {
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
  return table.text();
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

std::string stats_text(const Json& stats) {
  Table table({{"Adapter"}, {"Group"}, {"Counter"}, {"Value", Align::kRight}});
  for (const Json& adapter : stats.at("adapters")) add_counters(table, text_at(adapter, "name"), adapter);
  if (const auto host = stats.find("host"); host != stats.end()) add_counters(table, "-", *host);
  return table.text();
}

}  // namespace

Result<std::string> adapter_list_view(const std::string& json) {
  return view(json, adapter_list_text);
}

Result<std::string> adapter_view(const std::string& json) {
  return view(json, adapter_text);
}

Result<std::string> qp_list_view(const std::string& json) {
  return view(json, qp_list_text);
}

Result<std::string> stats_view(const std::string& json) {
  return view(json, stats_text);
}

Result<std::string> version_view(const std::string& json, std::string_view own) {
  return view(json, [own](const Json& answer) {
    return fmt::format("pvrdmactl {}\npvrdmad {}\n", own, text_at(answer, "version"));
  });
}

Result<std::string> json_view(const std::string& json) {
  return view(json, [](const Json& answer) { return answer.dump(kJsonIndent) + "\n"; });
}

Result<std::string> version_json_view(const std::string& json, std::string_view own) {
  return view(json, [own](Json answer) {
    answer["pvrdmactl"] = own;
    return answer.dump(kJsonIndent) + "\n";
  });
}

std::string error_sentence(const std::string& json, int status) {
  const auto sentence = view(json, [](const Json& answer) { return text_at(answer, "error"); });
  return sentence ? *sentence : fmt::format("the daemon answered with HTTP status {}", status);
}

}  // namespace pvrdma::ctl
