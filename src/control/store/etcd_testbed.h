// A real etcd on its own loopback ports, a relay in front of it that misbehaves on demand, and a server that
// answers nonsense. Thread: the test's, except where noted.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "control/store/http_session.h"
#include "control/store/store_testing.h"

namespace pvrdma::control::test {

// Runs a program to its end and returns its output; throws unless it succeeds.
std::string run_program(const std::vector<std::string>& command);

struct EtcdTls {
  std::string ca, certificate, key;  // the server's; it demands certificates of the same CA
  TlsFiles client;                   // used to check whether the server is up
};

class EtcdServer {
 public:
  explicit EtcdServer(std::optional<EtcdTls> tls = std::nullopt);
  ~EtcdServer();  // kill -9
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;

  std::string url() const;
  std::uint16_t port() const { return client_port_; }

  void set_quota(std::uint64_t bytes) { quota_bytes_ = bytes; }  // takes effect at the next restart()
  void kill();                                                   // kill -9, and waits for its end
  void restart();                                                // after kill(), with the same data and ports
  void wipe();                                                   // deletes its data; after kill()
  void pause();                                                  // SIGSTOP
  void resume();

  // Runs etcdctl with these arguments.
  std::string ctl(std::vector<std::string> arguments, const std::string& user = "");
  std::int64_t revision();

 private:
  bool spawn();  // false: it ended at once
  bool up();

  TempFolder folder_;
  std::optional<EtcdTls> tls_;
  std::uint16_t client_port_ = 0;
  std::uint16_t peer_port_ = 0;
  std::uint64_t quota_bytes_ = 0;  // 0: etcd's default
  pid_t pid_ = -1;
};

// Forwards loopback connections to another port.
class Relay {
 public:
  enum class Mode {
    kForward,
    kCut,      // closes existing and new connections
    kSwallow,  // forwards requests, but drops the answers
  };
  explicit Relay(std::uint16_t to_port);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  std::string url() const;
  // When it returns, all connections are in that mode.
  void set(Mode mode);

 private:
  struct Pair {
    Fd client, server;
  };
  void run();
  bool forward(Pair& pair, bool to_server) const;

  std::uint16_t to_port_;
  Fd listener_;
  Fd wake_;
  std::atomic<Mode> wanted_ = Mode::kForward;
  std::atomic<Mode> mode_ = Mode::kForward;
  std::atomic<bool> stopping_ = false;
  std::vector<Pair> pairs_;
  std::thread thread_;
};

// Reads one HTTP request per connection, writes the answer that `answer` gives for its path, and closes.
class NonsenseServer {
 public:
  using Answer = std::function<std::string(const std::string& path)>;
  explicit NonsenseServer(Answer answer);
  ~NonsenseServer();
  NonsenseServer(const NonsenseServer&) = delete;
  NonsenseServer& operator=(const NonsenseServer&) = delete;

  std::string url() const;

 private:
  void run();
  void serve(int connection);

  Answer answer_;
  Fd listener_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace pvrdma::control::test
