#include "pvrdmactl/output.h"

#include <algorithm>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clean_text.h"
#include "pvrdmactl/formatter.h"
#include "pvrdmactl/guarded.h"

namespace pvrdma::ctl {
namespace {

constexpr int kJsonIndent = 2;

// A name or sentence with a line break could forge a row of a table, so each string is one line.
void clean_strings(Json& json) {
  if (json.is_string()) json = clean_text(json.get_ref<const std::string&>());
  if (json.is_structured()) {
    for (Json& each : json) clean_strings(each);
  }
}

Ask parsing(const Get& get) {
  return [&get](const std::string& path) -> Result<Json> {
    const auto answer = get(path);
    if (!answer) return Failure(answer.error());
    return Json::parse(*answer);
  };
}

std::string table_text(const Command& command, const Table& table, Format format) {
  switch (format) {
    case Format::kCsv:
      return csv_of(table);
    case Format::kTableJson:
      return json_of(table).dump(kJsonIndent, ' ', true) + "\n";
    case Format::kKeyValue:
      return key_values_of(table, structure_name(command.words));
    case Format::kXml:
      return xml_of(table, structure_name(command.words));
    case Format::kText:
    case Format::kApiJson:
      break;
  }
  return table.text();
}

}  // namespace

Format format_of(const Values& globals) {
  if (globals.contains("json")) return Format::kApiJson;
  const auto formatter = globals.find("formatter");
  if (formatter == globals.end()) return Format::kText;
  static const std::map<std::string, Format, std::less<>> kFormats{{"csv", Format::kCsv},
                                                                   {"json", Format::kTableJson},
                                                                   {"keyvalue", Format::kKeyValue},
                                                                   {"xml", Format::kXml}};
  return kFormats.at(formatter->second);
}

Result<std::string> show(const Command& command, const Values& values, const std::string& answer,
                         Format format) {
  return guarded([&]() -> Result<std::string> {
    Json json = Json::parse(answer);
    if (command.select != nullptr) {
      auto selected = command.select(std::move(json), values);
      if (!selected) return Failure(std::move(selected).error());
      json = *std::move(selected);
    }
    const bool is_shown = command.table != nullptr || command.text != nullptr;
    if (format == Format::kApiJson ||
        (format == Format::kTableJson && is_shown && command.table == nullptr)) {
      return json.dump(kJsonIndent, ' ', true) + "\n";  // in ASCII
    }
    if (!is_shown) return "";
    if (!command.has_multiline_text && format != Format::kTableJson) clean_strings(json);
    const std::string text =
        command.table == nullptr ? command.text(json) : table_text(command, command.table(json), format);
    return clean_text(text, Newlines::kKept);  // keys are strings, too
  });
}

std::string note_of(const Command& command, const std::string& answer) {
  if (command.note == nullptr) return "";
  return guarded([&]() -> Result<std::string> { return command.note(Json::parse(answer)); }).value_or("");
}

Result<void> complete(const Command& command, Values& values, const Get& get) {
  if (command.complete == nullptr) return {};
  return guarded([&]() -> Result<void> { return command.complete(values, parsing(get)); });
}

Result<std::string> compose(const Command& command, const Values& values, const Get& get) {
  return guarded([&]() -> Result<std::string> {
    const auto answer = command.compose(values, parsing(get));
    if (!answer) return Failure(answer.error());
    return answer->dump();
  });
}

std::string in_users_words(const Command& command, std::string sentence) {
  for (const Argument& argument : command.arguments) {
    if (argument.member.empty()) continue;
    std::string member = argument.member.substr(1);  // a JSON pointer; the API writes "adapter.mac"
    std::ranges::replace(member, '/', '.');
    const std::string in_body = fmt::format("the body's \"{}\"", member);
    if (const auto start = sentence.find(in_body); start != std::string::npos) {
      return sentence.replace(start, in_body.size(), written(argument));
    }
  }
  return sentence;
}

std::string error_sentence(const std::string& answer, int status) {
  const auto sentence =
      guarded([&]() -> Result<std::string> { return Json::parse(answer).at("error").get<std::string>(); });
  return sentence ? *sentence : fmt::format("the daemon answered with HTTP status {}", status);
}

}  // namespace pvrdma::ctl
