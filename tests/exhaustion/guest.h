// Guest: the guest of an adapter (A by default) whose calls fail: one life, from its connection to its end.
// Thread: the test's.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "exhaustion/daemon_process.h"
#include "support/rc_endpoint.h"

namespace pvrdma::test {

class Guest {
 public:
  // `patience` is how long it waits for an answer.
  explicit Guest(DaemonProcess& daemon, Duration patience = std::chrono::seconds(30))
      : daemon_(daemon), patience_(patience) {}
  Guest(DaemonProcess& daemon, std::string adapter) : Guest(daemon) { adapter_ = std::move(adapter); }

  // Attaches, makes one object of each kind, connects, moves data, destroys, leaves, and waits until the
  // daemon has finished with it. A refused step is repeated once while the adapter still serves. True: it
  // came to the end.
  bool live();

  // The number of refused steps, and the sentence of the last refusal.
  int refusals() const { return refusals_; }
  const std::string& sentence() const { return sentence_; }
  // An answer never came, which is not a refusal.
  bool hung() const;

 private:
  enum class Again { kAlways, kWhileConnected };

  bool work();
  EndpointOptions of_user() const;
  void register_memory();
  void connect_both();
  void write();
  bool step(const std::function<void()>& action, Again again = Again::kWhileConnected);

  DaemonProcess& daemon_;
  const Duration patience_;
  std::string adapter_ = "A";
  std::unique_ptr<driver::Device> device_;
  std::unique_ptr<driver::Context> user_;
  std::unique_ptr<driver::ProtectionDomain> user_pd_;
  std::unique_ptr<driver::SharedReceiveQueue> srq_;
  std::unique_ptr<RcEndpoint> first_;
  std::unique_ptr<RcEndpoint> second_;
  int refusals_ = 0;
  std::string sentence_;
};

}  // namespace pvrdma::test
