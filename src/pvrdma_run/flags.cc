#include "pvrdma_run/flags.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fmt/core.h>
#include <string>
#include <utility>

#include "pvrdma_run/services.h"

namespace pvrdma::run {
namespace {

Parsed mistake(std::string_view what) {
  fmt::print(stderr, "pvrdma-run: {}: see pvrdma-run --help\n", what);
  return Parsed{std::nullopt, kExitNotStarted};
}

}  // namespace

Parsed parse_flags(int argc, char** argv, std::string_view version) {
  Flags flags;
  CLI::App app("pvrdma-run: runs a program with an RDMA device, without root, kernel module or hardware.",
               "pvrdma-run");
  app.set_version_flag("--version", fmt::format("pvrdma-run {}", version), "print the version and exit");
  app.set_help_flag("-h,--help", "print this text and exit");
  auto* const node =
      app.add_option("--node", flags.node,
                     "the device's machine, 0 to 7: programs of two nodes reach each other (0)")
          ->option_text("NUMBER")
          ->check(CLI::Range(0U, kNodes - 1));
  auto* const adapter =
      app.add_option("--adapter", flags.adapter, "an adapter of the configured daemon instead")
          ->option_text("NAME")
          ->excludes(node);
  app.add_option("--daemon", flags.api_socket, "the API socket of that daemon (/run/pvrdma/api.sock)")
      ->option_text("SOCKET")
      ->needs(adapter);
  app.add_option("--address", flags.addresses,
                 "IP address of the device, a GID of its port; may be repeated (10.99.0.1 for node 0, "
                 "10.99.0.2 for node 1 ...)")
      ->option_text("ADDRESS")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option(
         "--gateway-mac", flags.gateway_mac,
         "MAC address of the router to native endpoints that are on no link of this host (that of the "
         "host's own router)")
      ->option_text("MAC");
  const std::pair<const char*, std::pair<Action, const char*>> actions[] = {
      {"--start", {Action::kStart, "start what the node needs, until --stop"}},
      {"--stop", {Action::kStop, "end the daemon and the stand-ins of this user"}},
      {"--list", {Action::kList, "list the nodes that run"}},
      {"--env", {Action::kEnvironment, "as --start, and print the environment of programs for a shell"}},
      {"--check", {Action::kCheck, "try everything that programs need, and say what is missing"}}};
  auto* const group = app.add_option_group("Instead of a command");
  group->require_option(0, 1);
  for (const auto& [name, action] : actions) {
    group->add_flag_callback(
        name, [&flags, wanted = action.first] { flags.action = wanted; }, action.second);
  }
  app.prefix_command();  // all after the first word that is no option is COMMAND
  app.footer("Exit codes: those of COMMAND; 125: it was not started, the reason is on standard error.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    return Parsed{std::nullopt, app.exit(wanted)};
  } catch (const CLI::ParseError& error) {
    return mistake(error.what());
  }
  flags.command = app.remaining();
  if (!flags.command.empty() && flags.command.front() == "--") flags.command.erase(flags.command.begin());
  if (flags.action == Action::kRun && flags.command.empty()) return mistake("there is no command to run");
  if (!flags.command.empty() && flags.command.front().starts_with('-'))
    return mistake(fmt::format("{} is no option", flags.command.front()));
  if (flags.action != Action::kRun && !flags.command.empty())
    return mistake(fmt::format("\"{}\" is not wanted: no command is run", flags.command.front()));
  return Parsed{std::move(flags), 0};
}

}  // namespace pvrdma::run
