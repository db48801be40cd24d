// The daemon and the stand-ins of one user: finds them, starts what is missing, ends them. Thread: main().
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "pvrdma_run/installation.h"

namespace pvrdma::run {

inline constexpr unsigned kNodes = 8;  // of the user's own daemon

// Whether a stand-in that is started ends some seconds after its last process.
enum class StandInLife { kWhileUsed, kUntilStopped };

// Which adapter of which daemon the program uses, and how.
struct Wanted {
  unsigned node = 0;
  std::string adapter;     // empty: the node of the user's own daemon
  std::string api_socket;  // of the adapter's daemon
  std::vector<std::string> addresses;
  std::string gateway_mac;  // empty: the stand-in knows what to do without one
  StandInLife life = StandInLife::kWhileUsed;
};

// A stand-in that answers. While `connection` is open, it does not end for lack of processes.
struct StandIn {
  std::string folder;
  Fd connection;
};

// Starts what is missing. Errors: one sentence that says what cannot be started and why.
Result<StandIn> provide(const Installation& installation, const std::string& runtime, const Wanted& wanted);

struct Running {
  std::optional<pid_t> daemon;
  struct Node {
    std::string name;  // "node0", or the adapter's
    pid_t pid = 0;
  };
  std::vector<Node> nodes;
};
Running list_running(const std::string& runtime);

// Ends all stand-ins, then the daemon. Errors: one does not end.
Result<void> stop_all(const std::string& runtime);

}  // namespace pvrdma::run
