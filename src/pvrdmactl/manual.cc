#include "pvrdmactl/manual.h"

#include <cctype>
#include <fmt/core.h>

namespace pvrdma::ctl {
namespace {

// "Make a host a member." of "make a host a member".
std::string sentence(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text + ".\n";
}

std::string value_of(const Argument& argument) {
  return argument.kind == Kind::kFlag ? "" : fmt::format(" Ar {}", placeholder(argument));
}

// "Fl r , -ruleset-id Ar str" or "Ar NAME".
std::string in_list(const Argument& argument) {
  if (argument.positional) return "Ar " + argument.name;
  const std::string letter = argument.letter == 0 ? "" : fmt::format("{} , ", argument.letter);
  return fmt::format("Fl {}-{}{}", letter, argument.name, value_of(argument));
}

// Like in_list(), but with one name, as a synopsis needs it.
std::string in_synopsis(const Argument& argument) {
  return argument.positional ? "Ar " + argument.name
                             : fmt::format("Fl -{}{}", argument.name, value_of(argument));
}

// Lines of `.Xo`: "Ar NAME", "Op Fl -host Ar str", "Ar ID | Fl -adapter Ar str". Rivals share a line.
std::string synopsis(const Command& command) {
  std::string lines;
  for (const bool positional : {true, false}) {
    for (const Argument& argument : command.arguments) {
      const auto group = rivals(command.arguments, argument);
      if (group.front() != &argument || argument.positional != positional) continue;
      std::string choices;
      for (const Argument* one : group) choices += (choices.empty() ? "" : " | ") + in_synopsis(*one);
      lines += fmt::format(".{}{}\n", argument.required ? "" : "Op ", choices);
    }
  }
  return lines;
}

std::string part(const std::string& name, const std::string& text) {
  return fmt::format(".\\\" generated: {}\n{}.\\\" end\n", name, text);
}

std::string command_part(const Command& command) {
  const std::string lines = synopsis(command);
  std::string text = lines.empty() ? fmt::format(".It Cm {}\n", command.words)
                                   : fmt::format(".It Xo\n.Cm {}\n{}.Xc\n", command.words, lines);
  text += sentence(command.help);
  if (!command.arguments.empty()) {
    text += ".Bl -tag -width Ds -compact\n";
    for (const Argument& argument : command.arguments) {
      text += fmt::format(".It {}\n{}", in_list(argument), sentence(explained(command.arguments, argument)));
    }
    text += ".El\n";
  }
  return part(command.words, text);
}

}  // namespace

std::string manual(const Grammar& grammar) {
  std::string text;
  for (const Argument& option : grammar.globals) {
    if (option.hidden) continue;
    text += part(written(option), fmt::format(".It {}\n{}", in_list(option), sentence(option.help)));
  }
  for (const Command& command : grammar.commands) text += command_part(command);
  return text;
}

}  // namespace pvrdma::ctl
