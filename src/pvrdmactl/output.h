// The API's answers: what pvrdmactl prints of them, and what it takes from them for the next request. Thread:
// any.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

enum class Format : std::uint8_t { kText, kJson };

// `answer` is the JSON text that the command's request was answered with. Errors: it is not what this version
// expects (another version of the daemon); Command::select's own.
Result<std::string> show(const Command& command, const Values& values, const std::string& answer,
                         Format format);

// Runs Command::complete with `get`, which gives the answer to GET of a path. Errors: `get`'s; an answer is
// not what this version expects; Command::complete's own.
using Get = std::function<Result<std::string>(const std::string& path)>;
Result<void> complete(const Command& command, Values& values, const Get& get);

// Runs Command::compose the same way: the JSON text that show() takes for an answer.
Result<std::string> compose(const Command& command, const Values& values, const Get& get);

// The sentence of a refusal, or one that names the HTTP status when there is none.
std::string error_sentence(const std::string& answer, int status);

}  // namespace pvrdma::ctl
