// pvrdmactl: command line and output. It knows the daemon only through its HTTP API (control/api_server.h).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fmt/core.h>
#include <functional>
#include <string>
#include <utility>

#include "base/result.h"
#include "pvrdmactl/api_client.h"
#include "pvrdmactl/views.h"

namespace pvrdma::ctl {
namespace {

// As documented in pvrdmactl(1).
constexpr int kExitDone = 0;
constexpr int kExitFailed = 1;  // the daemon refuses or cannot be reached
constexpr int kExitUsage = 2;

using View = std::function<Result<std::string>(const std::string&)>;

struct Query {
  std::string path;
  View text;
  View json = json_view;
  std::string body{};  // empty: GET; otherwise PUT
};

struct Arguments {
  std::string socket = "/run/pvrdma/api.sock";
  bool json = false;
  std::string adapter;
  std::string link;
  Query query;
};

std::string with_adapter(const std::string& path, const std::string& adapter) {
  return adapter.empty() ? path : path + "?adapter=" + adapter;
}

// What becomes part of a request's path must not be able to change it.
std::string check_name(const std::string& name) {
  const bool plain = !name.empty() && name.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789._-") == std::string::npos;
  return plain ? "" : "\"" + name + "\" is no adapter's name";
}

void add_commands(CLI::App& app, Arguments& arguments) {
  CLI::App* adapter = app.add_subcommand("adapter", "PVRDMA adapters");
  adapter->add_subcommand("list", "list the adapters")->callback([&arguments] {
    arguments.query = {"/v1/adapters", adapter_list_view};
  });
  CLI::App* adapter_get = adapter->add_subcommand("get", "show one adapter");
  adapter_get->add_option("NAME", arguments.adapter, "the adapter's name")->required()->check(check_name, "");
  adapter_get->callback([&arguments] {
    arguments.query = {"/v1/adapters/" + arguments.adapter, adapter_view};
  });

  CLI::App* adapter_set = adapter->add_subcommand("set", "change one adapter");
  adapter_set->add_option("NAME", arguments.adapter, "the adapter's name")->required()->check(check_name, "");
  adapter_set->add_option("--link", arguments.link, "its link to the switch: up or down")
      ->required()
      ->check(CLI::IsMember({"up", "down"}))
      ->option_text("up|down");
  adapter_set->callback([&arguments] {
    arguments.query = {"/v1/adapters/" + arguments.adapter + "/link", adapter_view, json_view,
                       arguments.link == "up" ? R"({"up": true})" : R"({"up": false})"};
  });

  CLI::App* qp = app.add_subcommand("qp", "queue pairs");
  CLI::App* qp_list = qp->add_subcommand("list", "list the queue pairs and their paths");
  qp_list->add_option("--adapter", arguments.adapter, "only this adapter's")
      ->check(check_name, "")
      ->option_text("NAME");
  qp_list->callback([&arguments] {
    arguments.query = {with_adapter("/v1/qps", arguments.adapter), qp_list_view};
  });

  CLI::App* stats = app.add_subcommand("stats", "show the counters that are not 0");
  stats->add_option("--adapter", arguments.adapter, "only this adapter's")
      ->check(check_name, "")
      ->option_text("NAME");
  stats->callback([&arguments] {
    arguments.query = {with_adapter("/v1/stats", arguments.adapter), stats_view};
  });

  app.add_subcommand("version", "show the versions of pvrdmactl and of the daemon")->callback([&arguments] {
    arguments.query = {"/v1/version",
                       [](const std::string& json) { return version_view(json, PVRDMA_VERSION); },
                       [](const std::string& json) { return version_json_view(json, PVRDMA_VERSION); }};
  });
}

int fail_with(const Error& error) {
  fmt::print(stderr, "pvrdmactl: {}\n", error.message);
  return kExitFailed;
}

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("pvrdmactl: asks the PVRDMA daemon of this host.", "pvrdmactl");
  app.set_version_flag("--version", fmt::format("pvrdmactl {}", PVRDMA_VERSION),
                       "print the version and exit");
  app.set_help_flag("-h,--help", "print this text and exit");
  app.add_option("--api", arguments.socket, "the daemon's API socket")
      ->envname("PVRDMA_API")
      ->capture_default_str()
      ->option_text("SOCKET");
  app.add_flag("--json", arguments.json, "print JSON, for machines");
  app.fallthrough();
  app.footer(
      "Exit codes: 0 done; 1 the daemon refuses or cannot be reached; 2 a mistake on the command line.");
  add_commands(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    return app.exit(wanted);
  } catch (const CLI::ParseError& mistake) {
    fmt::print(stderr, "pvrdmactl: {}: see pvrdmactl --help\n", mistake.what());
    return kExitUsage;
  }
  // The library would ask for a missing word before it complained about a wrong one.
  if (arguments.query.path.empty()) {
    fmt::print(stderr, "pvrdmactl: what shall it do? give a command: see pvrdmactl --help\n");
    return kExitUsage;
  }
  const Query& query = arguments.query;
  const auto answer =
      query.body.empty() ? get(arguments.socket, query.path) : put(arguments.socket, query.path, query.body);
  if (!answer) return fail_with(answer.error());
  const auto text = (arguments.json ? query.json : query.text)(*answer);
  if (!text) return fail_with(text.error());
  fmt::print("{}", *text);
  return kExitDone;
}

}  // namespace
}  // namespace pvrdma::ctl

int main(int argc, char** argv) {
  return pvrdma::ctl::run(argc, argv);
}
