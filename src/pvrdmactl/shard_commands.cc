// "system shard list" and "adapter shard set": the threads of the daemon that serve the adapters. esxcli has
// no such commands.
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "pvrdmactl/grammar.h"
#include "pvrdmactl/json_fields.h"
#include "pvrdmactl/table.h"

namespace pvrdma::ctl {
namespace {

std::string seconds_at(const Json& object, const char* key) {
  return fmt::format("{:.1f} s", static_cast<double>(number_at(object, key)) / 1e6);
}

std::string milliseconds_at(const Json& object, const char* key) {
  return fmt::format("{:.1f} ms", static_cast<double>(number_at(object, key)) / 1e3);
}

// What operators must know of a shard besides its numbers.
std::string role_of(const Json& shard) {
  if (!shard.value("is_ward", false)) return "-";
  const std::string trouble = shard.value("trouble", std::string());
  return trouble.empty() ? "ward" : "ward: " + trouble;
}

// A daemon of an older release does not say it.
std::string busy_of(const Json& shard) {
  return shard.contains("busy_percent") ? digits_at(shard, "busy_percent") + " %" : "-";
}

Table shard_list(const Json& answer) {
  Table table({{"Shard", Align::kRight},
               {"CPU", Align::kRight},
               {"Busy", Align::kRight},
               {"CPU Time", Align::kRight},
               {"Turns", Align::kRight},
               {"Wake-ups", Align::kRight},
               {"Long Turns", Align::kRight},
               {"Long Turn Time", Align::kRight},
               {"Revoke Waits", Align::kRight},
               {"Role"},
               {"Adapters"}});
  for (const Json& shard : answer.at("shards")) {
    const Json& counters = shard.at("counters");
    const Json& turns = counters.at("shard");
    table.add({digits_at(shard, "number"), digits_at(shard, "cpu"), busy_of(shard),
               seconds_at(shard, "cpu_us"), digits_at(turns, "turns"), digits_at(turns, "sleeps"),
               digits_at(turns, "long_turns"), milliseconds_at(turns, "long_turns_us"),
               counters.contains("rings") ? digits_at(counters.at("rings"), "revoke_waits") : "-",
               role_of(shard), or_dash(joined(shard.at("adapters")))});
  }
  return table;
}

std::string placed_text(const Json& answer) {
  const std::uint64_t from = number_at(answer, "from");
  const std::uint64_t to = number_at(answer, "to");
  if (from == to) return fmt::format("It is on shard {} already.\n", to);
  return fmt::format("It moved from shard {} to shard {}, and was paused for {}.\n", from, to,
                     milliseconds_at(answer, "pause_us"));
}

}  // namespace

Section shard_commands() {
  return {.namespaces = {{"system shard", "threads that serve the adapters"},
                         {"adapter shard", "the thread that serves an adapter"}},
          .commands = {{.words = "system shard list",
                        .help = "list the threads that serve this host's adapters",
                        .arguments = {other_host()},
                        .path = "/v1/shards",
                        .table = shard_list},
                       {.words = "adapter shard set",
                        .help = "move an adapter to another thread, while its VM runs",
                        .arguments = {named("NAME", "the adapter", Names::kAdapters),
                                      {.name = "shard",
                                       .kind = Kind::kNumber,
                                       .help = "the thread's number, as system shard list shows it",
                                       .required = true,
                                       .member = "/shard"}},
                        .method = Method::kPut,
                        .path = "/v1/adapters/{NAME}/shard",
                        .text = placed_text}}};
}

}  // namespace pvrdma::ctl
