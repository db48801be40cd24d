// Daemon: a real pvrdmad as a child process, with its sockets, its log and its files in a folder of its own.
//
// Adapters A0, A1 ... belong to the attackers, B and C to the neighbour. In a cluster (of one host, with an
// SQLite store) A0 is a VM's adapter on a switch, so its GIDs are live records. The destructor kills the
// daemon and removes its folder except the log. Thread: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace pvrdma::bench {

// Where the attackers' adapters are.
enum class Whereabouts {
  kBeside,  // on the neighbour's shard, the only one
  kShard,   // on another shard
  kWard,
  kEarned,  // beside the neighbour, until the daemon moves them to its ward
};

class Daemon {
 public:
  struct Options {
    std::uint32_t attackers = 1;  // adapters A0 ...
    bool cluster = false;
    bool ethernet = false;  // has a RoCE link to ethernet()
    Whereabouts whereabouts = Whereabouts::kBeside;
    std::filesystem::path log;
  };

  // Starts the daemon and waits until it serves every adapter. Throws std::runtime_error with a sentence.
  explicit Daemon(const Options& options);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  std::string socket(const std::string& adapter) const { return (folder_ / (adapter + ".sock")).string(); }
  std::vector<std::string> attackers() const;
  std::string ethernet() const { return (folder_ / "ethernet.sock").string(); }
  std::string api() const { return (folder_ / "api.sock").string(); }

  bool alive();
  // How the daemon ended: "exit code 2", "signal 9 (Killed)". Empty: it runs.
  std::string end();
  void kill();

  // The daemon's own memory, without the guests' memory.
  std::uint64_t own_bytes() const;
  std::uint64_t log_bytes() const;

 private:
  void write_config() const;
  void start();
  void create_vm() const;
  void spread() const;
  void wait_for(const std::string& socket);
  void ctl(const std::string& arguments) const;

  Options options_;
  std::filesystem::path folder_;
  pid_t pid_ = 0;
  bool ended_ = false;
  int status_ = 0;
};

}  // namespace pvrdma::bench
