#include "pvrdmactl/grammar.h"

#include <algorithm>
#include <fmt/core.h>
#include <iterator>
#include <utility>

namespace pvrdma::ctl {
namespace {

std::vector<Argument> global_options() {
  return {
      {.name = "api", .kind = Kind::kFile, .help = "the daemon's API socket", .shows = "socket"},
      {.name = "server",
       .kind = Kind::kText,
       .help = "a daemon's API by TLS instead, https://HOST:PORT",
       .shows = "url"},
      {.name = "token-file", .kind = Kind::kFile, .help = "the file with the bearer token for --server"},
      {.name = "ca",
       .kind = Kind::kFile,
       .help = "CA certificates that verify --server; default: the system's"},
      {.name = "json",
       .kind = Kind::kFlag,
       .help = "print the API's answer, which is JSON, for machines",
       .constant = "true"},
      {.name = "formatter",
       .kind = Kind::kChoice,
       .help = "print as esxcli does for machines: csv, json, keyvalue or xml",
       .shows = "form",
       .choices = {"csv", "json", "keyvalue", "xml"}},
      {.name = "completion",
       .kind = Kind::kChoice,
       .help = "print the script that completes commands in bash, fish or zsh and exit",
       .shows = "shell",
       .choices = {"bash", "fish", "zsh"}},
      {.name = "manual",
       .kind = Kind::kFlag,
       .help = "print the generated parts of the manual page and exit",
       .constant = "true",
       .hidden = true},
      {.name = "version",
       .kind = Kind::kFlag,
       .help = "print the version of pvrdmactl and exit",
       .constant = "true"},
      {.letter = 'h',
       .name = "help",
       .kind = Kind::kFlag,
       .help = "print what the command takes, or what can follow the words, and exit",
       .constant = "true"},
  };
}

Grammar make_grammar() {
  Grammar made;
  made.globals = global_options();
  for (Section section : {rdma_commands(), network_commands(), system_commands(), shard_commands(),
                          dvs_commands(), vm_commands(), host_commands(), adapter_commands(),
                          capture_commands(), fault_commands(), motion_commands(), hca_commands(),
                          doctor_commands(), support_commands(), apply_commands(), event_commands()}) {
    std::ranges::move(section.namespaces, std::back_inserter(made.namespaces));
    std::ranges::move(section.commands, std::back_inserter(made.commands));
  }
  return made;
}

}  // namespace

const Command* Grammar::command(std::string_view words) const {
  const auto found = std::ranges::find(commands, words, &Command::words);
  return found == commands.end() ? nullptr : &*found;
}

const Namespace* Grammar::name_space(std::string_view words) const {
  const auto found = std::ranges::find(namespaces, words, &Namespace::words);
  return found == namespaces.end() ? nullptr : &*found;
}

const Grammar& grammar() {
  static const Grammar kGrammar = make_grammar();
  return kGrammar;
}

std::string written(const Argument& argument) {
  return argument.positional ? argument.name : "--" + argument.name;
}

std::string described(const Argument& argument) {
  if (argument.positional) return argument.name;
  const std::string value = argument.kind == Kind::kFlag ? "" : fmt::format("=<{}>", placeholder(argument));
  return argument.letter == 0 ? fmt::format("--{}{}", argument.name, value)
                              : fmt::format("-{}|--{}{}", argument.letter, argument.name, value);
}

std::string placeholder(const Argument& argument) {
  if (!argument.shows.empty()) return argument.shows;
  switch (argument.kind) {
    case Kind::kText:
    case Kind::kTexts:
    case Kind::kName:
      return "str";
    case Kind::kNumber:
      return "long";
    case Kind::kMemory:
      return "MiB|all";
    case Kind::kProbability:
      return "0..1";
    case Kind::kBool:
      return "bool";
    case Kind::kUpDown:
      return "up|down";
    case Kind::kOnOff:
      return "on|off";
    case Kind::kFile:
      return "file";
    case Kind::kFlag:
      return "";
    case Kind::kChoice:
      break;
  }
  std::string text;
  for (const std::string& choice : argument.choices) text += (text.empty() ? "" : "|") + choice;
  return text;
}

std::vector<const Argument*> rivals(const std::vector<Argument>& arguments, const Argument& argument) {
  std::vector<const Argument*> found;
  for (const Argument& other : arguments) {
    if (&other == &argument || (!argument.member.empty() && other.member == argument.member)) {
      found.push_back(&other);
    }
  }
  return found;
}

std::string explained(const std::vector<Argument>& arguments, const Argument& argument) {
  std::string text = argument.help;
  if (!argument.needs.empty()) text += fmt::format(" (only with --{})", argument.needs);
  const bool is_needed = argument.required && rivals(arguments, argument).size() == 1;
  return is_needed && !argument.positional ? text + " (required)" : text;
}

const Argument* find_argument(const std::vector<Argument>& arguments, std::string_view name) {
  const auto found = std::ranges::find(arguments, name, &Argument::name);
  return found == arguments.end() ? nullptr : &*found;
}

Argument host_option() {
  return {.letter = 'H',
          .name = "host",
          .help = "the host; default: the daemon's own",
          .fallback = "self",
          .names = Names::kHosts};
}

Argument other_host() {
  return {.letter = 'H',
          .name = "host",
          .help = "the host whose daemon is asked, by way of this one; default: the daemon's own",
          .names = Names::kHosts};
}

Argument named(std::string name, std::string help, Names names) {
  return {
      .name = std::move(name), .positional = true, .help = std::move(help), .required = true, .names = names};
}

}  // namespace pvrdma::ctl
