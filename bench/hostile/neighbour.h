// Neighbour: an honest guest B that repeatedly reads a register and writes 8 bytes to its peer C, and
// measures how long each takes. The times are those of a guest: over the real socket, through the user-space
// driver.
//
// It sleeps between the operations, like a guest that has other things to do, so it hardly burdens the
// daemon. From time to time it also maps and unmaps memory, and connects a QP to a native endpoint if there
// is a link to one. Both must succeed.
//
// Thread: the owner's. The measuring has a thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/time.h"
#include "driver/driver.h"
#include "support/rc_endpoint.h"

namespace pvrdma::bench {

struct Samples {
  std::vector<std::int64_t> reads_ns;  // the last one may have been cut short
  std::vector<std::int64_t> writes_ns;
  std::int64_t forgotten_worst_ns = 0;
  std::string broken;          // why it could not continue; empty: it could
  std::string map_refused;     // the first refusal of a mapping
  std::string native_refused;  // the first refusal of a connection to a native endpoint
};

struct Times {
  double p50_us = 0;
  double p999_us = 0;
  double worst_us = 0;
};

// Sorts the samples. Without samples, all times are 0.
Times times_of(std::vector<std::int64_t>& samples_ns);

class Neighbour {
 public:
  enum class Natives { kNone, kConnects };

  // Opens both adapters and connects them. Throws std::runtime_error with a sentence.
  Neighbour(const std::string& socket_b, const std::string& socket_c, Natives natives);
  ~Neighbour();
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  void start();
  // How long the operation in progress has taken so far.
  Duration blocked_for() const;
  // Drops the earlier samples, except the worst one.
  void forget() { forgetting_ = true; }
  // Stops after the operation in progress. Then stopped() becomes true, and take() returns the samples since
  // start().
  void ask_to_stop() { stopping_ = true; }
  bool stopped() const { return stopped_; }
  Samples take();

 private:
  void run();
  void forget_now();
  void read_once();
  void write_once();
  void map_once();
  void connect_native_once();
  template <typename Operation>
  void timed(Operation&& operation, std::vector<std::int64_t>* samples_ns);

  const Natives natives_;
  std::unique_ptr<driver::Device> b_;
  std::unique_ptr<driver::Device> c_;
  std::unique_ptr<test::RcEndpoint> from_;
  std::unique_ptr<test::RcEndpoint> to_;
  std::unique_ptr<driver::GuestRam> other_;  // the memory that map_once() maps
  Samples samples_;
  std::atomic<std::int64_t> since_ns_{0};  // the start of the operation in progress; 0: there is no operation
  std::atomic<bool> forgetting_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace pvrdma::bench
