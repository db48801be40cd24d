#include "daemon.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <fstream>
#include <spawn.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

#include "vfio_user/client.h"

extern char** environ;

namespace pvrdma::bench {
namespace {

constexpr std::chrono::seconds kStartGuard{20};

}  // namespace

Daemon::Daemon(const Options& options) : options_(options) {
  std::string folder = (std::filesystem::temp_directory_path() / "pvrdma-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no folder for the daemon's sockets");
  folder_ = folder;
  using std::filesystem::perms;
  std::filesystem::permissions(folder_,
                               perms::owner_all | perms::group_exec);  // for another user of its group
  std::filesystem::create_directories(options_.log.parent_path());
  write_config();
  start();
  try {
    for (const char* name : {"B", "C"}) wait_for(socket(name));
    if (options_.cluster) create_vm();
    for (const std::string& path : attackers()) wait_for(path);
    spread();
  } catch (...) {
    kill();
    throw;
  }
}

Daemon::~Daemon() {
  kill();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::vector<std::string> Daemon::attackers() const {
  std::vector<std::string> paths;
  for (std::uint32_t i = 0; i < options_.attackers; ++i) paths.push_back(socket(fmt::format("A{}", i)));
  return paths;
}

void Daemon::write_config() const {
  std::ofstream file(folder_ / "pvrdmad.toml");
  file << fmt::format(
      "[daemon]\napi_socket = \"{}\"\nshards = {}\nward = {}\n", api(),
      options_.whereabouts == Whereabouts::kShard ? 2 : 1,
      options_.whereabouts == Whereabouts::kWard || options_.whereabouts == Whereabouts::kEarned);
  const auto adapter = [&](const std::string& name, std::uint32_t number, std::string_view doorbells) {
    file << fmt::format(
        "\n[[adapter]]\nname = \"{}\"\nsocket = \"{}\"\nmac = \"02:00:00:00:00:{:02x}\"\n"
        "hardware_version = 18\ndoorbells = \"{}\"\n",
        name, socket(name), number, doorbells);
  };
  adapter("B", 1, "trapped");
  adapter("C", 2, "trapped");
  if (options_.ethernet) file << fmt::format("\n[[roce]]\nlink = \"stream:{}\"\n", ethernet());
  if (!options_.cluster) {
    for (std::uint32_t i = 0; i < options_.attackers; ++i) adapter(fmt::format("A{}", i), 3 + i, "mapped");
    return;
  }
  file << fmt::format(
      "\n[host]\nname = \"bench\"\nvmnics = []\nsocket_folder = \"{}\"\n\n[store]\ntype = \"sqlite\"\n"
      "path = \"{}\"\n",
      folder_.string(), (folder_ / "store.db").string());
}

void Daemon::start() {
  std::string program = PVRDMAD_BINARY;
  std::string flag = "--config";
  std::string file = (folder_ / "pvrdmad.toml").string();
  char* arguments[] = {program.data(), flag.data(), file.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND;
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, options_.log.c_str(), flags, 0644);
  const int failed = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error(fmt::format("{}: {}", program, std::strerror(failed)));
}

// Puts A0 on a switch, so that its GIDs become live records.
void Daemon::create_vm() const {
  ctl("dvs create Switch");
  ctl("dvs portgroup add Switch PG");
  ctl("dvs add-host Switch bench");
  ctl("vm create A0 --hw 14 --memory 512 --reserve all --portgroup PG");
}

// The ward has the last number, here 1.
void Daemon::spread() const {
  if (options_.whereabouts == Whereabouts::kBeside || options_.whereabouts == Whereabouts::kEarned) return;
  for (const char* name : {"B", "C"}) ctl(fmt::format("adapter shard set {} --shard 0", name));
  for (std::uint32_t i = 0; i < options_.attackers; ++i)
    ctl(fmt::format("adapter shard set A{} --shard 1", i));
}

void Daemon::ctl(const std::string& arguments) const {
  const std::string command =
      fmt::format("'{}' --api '{}' {} >/dev/null", PVRDMACTL_BINARY, api(), arguments);
  if (std::system(command.c_str()) != 0)
    throw std::runtime_error(fmt::format("pvrdmactl {}: refused", arguments));
}

void Daemon::wait_for(const std::string& path) {
  const auto deadline = std::chrono::steady_clock::now() + kStartGuard;
  while (!vfio_user::Client::connect(path)) {
    if (!alive() || std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error(
          fmt::format("pvrdmad does not serve {}; its log is {}", path, options_.log.string()));
    }
    ::usleep(5000);
  }
}

bool Daemon::alive() {
  if (ended_ || pid_ <= 0) return false;
  ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return !ended_;
}

std::string Daemon::end() {
  if (alive()) return {};
  if (WIFEXITED(status_)) return fmt::format("exit code {}", WEXITSTATUS(status_));
  return fmt::format("signal {} ({})", WTERMSIG(status_), ::strsignal(WTERMSIG(status_)));
}

void Daemon::kill() {
  if (!alive()) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, &status_, 0);
  ended_ = true;
}

std::uint64_t Daemon::own_bytes() const {
  std::ifstream status(fmt::format("/proc/{}/status", pid_));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::strtoull(line.c_str() + 8, nullptr, 10) * 1024;
  }
  return 0;
}

std::uint64_t Daemon::log_bytes() const {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(options_.log, error);
  return error ? 0 : size;
}

}  // namespace pvrdma::bench
