// "system ...": advanced settings of a host, in esxcli's words.
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "pvrdmactl/grammar.h"
#include "pvrdmactl/json_fields.h"
#include "pvrdmactl/table.h"

namespace pvrdma::ctl {
namespace {

// The given setting, or all.
Result<Json> settings(Json list, const Values& values) {
  const auto wanted = values.find("option");
  if (wanted == values.end()) return list;
  Json kept = Json::array();
  for (const Json& setting : list) {
    if (text_at(setting, "path") == wanted->second) kept.push_back(setting);
  }
  if (kept.empty()) {
    return fail(
        fmt::format("there is no advanced setting {}: see system settings advanced list", wanted->second));
  }
  return kept;
}

// For string options, too, esxcli shows the fields of integer options, as 0.
std::string setting_list_text(const Json& list) {
  std::string text;
  for (const Json& setting : list) {
    Properties properties;
    properties.add("Path", text_at(setting, "path"));
    properties.add("Type", text_at(setting, "type"));
    for (const char* integer : {"Int Value", "Default Int Value", "Min Value", "Max Value"}) {
      properties.add(integer, "0");
    }
    properties.add("String Value", text_at(setting, "value"));
    properties.add("Default String Value", text_at(setting, "default"));
    properties.add("Valid Characters", "*");
    properties.add("Description", text_at(setting, "description"));
    text += (text.empty() ? "" : "\n") + properties.text();
  }
  return text;
}

}  // namespace

Section system_commands() {
  return {.namespaces = {{"system", "settings of a host"},
                         {"system settings", "settings of a host"},
                         {"system settings advanced", "advanced settings"}},
          .commands = {{.words = "system settings advanced list",
                        .help = "list the advanced settings",
                        .arguments = {{.letter = 'o',
                                       .name = "option",
                                       .kind = Kind::kText,
                                       .help = "only this setting, /Net/PVRDMAVmknic"},
                                      host_option()},
                        .path = "/v1/hosts/{host}/advanced",
                        .select = settings,
                        .text = setting_list_text},
                       {.words = "system settings advanced set",
                        .help = "change an advanced setting",
                        .arguments = {{.letter = 'd',
                                       .name = "default",
                                       .kind = Kind::kFlag,
                                       .help = "back to the default",
                                       .required = true,
                                       .member = "/value"},
                                      {.letter = 'o',
                                       .name = "option",
                                       .kind = Kind::kText,
                                       .help = "the setting, /Net/PVRDMAVmknic",
                                       .required = true,
                                       .member = "/path"},
                                      {.letter = 's',
                                       .name = "string-value",
                                       .kind = Kind::kText,
                                       .help = "the new value, vmk2",
                                       .required = true,
                                       .member = "/value"},
                                      host_option()},
                        .method = Method::kPut,
                        .path = "/v1/hosts/{host}/advanced"}}};
}

}  // namespace pvrdma::ctl
