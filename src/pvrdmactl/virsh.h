// Virsh: libvirt's own client, as a process of ours. It connects where virsh by itself would
// (LIBVIRT_DEFAULT_URI), and what it complains of is seen on the terminal.
//
// Thread: one.
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "base/result.h"

namespace pvrdma::ctl {

class Virsh {
 public:
  // What it prints; waits for its end. Errors: there is no virsh; it fails.
  static Result<std::string> ask(std::vector<std::string> arguments);

  // Lets it run. What it prints goes to the standard error output. Errors: there is no virsh.
  static Result<Virsh> start(std::vector<std::string> arguments);
  ~Virsh();  // waits for its end, if it is not left
  Virsh(Virsh&& other) noexcept : pid_(std::exchange(other.pid_, 0)), status_(other.status_) {}
  Virsh& operator=(Virsh&&) = delete;

  // As Ctrl-C: it has libvirt give up what it does.
  void interrupt();
  // It goes on without us.
  void leave() { pid_ = 0; }
  // Its exit status, 128 and the signal's number when one has killed it; nothing: it runs.
  std::optional<int> ended() { return reap(Wait::kNo); }

 private:
  explicit Virsh(pid_t pid) : pid_(pid) {}
  enum class Wait : bool { kNo, kYes };
  std::optional<int> reap(Wait wait);

  pid_t pid_;  // 0: reaped, or moved from
  int status_ = 0;
};

}  // namespace pvrdma::ctl
