// Hca: the path between hosts through their RDMA NICs: one transport for all hosts, driven by a shard's loop.
//
// Each host dials a pipe (pipe.h), an RC QP, to each peer and sends its own requests and datagrams there;
// answers come back on the same pipe. Messages go through slots of registered memory; long payload of writes,
// sends and reads is fetched from one guest's memory to the other's, over a QP of those two VMs (lender.h,
// puller.h). No peer gets a right to write anything here.
//
// Where a QP is to be connected the hosts tell each other over a connection that has proven who they are
// (introduction.h). What may sleep is done by a Worker.
//
// is_up() is what the fabric goes by: it uses another path while it is false. A pipe that failed counts as up
// again a second after it stands, then two, at most a minute.
//
// Thread: shard-owned; answer() any other.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "shard/loop.h"
#include "transport/hca/introduction.h"
#include "transport/hca/nic.h"
#include "transport/transport.h"

namespace pvrdma::transport {

namespace hca {
class Worker;
}

struct HcaPeer {
  HostId id;
  std::string name;
  friend bool operator==(const HcaPeer&, const HcaPeer&) = default;
};

// Anything that changes takes effect at once.
struct HcaSettings {
  std::string device;                // as libibverbs calls it; empty: none
  std::optional<verbs::Gid> tagged;  // of the tagged VMkernel adapter
  std::vector<HcaPeer> peers;        // only these are dialled, and only these are answered
  friend bool operator==(const HcaSettings&, const HcaSettings&) = default;
};

struct HcaPeerState {
  HostId id;
  std::string name;
  bool is_up = false;
  std::string trouble;  // why not
  std::uint64_t falls = 0;
};

// What went wrong, by reason. Each number is in pvrdmad's metrics (group "hca").
struct HcaErrors {
  std::uint64_t falls = 0;  // pipes that stood and broke
  std::uint64_t failed_setups = 0;
  std::uint64_t bad_frames = 0;  // garbage, more credits than there are
  std::uint64_t bad_sequence = 0;
  std::uint64_t silent_peers = 0;
  std::uint64_t foreign_sources = 0;    // Delivery::kForeignSource
  std::uint64_t unknown_gids = 0;       // Delivery::kUnknownGid
  std::uint64_t datagrams_dropped = 0;  // there was no room
  std::uint64_t responses_dropped = 0;
};

// What has gone past the pipes. Each number is in pvrdmad's metrics (group "hca").
struct HcaBulk {
  std::uint64_t lent = 0;  // requests whose payload the peer fetches
  std::uint64_t lent_bytes = 0;
  std::uint64_t fetched = 0;  // requests whose payload was fetched from the peer
  std::uint64_t fetched_bytes = 0;
  std::uint64_t stops = 0;  // of bulk QPs, for whatever reason
};

// A VM's memory, as the device knows it.
struct HcaMemory {
  std::uint64_t bytes = 0;         // that are to be registered; 0: nobody has asked for it
  std::uint64_t pinned_bytes = 0;  // registered now
  std::string trouble;             // why not all of it is; empty: it is, or will be
};
// What is to be said of paths of that VM. Empty: nothing.
std::string describe(const HcaMemory& memory, const std::string& vm);

struct HcaTimes {
  // How long a pipe stands before it is used, after one has failed: the first time, and at most.
  Duration proof_first = std::chrono::seconds(1);
  Duration proof_max = std::chrono::seconds(60);
  // Between attempts to make a bulk QP: the first, doubled after each, and the most.
  Duration bulk_pause_first = std::chrono::milliseconds(10);
  Duration bulk_pause_max = std::chrono::seconds(1);
};

// All borrowed; they outlive the Hca.
struct HcaOptions {
  hca::OpenNic open;
  hca::Introducer& introducer;
  hca::Worker& worker;
  // Whether an introduction has a chance: the hosts' lanes stand.
  std::function<bool(HostId)> may_ask;
  HcaTimes times = {};
  // What is shorter goes through the pipe: that is cheaper than to fetch it. At least 1.
  std::uint32_t lends_from = 8 * 1024 + 1;
  std::string refused = {};  // why no device is used, whatever there is; empty: one is
};

class Hca final : public Transport {
 public:
  Hca(HcaOptions options, shard::Loop& loop, const Clock& clock, Inbound& inbound);
  ~Hca() override;

  // May throw bad_alloc, and is to be called again then.
  void configure(const HcaSettings& settings);

  // What another host offers, to be answered. Blocks for a bounded time; not on the shard. Errors: one clause
  // for the other host.
  Result<hca::PipeAnswer> answer(const std::string& host, const hca::PipeOffer& offer);

  PathKind kind() const override { return PathKind::kHca; }
  const Counters& counters() const override;
  void open(const Place& place, const verbs::Connection& connection, Traffic& traffic,
            verbs::PathSlot& slot) override;
  void send_datagram(const Place& place, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                     Traffic& traffic, Instant now) override;
  bool is_up(HostId host) const override;
  std::string trouble(HostId host) const override;
  void flush(Instant now) override;
  void stop(SegmentId segment, const verbs::Connection& connection) override;
  void stop_all(const verbs::Engine& engine) override;
  void take_back(const verbs::Engine& engine, std::span<const std::byte> memory) override;

  // When it has something to do, for who drives its loop himself.
  Instant next_deadline() const;
  const std::string& device() const;          // that is to be used; empty: none
  const std::string& device_trouble() const;  // why it is not; empty when it is
  const HcaErrors& errors() const;
  const HcaBulk& bulk() const;
  HcaMemory memory(const verbs::Engine& engine) const;
  std::vector<HcaPeerState> peers() const;

 private:
  struct Impl;
  const std::shared_ptr<Impl> impl_;  // jobs under way hold it weakly
};

}  // namespace pvrdma::transport
