#include "pvrdmad/flags.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fmt/core.h>
#include <string>
#include <utility>

namespace pvrdma::daemon {

Parsed parse_flags(int argc, char** argv, std::string_view version) {
  Flags flags;
  control::ConfigSources& sources = flags.sources;
  CLI::App app("pvrdmad: serves PVRDMA adapters to virtual machines over vfio-user.", "pvrdmad");
  app.set_version_flag("--version", fmt::format("pvrdmad {}", version), "print the version and exit");
  app.set_help_flag("-h,--help", "print this text and exit");
  app.add_option("--config", sources.file, "configuration file, see pvrdmad.toml(5)")->option_text("FILE");
  app.add_option("--adapter", sources.adapter_flags,
                 "one more adapter, such as name=VM-01,socket=PATH,mac=52:54:00:12:34:51,hw=14; the keys are "
                 "those of "
                 "[[adapter]] in pvrdmad.toml(5); may be repeated")
      ->option_text("KEY=VALUE,...")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  control::CiSource ci;
  CLI::Option* const ci_option = app.add_option("--ci", ci.adapters,
                                                "serve this many adapters for processes of this user: node0, "
                                                "node1 ...; without any client for a "
                                                "minute, the daemon ends")
                                     ->option_text("NUMBER");
  CLI::Option* const runtime_option =
      app.add_option("--runtime", ci.folder, "with --ci: the folder of the sockets")
          ->option_text("FOLDER")
          ->needs(ci_option);
  ci_option->needs(runtime_option);
  app.add_option("--roce-link", sources.roce_links,
                 "link for the RoCE frames of the adapters: tap:DEVICE, xdp:DEVICE or stream:PATH")
      ->option_text("KIND:NAME")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--api-socket", sources.api_socket,
                 "where pvrdmactl finds the daemon (/run/pvrdma/api.sock)")
      ->option_text("PATH");
  app.add_option("--log-level", sources.log_level, "debug, info, warn or error (info)")->option_text("LEVEL");
  app.add_option("--log-format", sources.log_format,
                 "text, journal or json (journal if standard error is systemd's journal, otherwise text)")
      ->option_text("FORMAT");
  app.add_option("--dedicated-core", sources.dedicated_core,
                 "dedicate this core to the thread of the adapters (none)")
      ->option_text("CORE");
  app.add_option("--shards", sources.shards,
                 "how many threads serve the adapters: 1 to 16, or auto, one for 8 cores (auto)")
      ->option_text("NUMBER");
  app.add_flag("--shard-balancing", sources.shard_balancing,
               "move adapters from a busy thread to an idle one, one a minute at most");
  app.add_flag("--ward", sources.ward, "have one more thread, for adapters that delay others");
  app.add_flag("--fault-injection", sources.fault_injection,
               "pvrdmactl may inject faults into the adapters' traffic, for tests");
  app.add_flag("--check", flags.check_only, "check the configuration and exit");
  app.footer("Exit codes: 0 stopped by a signal; 2 it cannot start: the reason is on standard error.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    return Parsed{std::nullopt, app.exit(wanted)};
  } catch (const CLI::ParseError& mistake) {
    fmt::print(stderr, "pvrdmad: {}: see pvrdmad --help\n", mistake.what());
    return Parsed{std::nullopt, kExitMistake};
  }
  if (ci_option->count() != 0) sources.ci = std::move(ci);
  if (!sources.file && !sources.ci && sources.adapter_flags.empty()) {
    fmt::print(
        stderr,
        "pvrdmad: there is nothing to serve: give --config FILE, --adapter or --ci: see pvrdmad --help\n");
    return Parsed{std::nullopt, kExitMistake};
  }
  return Parsed{std::move(flags), 0};
}

}  // namespace pvrdma::daemon
