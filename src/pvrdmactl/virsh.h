// Virsh: libvirt's client as a child process. It connects to virsh's default (LIBVIRT_DEFAULT_URI), and its
// errors appear on the terminal.
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
  // Waits for its end and returns its output. Errors: there is no virsh, or it fails.
  static Result<std::string> ask(std::vector<std::string> arguments);

  // Starts it in the background. Its output goes to standard error. Error: there is no virsh.
  static Result<Virsh> start(std::vector<std::string> arguments);
  ~Virsh();  // waits for its end, unless leave() was called
  Virsh(Virsh&& other) noexcept : pid_(std::exchange(other.pid_, 0)), status_(other.status_) {}
  Virsh& operator=(Virsh&&) = delete;

  // Like Ctrl-C: makes libvirt cancel its operation.
  void interrupt();
  // virsh goes on without this process.
  void leave() { pid_ = 0; }
  // virsh's exit status, or 128 plus the number of the signal that killed it; empty: it still runs.
  std::optional<int> ended() { return reap(Wait::kNo); }

 private:
  explicit Virsh(pid_t pid) : pid_(pid) {}
  enum class Wait : bool { kNo, kYes };
  std::optional<int> reap(Wait wait);

  pid_t pid_;  // 0: already waited for, or moved from
  int status_ = 0;
};

}  // namespace pvrdma::ctl
