// Hca: the path between hosts through their RDMA NICs. One transport serves all hosts, driven by a shard's
// loop.
//
// A host of several shards has an Hca for each, with a device context of its own. Each shard of another host
// is a peer of its own, with pipes of its own, which are dialled when they are needed (host_pipes.h).
//
// Each host dials a pipe (pipe.h), an RC QP, to each peer, and sends its own requests and datagrams there.
// Answers come back on the same pipe. Messages travel in slots of registered memory. Long payload of writes,
// sends and reads is fetched directly from one guest's memory into the other's, over a QP of those two VMs
// (lender.h, puller.h). No peer ever gets the right to write to memory of this host.
//
// The hosts exchange the addresses of their QPs over an authenticated connection (introduction.h). A Worker
// does everything that may sleep.
//
// While is_up() is false, the fabric uses another path. After a failure, a new pipe counts as up only once it
// has been connected for a second. Each further failure doubles that time, to at most a minute.
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
#include "transport/hca/hca_state.h"
#include "transport/hca/introduction.h"
#include "transport/hca/nic.h"
#include "transport/transport.h"

namespace pvrdma::transport {

namespace hca {

class Worker;

enum class LaneState : std::uint8_t {
  kDown,  // nothing gets through now
  kRest,  // nothing needs them
  kUp,
};

}  // namespace hca

// A shard of another host.
struct HcaPeer {
  HostId id;  // of this shard of the host: each has its own
  std::string name;
  ShardNumber shard{};
  friend bool operator==(const HcaPeer&, const HcaPeer&) = default;
};

// A change takes effect at once.
struct HcaSettings {
  std::string device;                // its name in libibverbs; empty: no device
  std::optional<verbs::Gid> tagged;  // of the VMkernel adapter that is tagged
  std::vector<HcaPeer> peers;        // pipes exist with these shards of hosts only
  friend bool operator==(const HcaSettings&, const HcaSettings&) = default;
};

// What went wrong, by reason. Each number is in pvrdmad's metrics (group "hca").
struct HcaErrors {
  std::uint64_t falls = 0;  // pipes that were up and broke
  std::uint64_t failed_setups = 0;
  std::uint64_t bad_frames = 0;  // malformed frames, or more credits than possible
  std::uint64_t bad_sequence = 0;
  std::uint64_t silent_peers = 0;
  std::uint64_t foreign_sources = 0;    // Delivery::kForeignSource
  std::uint64_t unknown_gids = 0;       // Delivery::kUnknownGid
  std::uint64_t datagrams_dropped = 0;  // the pipe had no free slot
  std::uint64_t responses_dropped = 0;
};

// Payload that bypassed the pipes. Each number is in pvrdmad's metrics (group "hca").
struct HcaBulk {
  std::uint64_t lent = 0;  // requests whose payload the peer fetches
  std::uint64_t lent_bytes = 0;
  std::uint64_t fetched = 0;  // requests whose payload was fetched from the peer
  std::uint64_t fetched_bytes = 0;
  std::uint64_t stops = 0;  // of bulk QPs, for any reason
};

// The registration state of a VM's memory.
struct HcaMemory {
  std::uint64_t bytes = 0;         // to be registered in total; 0: not needed so far
  std::uint64_t pinned_bytes = 0;  // registered now
  std::string trouble;             // why some of it cannot be registered; empty: no failure
};
// A note about the VM's paths, for the operator. Empty: all of the memory is registered.
std::string describe(const HcaMemory& memory, const std::string& vm);

struct HcaTimes {
  // How long a pipe must stay up before it is used again after a failure: the first time, and at most.
  Duration proof_first = std::chrono::seconds(1);
  Duration proof_max = std::chrono::seconds(60);
  // The pause between attempts to make a bulk QP: the first, doubled after each failure, and the longest.
  Duration bulk_pause_first = std::chrono::milliseconds(10);
  Duration bulk_pause_max = std::chrono::seconds(1);
};

// All borrowed; they outlive the Hca.
struct HcaOptions {
  hca::OpenNic open;
  hca::Introducer& introducer;
  hca::Worker& worker;
  // The state of the hosts' lanes: an introduction takes the same way.
  std::function<hca::LaneState(HostId)> lanes;
  HcaTimes times = {};
  // Shorter payload goes through the pipe, which is cheaper than a fetch. At least 1.
  std::uint32_t lends_from = 8 * 1024 + 1;
  ShardNumber shard{};       // this one's
  std::string refused = {};  // why no device may be used at all; empty: one may
};

class Hca final : public Transport {
 public:
  Hca(HcaOptions options, shard::Loop& loop, const Clock& clock, Inbound& inbound);
  ~Hca() override;

  // May throw bad_alloc; the caller then calls it again.
  void configure(const HcaSettings& settings);

  // Answers the offer of another host. Blocks for a bounded time; not on the shard. Errors: one clause, meant
  // for the other host.
  Result<hca::PipeAnswer> answer(const std::string& host, const hca::PipeOffer& offer);

  PathKind kind() const override { return PathKind::kHca; }
  const Counters& counters() const override;
  void open(const Place& place, const verbs::Connection& connection, Traffic& traffic,
            verbs::PathSlot& slot) override;
  bool send_datagram(const Place& place, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                     Traffic& traffic, Instant now) override;
  bool is_up(HostId host) const override;
  void prepare(HostId host) override;
  std::string trouble(HostId host) const override;
  void flush(Instant now) override;
  void stop(SegmentId segment, const verbs::Connection& connection) override;
  void stop_all(const verbs::Engine& engine) override;
  void take_back(const verbs::Engine& engine, std::span<const std::byte> memory) override;

  // When it next needs a turn, for callers that drive the loop themselves.
  Instant next_deadline() const;
  const std::string& device() const;          // the configured one; empty: no device
  const std::string& device_trouble() const;  // why it does not work; empty: it works
  const HcaErrors& errors() const;
  const HcaBulk& bulk() const;
  HcaMemory memory(const verbs::Engine& engine) const;
  std::vector<HcaPeerState> peers() const;
  // Without `pinned_bytes`, which memory() has for each VM.
  HcaState state() const { return {.device = device(), .trouble = device_trouble(), .peers = peers()}; }

 private:
  struct Impl;
  const std::shared_ptr<Impl> impl_;  // a job in progress may hold it, too
};

}  // namespace pvrdma::transport
