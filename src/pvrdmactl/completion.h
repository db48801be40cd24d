// suggest(): what can come next on a command line, for the completion of a shell. completion_script(): the
// script that makes a shell ask for it, by `pvrdmactl --complete WORD ... CURRENT`. Thread: any.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

struct Suggestion {
  std::string word;
  std::string help;  // may be empty
};

struct Suggestions {
  std::vector<Suggestion> words;  // those that begin with the current word
  bool files = false;             // names of files are possible, too
};

// `words` are those after the program's name. The last is the current one, possibly empty. Names of hosts,
// VMs and the like are asked of `ask`; if it fails, they are left out. Bash's way of splitting --option=value
// in three words is understood, too.
Suggestions suggest(const Grammar& grammar, std::span<const std::string> words, const Ask& ask);

// The global options among `words`, for choosing the daemon to ask.
Values given_globals(const Grammar& grammar, std::span<const std::string> words);

// A line "WORD<tab>HELP" for each suggestion, and a line ":files".
std::string suggestion_lines(const Suggestions& suggestions);

// `shell` is bash, fish or zsh. The build writes each script to a file beside the program, which is
// installed.
std::string_view completion_script(std::string_view shell);

}  // namespace pvrdma::ctl
