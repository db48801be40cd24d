// FakeNetwork: simulates the RDMA NICs of several hosts and the network between them, in one thread and
// virtual time. Its RC QPs have a real device's limits and its worst permitted behaviour:
//
//  * It reads the bytes of a send when the packet leaves, long after posting, unless the QP is in ERR by
//    then.
//  * It may write the bytes of a receive at any time until the completion, or until the QP is in ERR.
//  * An unsignaled work request completes silently. A failed one always produces a completion and flushes the
//    rest.
//  * The loss of a peer is noticed only after the retries have run out.
//
// It counts as crimes what a program must never do: DMA to unregistered memory, an empty receive queue (RNR),
// a CQ overrun, exceeded limits, a region that is destroyed while work requests use it, and objects destroyed
// on a shard. Tests expect no crimes.
//
// In steady state it allocates nothing. Thread: one; a Pollable for the loop that the test turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "shard/loop.h"
#include "transport/hca/nic.h"

namespace pvrdma::transport::hca {

// From public reports of `ibv_devinfo -v`.
inline constexpr NicLimits kConnectX5{.qps = 262144,
                                      .work_requests = 32768,
                                      .sges = 30,
                                      .cqes = 4194303,
                                      .regions = 16777216,
                                      .region_bytes = ~0ULL,
                                      .reads = 16};
inline constexpr NicLimits kE810{.qps = 4092,
                                 .work_requests = 8127,
                                 .sges = 6,
                                 .cqes = 1048574,
                                 .regions = 4194304,
                                 .region_bytes = 1ULL << 45,
                                 .reads = 8};

class FakeNetwork final : public shard::Pollable {
 public:
  FakeNetwork(std::uint64_t seed, const Clock& clock) : random_(seed), clock_(clock) {}
  ~FakeNetwork() override;

  // Adds a device with one port and these GIDs. It can then be opened by its name.
  void add(const std::string& name, const NicLimits& limits, std::vector<verbs::Gid> gids);
  // Like OpenNic.
  Result<std::shared_ptr<Nic>> open(const std::string& name, NicUser& user);

  void set_port(const std::string& name, bool active);
  void set_gids(const std::string& name, std::vector<verbs::Gid> gids);
  // Reports DEVICE_FATAL: its QPs are in ERR, and it cannot be opened until add() is called again.
  void destroy(const std::string& name);
  // While `cut` is true, no packet passes between any two devices.
  void cut(bool cut) { cut_ = cut; }
  // Fails all its connected QPs as if their peers had been silent. Returns their number.
  int break_qps(const std::string& name);
  // The time until the retries of a QP with a silent peer run out, if it has the timeout of pipes.
  void set_patience(Duration time) { patience_ = time; }
  // Packets take up to `most`.
  void set_delay(Duration most) { delay_max_ = most; }
  // The descriptors that tell of a device's events. Borrowed.
  void set_event_fds(const std::string& name, std::vector<int> fds) {
    devices_.at(name).event_fds = std::move(fds);
  }
  // While this returns true, nothing may be destroyed, because that may sleep.
  void set_on_shard(std::function<bool()> on_shard) { on_shard_ = std::move(on_shard); }
  // READs complete but bring no data, as with pages of a file that was truncated.
  void lose_reads() { loses_reads_ = true; }

  std::uint64_t crimes() const { return crimes_; }
  std::size_t objects() const { return qps_.size() + regions_.size(); }  // those not destroyed yet

  bool run(Instant now) override;
  void on_time(Instant /*now*/) override {}
  Instant next_deadline() const override;
  bool polls() const override { return false; }
  std::string what() const override { return "the RDMA network"; }

 private:
  template <typename T>
  class Ring;
  class FakeNic;
  class FakeDomain;
  class FakeRegion;
  class FakeCq;
  class FakeQp;
  struct Device {
    NicLimits limits;
    NicPort port;
    std::vector<int> event_fds;
    FakeNic* open = nullptr;  // borrowed
    bool gone = false;
    std::uint32_t qps = 0;
  };

  void crime(const char* what);
  void destroyed(const char* what);
  bool is_registered(const RegisteredSpan& place, const NicDomain* domain) const;
  FakeQp* find(std::uint32_t qpn) const;
  Duration delay() { return Duration(random_() % static_cast<std::uint64_t>(delay_max_.count() + 1)); }

  std::mt19937_64 random_;
  const Clock& clock_;
  std::map<std::string, Device> devices_;
  std::map<std::uint32_t, FakeQp*> qps_;  // by number; borrowed
  std::list<FakeRegion*> regions_;        // borrowed
  std::vector<FakeCq*> cqs_;              // borrowed
  std::vector<std::pair<std::string, NicUser::News>> news_;
  std::uint32_t next_qpn_ = 17;
  std::function<bool()> on_shard_ = [] { return false; };
  bool cut_ = false;
  bool loses_reads_ = false;
  Duration patience_ = std::chrono::milliseconds(240);
  Duration delay_max_ = std::chrono::microseconds(20);
  std::uint64_t crimes_ = 0;
};

}  // namespace pvrdma::transport::hca
