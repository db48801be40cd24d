// parse(): parses a command line by the grammar. Pure: reads no environment, prints nothing. Thread: any.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

// The result of a command line.
struct Invocation {
  // Null: the program prints `text` and ends; if `incomplete`, with the exit status of a mistake.
  const Command* command = nullptr;
  Values values;   // of the command's arguments, including fallbacks
  Values globals;  // given values of Grammar::globals
  std::string text{};
  bool incomplete = false;  // only the words of a namespace were given; `text` lists its contents
};

// `program` is the name by which the program was called. Errors, each one sentence that points to the help:
// what is wrong with the words, an option or a value.
Result<Invocation> parse(std::string_view program, std::span<const std::string> arguments);

// A value of this kind in its canonical form ("yes" becomes "true"). The error says what is wrong with it.
Result<std::string> checked_value(const Argument& argument, const std::string& value);

}  // namespace pvrdma::ctl
