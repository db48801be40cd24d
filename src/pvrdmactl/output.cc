#include "pvrdmactl/output.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clean_text.h"

namespace pvrdma::ctl {
namespace {

constexpr int kJsonIndent = 2;

// The library throws if a field is missing or of another type. No such exception leaves this file.
template <typename Work>
auto guarded(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const Json::exception& error) {
    return fail(fmt::format(
        "the daemon's answer is not what this pvrdmactl expects: are they of the same version? ({})",
        error.what()));
  }
}

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

}  // namespace

Result<std::string> show(const Command& command, const Values& values, const std::string& answer,
                         Format format) {
  return guarded([&]() -> Result<std::string> {
    Json json = Json::parse(answer);
    if (command.select != nullptr) {
      auto selected = command.select(std::move(json), values);
      if (!selected) return Failure(std::move(selected).error());
      json = *std::move(selected);
    }
    if (format == Format::kJson) return json.dump(kJsonIndent, ' ', true) + "\n";  // in ASCII
    if (command.text == nullptr) return "";
    if (!command.has_multiline_text) clean_strings(json);
    return clean_text(command.text(json), Newlines::kKept);  // keys are strings, too
  });
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

std::string error_sentence(const std::string& answer, int status) {
  const auto sentence =
      guarded([&]() -> Result<std::string> { return Json::parse(answer).at("error").get<std::string>(); });
  return sentence ? *sentence : fmt::format("the daemon answered with HTTP status {}", status);
}

}  // namespace pvrdma::ctl
