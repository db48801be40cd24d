// parse(): the words of a command line, by the grammar. Pure: reads no environment, prints nothing.
// Thread: any.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

// What is asked for.
struct Invocation {
  // Null: print `text` and do no more; with `incomplete` as a mistake.
  const Command* command = nullptr;
  Values values;   // of the command's arguments, fallbacks included
  Values globals;  // of Grammar::globals, those given
  std::string text{};
  bool incomplete = false;  // only a namespace's words were given: `text` lists what is in it
};

// `program` is the name the program was called by. Errors, one sentence each with the way to help: what is
// wrong with the words, an option or a value.
Result<Invocation> parse(std::string_view program, std::span<const std::string> arguments);

// A value of this kind, in its one form ("yes" becomes "true"). Error: what is wrong with it.
Result<std::string> checked_value(const Argument& argument, const std::string& value);

}  // namespace pvrdma::ctl
