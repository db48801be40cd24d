// FakeNetwork: simulated RDMA NICs of several hosts and what joins them, in one thread and virtual time: RC
// QPs as of a real device, with its limits, and with what a real one may do at worst:
//
//  * a send's bytes are read when the packet leaves, long after posting, until the QP is in ERR;
//  * a receive's bytes may be written at any time until its completion, or until the QP is in ERR;
//  * a completion that nobody asked for (unsignaled) does not come; a failed one always does, and flushes the
//    rest;
//  * nothing is known of a peer that is gone until the retries have run out.
//
// What a program must never do it counts as a crime: DMA to memory that is not registered any more, a receive
// queue that was empty (RNR), a CQ that overflowed, limits that were exceeded, a region that goes under work
// requests. Tests expect none.
//
// In steady state it allocates nothing. Thread: one; a Pollable for the loop that the test turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/time.h"
#include "shard/loop.h"
#include "transport/hca/nic.h"

namespace pvrdma::transport::hca {

// As public reports of `ibv_devinfo -v` have them.
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

  // A device with one port and these GIDs; it may be opened by its name from now on.
  void add(const std::string& name, const NicLimits& limits, std::vector<verbs::Gid> gids);
  // As OpenNic.
  Result<std::shared_ptr<Nic>> open(const std::string& name, NicUser& user);

  void set_port(const std::string& name, bool active);
  void set_gids(const std::string& name, std::vector<verbs::Gid> gids);
  // DEVICE_FATAL: its QPs are in ERR; it cannot be opened again until add().
  void destroy(const std::string& name);
  // Nothing passes between any two of them until then.
  void cut(bool cut) { cut_ = cut; }
  // All its QPs that are connected fail as if the peer had been silent; how many.
  int break_qps(const std::string& name);
  // How long it takes until the retries of a QP whose peer is silent are used up.
  void set_patience(Duration time) { patience_ = time; }
  // Packets take up to so long.
  void set_delay(Duration most) { delay_max_ = most; }
  // What READs bring is lost, as in pages of which a file was shrunk: nobody is told.
  void lose_reads() { loses_reads_ = true; }

  std::uint64_t crimes() const { return crimes_; }
  std::size_t objects() const { return qps_.size() + regions_.size(); }  // that were not destroyed

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
    FakeNic* open = nullptr;  // borrowed
    bool gone = false;
    std::uint32_t qps = 0;
  };

  void crime(const char* what);
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
  bool cut_ = false;
  bool loses_reads_ = false;
  Duration patience_ = std::chrono::milliseconds(240);
  Duration delay_max_ = std::chrono::microseconds(20);
  std::uint64_t crimes_ = 0;
};

}  // namespace pvrdma::transport::hca
