// "apply": several edits of the configuration as one, from a file.
#include "pvrdmactl/apply_command.h"

#include <cerrno>
#include <fmt/core.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <vector>

#include "pvrdmactl/grammar.h"
#include "pvrdmactl/json_fields.h"

namespace pvrdma::ctl {
namespace {

constexpr std::size_t kBytesMax = 64 * 1024;  // of a body in the API

Failure too_long(const std::string& path) {
  return fail(fmt::format("{} has more than {} bytes, the most of one request: make several files of it",
                          path, kBytesMax));
}

// Parses `text`. Discarded: it is not JSON. If an object in it has a member twice, `twice` is its name: the
// parser would keep only the last one.
Json parse(const std::string& text, std::string& twice) {
  std::vector<std::set<std::string>> members;
  const auto note = [&](int, Json::parse_event_t event, Json& value) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start) members.emplace_back();
    if (event == Event::object_end) members.pop_back();
    if (event == Event::key && !members.back().insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  return Json::parse(text, note, /*allow_exceptions=*/false);
}

std::string member_text(const Json& member, const std::string& change) {
  const std::string after = member.at("after").dump();
  if (change == "added") return after;
  return fmt::format("{} -> {}", member.at("before").is_null() ? "-" : member.at("before").dump(),
                     member.at("after").is_null() ? "-" : after);
}

std::string changes_text(const Json& answer) {
  std::string text;
  for (const Json& change : answer.at("changes")) {
    const std::string word = text_at(change, "change");
    text += fmt::format("{} {}: {}\n", text_at(change, "kind"), text_at(change, "name"), word);
    for (const Json& member : change.at("members"))
      text += fmt::format("  {}: {}\n", text_at(member, "member"), member_text(member, word));
  }
  if (text.empty()) text = "Nothing changes: the configuration is like that already.\n";
  if (bool_at(answer, "dry_run")) text += "Nothing was changed: this was a dry run.\n";
  return text;
}

}  // namespace

Result<std::string> read_edits(const std::string& path, bool dry_run) {
  std::ifstream file(path);
  if (!file) return fail_errno(errno, "cannot read " + path);
  std::string text(kBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (!file.eof() && file.gcount() == 0)) return fail_errno(errno, "cannot read " + path);
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kBytesMax) return too_long(path);
  std::string twice;
  Json body = parse(text, twice);
  if (!body.is_object()) {
    return fail(
        fmt::format("{} is not a JSON object: write {{\"edits\": [{{\"method\": \"POST\", \"path\": "
                    "\"/v1/dvs\", \"body\": {{...}}}}]}}",
                    path));
  }
  if (!twice.empty()) {
    return fail(fmt::format("an object in {} has {} twice: write each member once, and all edits in one list",
                            path, twice));
  }
  if (dry_run) body["dry_run"] = true;
  std::string sent = body.dump();
  if (sent.size() > kBytesMax) return too_long(path);
  return sent;
}

Section apply_commands() {
  return {.namespaces = {},
          .commands = {{.words = "apply",
                        .help = "make all edits of a file or none of them, and print what they change",
                        .arguments = {{.name = "FILE",
                                       .positional = true,
                                       .kind = Kind::kFile,
                                       .help = "the edits, as POST /v1/batch takes them",
                                       .required = true},
                                      {.name = "dry-run",
                                       .kind = Kind::kFlag,
                                       .help = "only print what they would change",
                                       .constant = "true"}},
                        .method = Method::kPost,
                        .path = "/v1/batch",
                        .text = changes_text,
                        .transfer = Transfer::kEdits,
                        .file = "FILE"}}};
}

}  // namespace pvrdma::ctl
