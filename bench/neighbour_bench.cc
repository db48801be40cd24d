// neighbour_bench: what a guest notices of a hostile one. It measures the time of a register read and of an
// 8-byte write on adapter B during an attack on adapter A (hostile/*_attacks.cc).
//
// Each attack has a fresh daemon, the real pvrdmad. Attack and daemon run in processes of their own. The
// result says if the daemon died or made B wait for longer than kBlocked. Aim (docs/performance.md): B below
// 1 ms at the 99.9th percentile and below 5 ms at worst, on an idle machine with two cores.
//
// Prints a line for each attack; with --json also writes a file for bench/compare. An attack that this
// machine cannot run is skipped, with a reason. Exit code 0: all other attacks were measured, whatever the
// results; 1: an error, with a sentence; 2: wrong usage.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <spawn.h>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "hostile/attack.h"
#include "hostile/daemon.h"
#include "hostile/neighbour.h"

extern char** environ;

namespace pvrdma::bench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kBlocked{5};        // QEMU's time limit
constexpr seconds kAttackGuard{120};  // in addition to the attack's time
constexpr milliseconds kBefore{300};
constexpr milliseconds kAfter{1500};  // the effects of an attack after its end count too
constexpr double kMiB = 1 << 20;

struct Options {
  std::vector<std::string> names;
  double seconds = 4;
  int nice = 0;
  std::uint64_t touch_mib = 4096;
  std::string json;
  std::filesystem::path logs = "build/bench/neighbour";
  Whereabouts whereabouts = Whereabouts::kBeside;
  bool list = false;
  // Options of the attacking process; not for users.
  std::string attack;
  std::vector<std::string> sockets;
};

struct Result {
  const Attack* attack = nullptr;
  Times read;
  Times write;
  double prepared_worst_us = 0;      // while the attack was still being prepared
  std::vector<std::string> outcome;  // what went wrong; empty: B was served
  std::string remark;                // the attack's own result
  std::uint64_t own_before = 0;      // the daemon's own memory in bytes
  std::uint64_t own_peak = 0;
  std::uint64_t own_after = 0;
  std::uint64_t log_bytes = 0;
};

std::vector<const Attack*> all_attacks() {
  std::vector<const Attack*> all;
  for (const auto part :
       {traffic_attacks(), ethernet_attacks(), memory_attacks(), session_attacks(), object_attacks(),
        watch_attacks(), page_attacks(), state_attacks(), wakeup_attacks()}) {
    for (const Attack& attack : part) all.push_back(&attack);
  }
  return all;
}

const Attack& attack_named(const std::string& name) {
  for (const Attack* attack : all_attacks()) {
    if (attack->name == name) return *attack;
  }
  throw std::runtime_error(fmt::format("there is no scenario '{}'; --list shows those there are", name));
}

Clock::duration time_of(const Options& options) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds));
}

// Runs the attack, in the attacker's process. Its last line is its remark.
int run_attack(const Options& options) {
  Field field(options.sockets, time_of(options), options.touch_mib << 20);
  try {
    fmt::print("{}\n", attack_named(options.attack).run(field));
  } catch (const std::runtime_error& error) {
    fmt::print("{}\n", error.what());
  }
  return 0;
}

// This program, run again as attacker, with its standard output in a file.
class Attacker {
 public:
  Attacker(const Attack& attack, const Daemon& daemon, const Options& options)
      : output_(options.logs / fmt::format("{}.attacker.log", attack.name)) {
    std::vector<std::string> words{"/proc/self/exe",
                                   "--attack",
                                   std::string(attack.name),
                                   "--seconds",
                                   fmt::format("{}", options.seconds),
                                   "--touch",
                                   fmt::format("{}", options.touch_mib)};
    std::vector<std::string> sockets = daemon.attackers();
    if (attack.ethernet) sockets.push_back(daemon.ethernet());
    if (attack.api) sockets.push_back(daemon.api());
    for (const std::string& socket : sockets) words.insert(words.end(), {"--socket", socket});
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0644);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    const int failed = ::posix_spawn(&pid_, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) throw std::runtime_error("the attacker could not be started");
  }
  ~Attacker() { kill(); }
  Attacker(const Attacker&) = delete;
  Attacker& operator=(const Attacker&) = delete;

  bool ended() {
    if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
    return pid_ == 0;
  }
  void kill() {
    if (ended()) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  bool begun() const {
    std::ifstream file(output_);
    std::string line;
    return std::getline(file, line) && line == kBegun;
  }
  std::string remark() const {
    std::ifstream file(output_);
    std::string line;
    std::string last;
    while (std::getline(file, line)) last = line;
    return last;
  }

 private:
  std::filesystem::path output_;
  pid_t pid_ = 0;
};

// Watches until the attack and its after-effects are over, or the daemon fails.
void watch(Daemon& daemon, Neighbour& neighbour, Attacker& attacker, const Options& options, Result& result) {
  const auto guard = Clock::now() + time_of(options) + kAttackGuard;
  bool begun = false;
  Clock::time_point end = Clock::time_point::max();
  while (Clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(10));
    if (!begun && (begun = attacker.begun())) neighbour.forget();
    result.own_peak = std::max(result.own_peak, daemon.own_bytes());
    if (!daemon.alive()) {
      result.outcome.push_back("daemon died: " + daemon.end());
      return;
    }
    if (neighbour.blocked_for() > kBlocked) {
      result.outcome.push_back(fmt::format("B blocked for > {} s", kBlocked.count()));
      return;  // the daemon is killed next, which releases B
    }
    if (end != Clock::time_point::max()) continue;
    if (Clock::now() > guard) {
      result.outcome.push_back("A did not end");
      attacker.kill();
    }
    if (attacker.ended()) end = Clock::now() + kAfter;
  }
}

Result measure(const Attack& attack, const Options& options) {
  Result result{.attack = &attack};
  Daemon daemon({.attackers = attack.adapters,
                 .cluster = attack.cluster,
                 .ethernet = attack.ethernet,
                 .whereabouts = options.whereabouts,
                 .log = options.logs / fmt::format("{}.log", attack.name)});
  Neighbour neighbour(daemon.socket("B"), daemon.socket("C"),
                      attack.natives ? Neighbour::Natives::kConnects : Neighbour::Natives::kNone);
  result.own_before = daemon.own_bytes();
  neighbour.start();
  std::this_thread::sleep_for(kBefore);
  Attacker attacker(attack, daemon, options);
  watch(daemon, neighbour, attacker, options, result);
  result.own_after = daemon.own_bytes();
  result.log_bytes = daemon.log_bytes();
  if (!result.outcome.empty()) {
    daemon.kill();
    attacker.kill();
  }
  neighbour.ask_to_stop();
  while (!neighbour.stopped()) {
    std::this_thread::sleep_for(milliseconds(10));
    if (neighbour.blocked_for() < kBlocked || !daemon.alive()) continue;
    result.outcome.push_back(fmt::format("B blocked for > {} s", kBlocked.count()));
    daemon.kill();
  }
  Samples samples = neighbour.take();
  if (result.outcome.empty() && !samples.broken.empty())
    result.outcome.push_back("B failed: " + samples.broken);
  if (!samples.map_refused.empty()) result.outcome.push_back("B's map refused: " + samples.map_refused);
  if (!samples.native_refused.empty())
    result.outcome.push_back("B's connection to a native endpoint refused: " + samples.native_refused);
  result.read = times_of(samples.reads_ns);
  result.write = times_of(samples.writes_ns);
  result.prepared_worst_us = static_cast<double>(samples.forgotten_worst_ns) / 1000;
  result.remark = attacker.remark();
  return result;
}

// Why its adapters cannot be at that place; empty: they can.
std::string why_not(const Attack& attack, Whereabouts whereabouts) {
  if (whereabouts == Whereabouts::kBeside) return {};
  if (attack.ethernet) return "adapters with a RoCE link are on its shard";
  if (attack.cluster && whereabouts != Whereabouts::kShard)
    return "the adapters of a cluster's VMs cannot be in the ward";
  return {};
}

void print_head() {
  fmt::print("us, idle machine: p99.9 below 1000, worst below 5000; MiB of the daemon's own; KiB of log\n");
  fmt::print("{:21} {:>6} {:>8} {:>9} {:>6} {:>8} {:>9} {:>6} {:>6} {:>6} {:>5}  {}\n", "", "read", "p99.9",
             "worst", "write", "p99.9", "worst", "before", "peak", "after", "log", "what became of it");
}

void print_line(const Result& result) {
  const std::string said = fmt::format("{}{}A: {}", fmt::join(result.outcome, "; "),
                                       result.outcome.empty() ? "" : "; ", result.remark);
  fmt::print("{:21} {:6.1f} {:8.1f} {:9.1f} {:6.1f} {:8.1f} {:9.1f} {:6.0f} {:6.0f} {:6.0f} {:5.0f}  {}\n",
             result.attack->name, result.read.p50_us, result.read.p999_us, result.read.worst_us,
             result.write.p50_us, result.write.p999_us, result.write.worst_us,
             static_cast<double>(result.own_before) / kMiB, static_cast<double>(result.own_peak) / kMiB,
             static_cast<double>(result.own_after) / kMiB, static_cast<double>(result.log_bytes) / 1024,
             said);
  std::fflush(stdout);
}

nlohmann::json entry_of(const Result& result, const char* what, const Times& times) {
  nlohmann::json entry{{"name", fmt::format("Neighbour/{}/{}", result.attack->name, what)},
                       {"run_type", "iteration"},
                       {"p50_us", times.p50_us},
                       {"p999_us", times.p999_us},
                       {"worst_us", times.worst_us},
                       {"prepared_worst_us", result.prepared_worst_us},
                       {"remark", result.remark}};
  if (result.outcome.empty()) return entry;
  entry["error_occurred"] = true;
  entry["error_message"] = fmt::format("{}", fmt::join(result.outcome, "; "));
  return entry;
}

void save(const std::vector<Result>& results, const std::filesystem::path& target) {
  nlohmann::json all = nlohmann::json::array();
  for (const Result& result : results) {
    all.push_back(entry_of(result, "read", result.read));
    all.push_back(entry_of(result, "write", result.write));
  }
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path());
  std::ofstream(target) << nlohmann::json{{"benchmarks", all}}.dump(2) << "\n";
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("neighbour_bench: what a guest notices of a hostile one");
  app.add_option("--scenario", options.names, "only this one; may be given several times");
  app.add_option("--seconds", options.seconds, "how long each attack goes on")->check(CLI::Range(0.1, 600.0));
  app.add_option("--touch", options.touch_mib, "MiB that a VM that dies has touched")
      ->check(CLI::Range(1, 128 * 1024));
  app.add_option("--nice", options.nice,
                 "of all that the bench starts; below 0 where others load the machine")
      ->check(CLI::Range(-20, 19));
  app.add_option("--json", options.json, "where to write the results for bench/compare");
  app.add_option("--logs", options.logs, "folder of the daemons' logs");
  app.add_option(
         "--attackers", options.whereabouts,
         "where their adapters are: \"beside\" the neighbour's on one shard; on another \"shard\"; in the "
         "\"ward\"; or beside until they have \"earned\" the ward")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, Whereabouts>{{"beside", Whereabouts::kBeside},
                                                                     {"shard", Whereabouts::kShard},
                                                                     {"ward", Whereabouts::kWard},
                                                                     {"earned", Whereabouts::kEarned}}));
  app.add_flag("--list", options.list, "show the scenarios");
  app.add_option("--attack", options.attack)->group("");
  app.add_option("--socket", options.sockets)->group("");
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGPIPE, SIG_IGN);
  if (options.nice != 0 && ::setpriority(PRIO_PROCESS, 0, options.nice) != 0) {
    throw std::runtime_error(fmt::format("--nice {}: {}", options.nice, std::strerror(errno)));
  }
  if (!options.attack.empty()) return run_attack(options);
  if (options.list) {
    for (const Attack* attack : all_attacks()) fmt::print("{:21} {}\n", attack->name, attack->what);
    return 0;
  }
  std::vector<const Attack*> chosen;
  for (const std::string& name : options.names) chosen.push_back(&attack_named(name));
  if (chosen.empty()) chosen = all_attacks();
  options.logs = std::filesystem::absolute(options.logs);
  std::filesystem::create_directories(options.logs);
  print_head();
  std::vector<Result> results;
  for (const Attack* attack : chosen) {
    if (const std::string why = why_not(*attack, options.whereabouts); !why.empty()) {
      fmt::print("{:21} skipped: {}\n", attack->name, why);
      continue;
    }
    if (const std::string lack = attack->lack != nullptr ? attack->lack() : ""; !lack.empty()) {
      fmt::print("{:21} skipped: {}\n", attack->name, lack);
      continue;
    }
    results.push_back(measure(*attack, options));
    print_line(results.back());
  }
  if (!options.json.empty()) save(results, options.json);
  return 0;
}

}  // namespace
}  // namespace pvrdma::bench

int main(int argc, char** argv) {
  try {
    return pvrdma::bench::run(argc, argv);
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "neighbour_bench: {}\n", error.what());
    return 1;
  }
}
