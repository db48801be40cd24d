// "events": what happened to the daemon's objects.
#include "pvrdmactl/event_commands.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/clean_text.h"
#include "base/utc_text.h"
#include "pvrdmactl/grammar.h"
#include "pvrdmactl/guarded.h"
#include "pvrdmactl/json_fields.h"
#include "pvrdmactl/table.h"

namespace pvrdma::ctl {
namespace {

std::string event_time(const Json& event) {
  return utc_text(number_at(event, "at_ms"), TimeUnit::kMilliseconds);
}

std::string event_line(const Json& event) {
  return fmt::format("{} {} {} {}", digits_at(event, "sequence"), event_time(event), text_at(event, "level"),
                     text_at(event, "text"));
}

// "vm VM-01", or "daemon".
std::string target_of(const Json& event) {
  const std::string object = text_at(event, "object");
  return text_at(event, "kind") + (object.empty() ? "" : " " + object);
}

Table event_list(const Json& page) {
  Table table(
      {{"Number", Align::kRight}, {"Time"}, {"Level"}, {"Type"}, {"Target"}, {"Initiator"}, {"Description"}});
  for (const Json& event : page.at("events")) {
    table.add({digits_at(event, "sequence"), event_time(event), text_at(event, "level"),
               text_at(event, "type"), target_of(event), or_dash(text_at(event, "initiator")),
               text_at(event, "text")});
  }
  return table;
}

std::string lost_note(const Json& page) {
  const std::uint64_t lost = number_at(page, "lost");
  return lost == 0 ? "" : fmt::format("{} events are no longer held: the daemon keeps the newest ones", lost);
}

// Streams are not relayed.
Result<void> follow_own_host(Values& values, const Ask& /*ask*/) {
  if (!values.contains("follow") || !values.contains("host")) return {};
  return fail(ErrorKind::kInvalid,
              fmt::format("--follow shows the events of the daemon's own host: leave out --host, or give the "
                          "API of host {}",
                          values.at("host")));
}

}  // namespace

Result<std::string> followed_events(std::string_view lines, bool as_json) {
  return guarded([&]() -> Result<std::string> {
    std::string text;
    for (std::size_t end = lines.find('\n'); end != std::string_view::npos; end = lines.find('\n')) {
      const Json told = Json::parse(lines.substr(0, end));
      lines.remove_prefix(end + 1);
      if (text_at(told, "event") != "events") continue;
      const Json& page = told.at("data");
      if (const std::string lost = lost_note(page); !lost.empty() && !as_json)
        text += fmt::format("({})\n", lost);
      for (const Json& event : page.at("events"))
        text += clean_text(as_json ? event.dump() : event_line(event)) + "\n";
    }
    return text;
  });
}

Command followed(Command command) {
  command.path = "/v1/watch?after={after}";
  return command;
}

Section event_commands() {
  return {.namespaces = {},
          .commands = {{.words = "events",
                        .help = "list what happened to this host's objects",
                        .arguments = {{.name = "after",
                                       .kind = Kind::kNumber,
                                       .help = "only events after the one with this number",
                                       .fallback = "0"},
                                      {.letter = 'f',
                                       .name = "follow",
                                       .kind = Kind::kFlag,
                                       .help = "go on with the events that come, until an interrupt",
                                       .constant = "true"},
                                      other_host()},
                        .path = "/v1/events?after={after}&limit=1024",
                        .complete = follow_own_host,
                        .table = event_list,
                        .note = lost_note,
                        .transfer = Transfer::kEvents}}};
}

}  // namespace pvrdma::ctl
