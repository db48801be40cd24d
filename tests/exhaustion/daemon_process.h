// DaemonProcess: a real pvrdmad with two adapters, A and B, and with fail_nth.cc loaded. It can be the member
// of a cluster of one host. Thread: the test's.
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
  // Starts the daemon and waits until it serves. Throws if it does not.
  enum class Cluster : bool { kNone, kMember };
  explicit DaemonProcess(Cluster cluster = Cluster::kNone);
  // Sends SIGKILL if the daemon still runs.
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  FailControl& control() { return *control_; }
  pid_t pid() const { return pid_; }
  std::string socket(const std::string& adapter) const { return folder_ + "/" + adapter; }

  bool is_alive();
  // Sends SIGTERM. Returns the exit code, or -1 if a signal ended the daemon.
  int stop();

  // Connects to the adapter and probes it, as QEMU and a guest's driver do. Throws on failure.
  std::unique_ptr<driver::Device> open(const std::string& adapter,
                                       Duration patience = std::chrono::seconds(30)) const;

  // The API's answer. Throws unless the status is 200.
  nlohmann::json ask(const std::string& path) const;
  // The status of the answer; 0 if there was none. `body` is JSON; empty: no body.
  int ask_status(const std::string& path) const { return request("GET", path, "").first; }
  int tell(const std::string& method, const std::string& path, const std::string& body = "") const {
    return request(method, path, body).first;
  }

  std::size_t descriptors() const;
  std::size_t threads() const;
  std::size_t address_space_bytes() const;
  // The whole log.
  std::string logged() const;
  // The functions of the first failed call, for a message. Needs addr2line.
  std::string failed_site() const;

 private:
  std::pair<int, std::string> request(const std::string& method, const std::string& path,
                                      const std::string& body) const;

  std::string folder_;
  FailControl* control_ = nullptr;
  pid_t pid_ = 0;
  std::uintptr_t program_ = 0;  // the address where it is loaded
};

}  // namespace pvrdma::test
