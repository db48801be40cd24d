#include "pvrdma_standin/flags.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fmt/core.h>
#include <map>
#include <string>
#include <vector>

#include "base/socket_owner.h"

namespace pvrdma::standin {
namespace {

struct Texts {
  std::vector<std::string> addresses;
  std::string group;
  std::string gateway_mac;
  std::string log = "info";
  std::uint32_t idle_s = 0;
};

const std::map<std::string, log::Level> kLevels = {{"debug", log::Level::kDebug},
                                                   {"info", log::Level::kInfo},
                                                   {"warn", log::Level::kWarn},
                                                   {"error", log::Level::kError}};

Result<void> take(const Texts& texts, Flags& flags) {
  for (const std::string& text : texts.addresses) {
    const auto address = IpAddress::parse(text);
    if (!address) return Failure(Error(address.error()).in("--address " + text));
    flags.options.addresses.push_back(*address);
  }
  const auto group = find_group(texts.group);
  if (!group) return Failure(Error(group.error()).in("--group " + texts.group));
  flags.options.group = *group;
  if (!texts.gateway_mac.empty()) {
    const auto mac = abi::Mac::parse(texts.gateway_mac);
    if (!mac || !mac->is_unicast())
      return fail(fmt::format("--gateway-mac {} is no MAC address of an interface", texts.gateway_mac));
    flags.options.gateway_mac = *mac;
  }
  if (texts.idle_s != 0) flags.options.idle_end = std::chrono::seconds(texts.idle_s);
  const auto level = kLevels.find(texts.log);
  if (level == kLevels.end())
    return fail(fmt::format("--log {}: choose debug, info, warn or error", texts.log));
  flags.log_level = level->second;
  return {};
}

}  // namespace

Parsed parse_flags(int argc, char** argv, std::string_view version) {
  Flags flags;
  Texts texts;
  bool no_sandbox = false;
  CLI::App app("pvrdma-standin: lets ordinary processes use one PVRDMA adapter, without a virtual machine.",
               "pvrdma-standin");
  app.set_version_flag("--version", fmt::format("pvrdma-standin {}", version), "print the version and exit");
  app.set_help_flag("-h,--help", "print this text and exit");
  app.add_option("--socket", flags.options.socket, "the adapter's vfio-user socket")
      ->option_text("PATH")
      ->required();
  app.add_option("--folder", flags.options.folder,
                 "folder for the programs' socket and for the device's files")
      ->option_text("DIRECTORY")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--address", texts.addresses,
                 "IP address of the adapter, a GID of its port; may be repeated")
      ->option_text("ADDRESS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option(
         "--gateway-mac", texts.gateway_mac,
         "MAC address of the router to native endpoints that are on no link of this host (that of the "
         "host's own router)")
      ->option_text("MAC");
  app.add_option("--group", texts.group, "group whose users may use the adapter, too (none)")
      ->option_text("GROUP");
  app.add_option("--idle-end", texts.idle_s, "end when no process has used the adapter for so long (never)")
      ->option_text("SECONDS");
  app.add_option("--log", texts.log, "debug, info, warn or error (info)")->option_text("LEVEL");
  app.add_flag("--no-sandbox", no_sandbox, "do not confine the process, for debuggers");
  app.footer(
      "Exit codes: 0 stopped by a signal, or idle; 2 it cannot start: the reason is on standard error; 3 the "
      "daemon or the adapter is gone.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    return Parsed{std::nullopt, app.exit(wanted)};
  } catch (const CLI::ParseError& mistake) {
    fmt::print(stderr, "pvrdma-standin: {}: see pvrdma-standin --help\n", mistake.what());
    return Parsed{std::nullopt, kExitMistake};
  }
  if (auto taken = take(texts, flags); !taken) {
    fmt::print(stderr, "pvrdma-standin: {}\n", taken.error().message);
    return Parsed{std::nullopt, kExitMistake};
  }
  flags.sandbox = !no_sandbox;
  return Parsed{std::move(flags), 0};
}

}  // namespace pvrdma::standin
