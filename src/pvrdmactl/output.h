// The API's answers: the text that pvrdmactl prints, and the values that it takes from them for the next
// request. Thread: any.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

enum class Format : std::uint8_t {
  kText,
  kApiJson,  // the API's answer, or the part of it that the command shows
  kCsv,      // kCsv and the following are esxcli's forms of a Table (formatter.h)
  kTableJson,
  kKeyValue,
  kXml,
};
// What --json and --formatter ask for.
Format format_of(const Values& globals);

// `answer` is the JSON text of the answer to the command's request. Errors: this version does not expect the
// answer (the daemon has another version); those of Command::select. A command without a table has no other
// form than text and JSON.
Result<std::string> show(const Command& command, const Values& values, const std::string& answer,
                         Format format);

// Runs Command::note. Empty also if this version does not expect the answer.
std::string note_of(const Command& command, const std::string& answer);

// Runs Command::complete. `get` returns the answer to GET of a path. Errors: those of `get`; an unexpected
// answer; those of Command::complete.
using Get = std::function<Result<std::string>(const std::string& path)>;
Result<void> complete(const Command& command, Values& values, const Get& get);

// Runs Command::compose in the same way. Returns the JSON text that show() takes as an answer.
Result<std::string> compose(const Command& command, const Values& values, const Get& get);

// An error of the daemon with the names that its API gives to a request's members ("the body's "uplinks"")
// replaced by those of the command line ("--uplinks").
std::string in_users_words(const Command& command, std::string sentence);

// The sentence of a refusal, or a sentence with the HTTP status if the answer has none.
std::string error_sentence(const std::string& answer, int status);

}  // namespace pvrdma::ctl
