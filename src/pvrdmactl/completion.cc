#include "pvrdmactl/completion.h"

#include <algorithm>
#include <fmt/core.h>
#include <map>
#include <string_view>
#include <vector>

namespace pvrdma::ctl {
namespace {

// The part that does not depend on the grammar. The three functions before it are made from the table.
constexpr std::string_view kEngine = R"bash(_pvrdmactl() {
  local current=${COMP_WORDS[COMP_CWORD]} words= word expects= i
  COMPREPLY=()
  # Bash makes a word of its own of the = in --option=value.
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == = ]]; then
      continue
    elif [[ -n $expects ]]; then
      expects=
    elif [[ $word == -* ]]; then
      expects=$(_pvrdmactl_values "$words" "$word")
    elif [[ -n $(_pvrdmactl_words "${words:+$words }$word") ]]; then
      words=${words:+$words }$word
    fi
  done
  [[ $current == = ]] && current=
  case $expects in
    '') ;;
    file) COMPREPLY=($(compgen -f -- "$current")); return ;;
    any) return ;;
    *) COMPREPLY=($(compgen -W "$expects" -- "$current")); return ;;
  esac
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$(_pvrdmactl_options "$words")" -- "$current"))
  else
    word=$(_pvrdmactl_words "$words")
    [[ $word == . ]] || COMPREPLY=($(compgen -W "$word" -- "$current"))
  fi
}

complete -F _pvrdmactl pvrdmactl esxcli
)bash";

// The words that can follow `words` in namespaces and commands, each once.
std::string next_words(const Grammar& grammar, std::string_view words) {
  std::vector<std::string> found;
  for (const Command& command : grammar.commands) {
    std::string_view rest = command.words;
    if (!words.empty()) {
      if (!rest.starts_with(words) || rest.size() <= words.size() || rest[words.size()] != ' ') continue;
      rest.remove_prefix(words.size() + 1);
    }
    std::string word(rest.substr(0, rest.find(' ')));
    if (std::ranges::find(found, word) == found.end()) found.push_back(std::move(word));
  }
  std::string text;
  for (const std::string& word : found) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string option_words(const std::vector<Argument>& arguments) {
  std::string text;
  for (const Argument& argument : arguments) {
    if (argument.positional || argument.hidden) continue;
    if (argument.letter != 0) text += fmt::format("-{} ", argument.letter);
    text += fmt::format("--{} ", argument.name);
  }
  if (!text.empty()) text.pop_back();
  return text;
}

// What completes an option's value; empty: it takes no value.
std::string values(const Argument& argument) {
  switch (argument.kind) {
    case Kind::kFlag:
      return "";
    case Kind::kFile:
      return "file";
    case Kind::kBool:
      return "true false";
    case Kind::kUpDown:
      return "up down";
    case Kind::kOnOff:
      return "on off";
    case Kind::kMemory:
      return "all";
    case Kind::kText:
    case Kind::kTexts:
    case Kind::kName:
    case Kind::kNumber:
    case Kind::kProbability:
      return "any";
    case Kind::kChoice:
      break;
  }
  std::string text;
  for (const std::string& choice : argument.choices) text += (text.empty() ? "" : " ") + choice;
  return text;
}

// A branch of `case "WORDS OPTION"`. `words` is "*" for the options of every command.
std::string value_branches(std::string_view words, const std::vector<Argument>& arguments) {
  std::string text;
  for (const Argument& argument : arguments) {
    if (argument.positional || argument.kind == Kind::kFlag) continue;
    const std::string before = words == "*" ? "*'" : fmt::format("'{}", words);
    std::string pattern = fmt::format("{} --{}'", before, argument.name);
    if (argument.letter != 0) pattern += fmt::format(" | {} -{}'", before, argument.letter);
    text += fmt::format("    {}) echo '{}' ;;\n", pattern, values(argument));
  }
  return text;
}

}  // namespace

std::string bash_completion(const Grammar& grammar) {
  std::string words = fmt::format("    '') echo '{}' ;;\n", next_words(grammar, ""));
  for (const Namespace& name : grammar.namespaces) {
    words += fmt::format("    '{}') echo '{}' ;;\n", name.words, next_words(grammar, name.words));
  }
  std::string options;
  std::string expected;
  for (const Command& command : grammar.commands) {
    words += fmt::format("    '{}') echo . ;;\n", command.words);  // the end: only arguments follow
    if (const std::string own = option_words(command.arguments); !own.empty()) {
      options += fmt::format("    '{}') echo '{}' ;;\n", command.words, own);
    }
    expected += value_branches(command.words, command.arguments);
  }
  expected += value_branches("*", grammar.globals);
  expected += value_branches("*", {host_option()});
  return fmt::format(
             "# Completion of pvrdmactl(1) for bash, as pvrdmactl --completion bash prints it.\n\n"
             "_pvrdmactl_words() {{\n  case $1 in\n{}  esac\n}}\n\n"
             "_pvrdmactl_options() {{\n  case $1 in\n{}  esac\n  echo '{}'\n}}\n\n"
             "_pvrdmactl_values() {{\n  case \"$1 $2\" in\n{}  esac\n}}\n\n",
             words, options, option_words(grammar.globals), expected) +
         std::string(kEngine);
}

}  // namespace pvrdma::ctl
