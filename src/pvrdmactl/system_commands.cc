// "system ...": advanced settings of a host and the daemon's version, in esxcli's words.
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
        fmt::format("there is no advanced setting \"{}\": pvrdmactl system settings advanced list shows them",
                    wanted->second));
  }
  return kept;
}

Table version(const Json& answer) {
  Table table({{"Product"}, {"Version"}}, Layout::kObject);
  table.add({"pvrdmad", text_at(answer, "version")});
  return table;
}

// For string options, too, esxcli shows the fields of integer options, as 0.
Table setting_list(const Json& list) {
  Table table({{"Path"},
               {"Type"},
               {"Int Value", Align::kRight},
               {"Default Int Value", Align::kRight},
               {"Min Value", Align::kRight},
               {"Max Value", Align::kRight},
               {"String Value"},
               {"Default String Value"},
               {"Valid Characters"},
               {"Description"}},
              Layout::kBlocks);
  for (const Json& setting : list) {
    table.add({text_at(setting, "path"), text_at(setting, "type"), "0", "0", "0", "0",
               text_at(setting, "value"), text_at(setting, "default"), "*", text_at(setting, "description")});
  }
  return table;
}

}  // namespace

Section system_commands() {
  return {.namespaces = {{"system", "settings of a host"},
                         {"system settings", "settings of a host"},
                         {"system settings advanced", "advanced settings"},
                         {"system version", "version of the daemon"}},
          .commands = {{.words = "system settings advanced list",
                        .help = "list the advanced settings",
                        .arguments = {{.letter = 'o',
                                       .name = "option",
                                       .kind = Kind::kText,
                                       .help = "only this setting, /Net/PVRDMAVmknic"},
                                      host_option()},
                        .path = "/v1/hosts/{host}/advanced",
                        .select = settings,
                        .table = setting_list},
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
                        .path = "/v1/hosts/{host}/advanced"},
                       {.words = "system version get",
                        .help = "show the version of the daemon",
                        .path = "/v1/version",
                        .table = version}}};
}

}  // namespace pvrdma::ctl
