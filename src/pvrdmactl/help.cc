#include "pvrdmactl/help.h"

#include <algorithm>
#include <fmt/core.h>
#include <vector>

namespace pvrdma::ctl {
namespace {

constexpr std::size_t kNameWidthMin = 20;

struct Entry {
  std::string name;
  std::string help;
};

std::string list(std::string_view title, const std::vector<Entry>& entries) {
  if (entries.empty()) return "";
  std::size_t width = kNameWidthMin;
  for (const Entry& entry : entries) width = std::max(width, entry.name.size());
  std::string text = fmt::format("\n{}:\n", title);
  for (const Entry& entry : entries) text += fmt::format("  {:<{}}  {}\n", entry.name, width, entry.help);
  return text;
}

// "device" if `words` is directly below "rdma"; otherwise empty.
std::string_view child(std::string_view words, std::string_view of) {
  if (!of.empty()) {
    if (!words.starts_with(of) || words.size() <= of.size() + 1 || words[of.size()] != ' ') return "";
    words.remove_prefix(of.size() + 1);
  }
  return words.find(' ') == std::string_view::npos ? words : "";
}

template <typename Items>
std::vector<Entry> children(const Items& items, std::string_view of) {
  std::vector<Entry> entries;
  for (const auto& item : items) {
    if (const auto word = child(item.words, of); !word.empty())
      entries.push_back({std::string(word), item.help});
  }
  return entries;
}

std::vector<Entry> entries(const std::vector<Argument>& arguments, bool positional) {
  std::vector<Entry> found;
  for (const Argument& argument : arguments) {
    if (argument.positional == positional && !argument.hidden) {
      found.push_back({described(argument), explained(arguments, argument)});
    }
  }
  return found;
}

std::string command_help(const Grammar& grammar, std::string_view program, const Command& command) {
  std::vector<Argument> globals = grammar.globals;
  std::erase_if(globals, [&command](const Argument& argument) {
    // The command's own argument takes precedence.
    return find_argument(command.arguments, argument.name) != nullptr;
  });
  std::string usage = fmt::format("Usage: {} {}", program, command.words);
  for (const Argument& argument : command.arguments) {
    if (!argument.positional) continue;
    const bool needed = argument.required && rivals(command.arguments, argument).size() == 1;
    usage += (needed ? " " : " [") + argument.name + (needed ? "" : "]");
  }
  return fmt::format("{} [cmd options]\n\nDescription:\n  {}\n", usage, command.help) +
         list("Arguments", entries(command.arguments, true)) +
         list("Cmd options", entries(command.arguments, false)) + list("Options", entries(globals, false));
}

}  // namespace

std::string help(const Grammar& grammar, std::string_view program, std::string_view words) {
  if (const Command* command = grammar.command(words)) return command_help(grammar, program, *command);
  const std::string prefix = words.empty() ? "" : fmt::format("{} ", words);
  std::string text = fmt::format("Usage: {} [options] {}{{cmd}} [cmd options]\n", program, prefix) +
                     list("Available Namespaces", children(grammar.namespaces, words)) +
                     list("Available Commands", children(grammar.commands, words));
  if (!words.empty()) return text;
  return text + list("Options", entries(grammar.globals, false)) +
         "\nExit codes: 0 done; 1 the daemon refuses or cannot be reached; 2 a mistake on the command "
         "line.\n";
}

}  // namespace pvrdma::ctl
