// DaemonProcess: a real pvrdmad with two adapters, A and B, and fail_nth.cc in it; perhaps the member of a
// cluster of one host. Thread: the test's.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <sys/types.h>

#include "driver/driver.h"
#include "exhaustion/fail_control.h"

namespace pvrdma::test {

class DaemonProcess {
 public:
  // Starts it and waits until it serves. Throws when it does not.
  enum class Cluster : bool { kNone, kMember };
  explicit DaemonProcess(Cluster cluster = Cluster::kNone);
  // SIGKILL, if it still runs.
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  FailControl& control() { return *control_; }
  pid_t pid() const { return pid_; }
  std::string socket(const std::string& adapter) const { return folder_ + "/" + adapter; }

  bool is_alive();
  // SIGTERM; its exit code, or -1 when a signal ended it.
  int stop();

  // Connects and probes the adapter, as QEMU and a guest's driver do. Throws what goes wrong.
  std::unique_ptr<driver::Device> open(const std::string& adapter,
                                       Duration patience = std::chrono::seconds(30)) const;

  // What the API answers; throws unless it is 200.
  nlohmann::json ask(const std::string& path) const;
  // The status of the answer; 0 when there was none. `body` is JSON, empty: none.
  int ask_status(const std::string& path) const { return request("GET", path, "").first; }
  int tell(const std::string& method, const std::string& path, const std::string& body = "") const {
    return request(method, path, body).first;
  }

  std::size_t descriptors() const;
  std::size_t threads() const;
  std::size_t address_space_bytes() const;
  // Everything it has logged.
  std::string logged() const;
  // The call that failed first, as functions: for a message. Needs addr2line.
  std::string failed_site() const;

 private:
  std::pair<int, std::string> request(const std::string& method, const std::string& path,
                                      const std::string& body) const;

  std::string folder_;
  FailControl* control_ = nullptr;
  pid_t pid_ = 0;
  std::uintptr_t program_ = 0;  // where it is loaded
};

}  // namespace pvrdma::test
