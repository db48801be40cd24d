// What the path hca uses of an RDMA NIC: some dozen calls, as an interface. Rdma (rdma.h) makes them through
// libibverbs, FakeNic (fake_nic.h) is a simulated NIC for tests.
//
// Threads: what may sleep (opening a device, registering memory, making, connecting and destroying) is called
// on a thread that may block; each says so. The rest belongs to the shard and is bounded by this host's
// own hardware, never by a peer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "verbs/ids.h"

namespace pvrdma::transport::hca {

// What a device can do, as it says itself. 0: it does not say.
struct NicLimits {
  std::uint32_t qps = 0;
  std::uint32_t work_requests = 0;  // of each queue of a QP
  std::uint32_t sges = 0;
  std::uint32_t cqes = 0;
  std::uint32_t regions = 0;
  std::uint64_t region_bytes = 0;
  std::uint32_t reads = 0;  // that a QP answers at a time
};

struct NicPort {
  bool active = false;
  std::uint32_t mtu = 0;         // bytes: 256 ... 4096
  std::vector<verbs::Gid> gids;  // of RoCE v2
};

// Who besides its own QPs may read a region: nobody, or peers that know its key. None may ever write it.
enum class RemoteAccess : std::uint8_t { kNone, kRead };

// Memory that the device may read and write while this lives.
class NicMemoryRegion {
 public:
  virtual ~NicMemoryRegion() = default;  // may sleep
  virtual std::uint32_t lkey() const = 0;
  virtual std::uint32_t rkey() const = 0;
};

// Regions and QPs of one domain know each other's keys, and no others'.
class NicDomain {
 public:
  virtual ~NicDomain() = default;  // may sleep; nothing made in it is left
};

struct NicCompletion {
  std::uint64_t id = 0;  // of the work request
  bool is_receive = false;
  std::uint32_t bytes = 0;   // received
  std::string_view trouble;  // empty: success. Static storage
};

class NicCompletionQueue {
 public:
  virtual ~NicCompletionQueue() = default;  // may sleep
  // How many were taken. Nothing: the device is gone.
  virtual std::optional<std::size_t> poll(std::span<NicCompletion> into) = 0;
  // The next completion calls CqUser::on_completions(), once. What came before is to be polled once more.
  virtual void arm() = 0;
};

class CqUser {
 public:
  virtual ~CqUser() = default;
  virtual void on_completions() = 0;  // on the shard
};

// A span of memory that the device knows.
struct RegisteredSpan {
  std::byte* data = nullptr;
  std::uint32_t bytes = 0;
  std::uint32_t lkey = 0;
};

// Where a QP's peer is, and how the two speak.
struct QpConnection {
  verbs::Gid own;
  verbs::Gid peer;
  std::uint32_t peer_qpn = 0;
  std::uint32_t send_psn = 0;     // 24 bits
  std::uint32_t receive_psn = 0;  // 24 bits
  std::uint32_t mtu = 0;          // bytes
  std::uint32_t reads = 0;        // RDMA READs at a time, either way, that both can do
};

struct QpSize {
  std::uint32_t sends = 0;
  std::uint32_t receives = 0;
  std::uint32_t reads = 0;  // RDMA READs at a time, either way, at most; 0: none, and none are answered
};

// A QP of type RC that grants its peer SENDs, and READs if it has any; no remote writes.
class NicQueuePair {
 public:
  virtual ~NicQueuePair() = default;  // may sleep
  virtual std::uint32_t qpn() const = 0;
  // From INIT to RTS. May sleep (the peer's MAC is looked for). Errors: one sentence.
  virtual Result<void> connect(const QpConnection& connection) = 0;
  // `id` comes back with the completion. False: the device takes it no more.
  [[nodiscard]] virtual bool post_receive(std::uint64_t id, const RegisteredSpan& into) = 0;
  // With `signaled` it has a completion of its own; without, only when it fails. `bytes` lie unchanged until
  // its completion, or that of a later one.
  [[nodiscard]] virtual bool post_send(std::uint64_t id, const RegisteredSpan& from, bool signaled) = 0;
  // Fills `into` from the peer's memory. It has a completion of its own.
  [[nodiscard]] virtual bool post_read(std::uint64_t id, const RegisteredSpan& into,
                                       std::uint64_t remote_address, std::uint32_t rkey) = 0;
  // To ERR: what is posted is flushed. When the flush completions have been polled, the device touches none
  // of its memory any more.
  virtual void fail() = 0;
};

// Told on the shard, from within Nic::take_events() or a simulation's turn.
class NicUser {
 public:
  virtual ~NicUser() = default;
  enum class News : std::uint8_t {
    kChanged,   // ask for the port again
    kPortDown,  // nothing gets through: not to be waited for
    kGone,      // the device fails, or is taken away: close it
  };
  virtual void on_news(News news) = 0;
};

// An open device and its port 1.
class Nic {
 public:
  virtual ~Nic() = default;                     // may sleep; nothing made by it is left
  virtual const std::string& name() const = 0;  // "mlx5_0"
  virtual NicLimits limits() const = 0;
  virtual Result<NicPort> port() = 0;  // may sleep

  // The four: may sleep; any thread. What is made lives shorter than the Nic, and than `domain`; null: the
  // Nic's own. Errors: one sentence with a way out.
  virtual Result<std::unique_ptr<NicDomain>> make_domain() = 0;
  virtual Result<std::unique_ptr<NicMemoryRegion>> register_memory(std::span<std::byte> memory,
                                                                   RemoteAccess access,
                                                                   NicDomain* domain = nullptr) = 0;
  virtual Result<std::unique_ptr<NicCompletionQueue>> make_cq(std::uint32_t cqes, CqUser& user) = 0;
  virtual Result<std::unique_ptr<NicQueuePair>> make_qp(NicCompletionQueue& cq, const QpSize& size,
                                                        NicDomain* domain = nullptr) = 0;

  // Become readable when take_events() has something to do. Empty: it needs no call.
  virtual std::span<const int> event_fds() const = 0;
  // A bounded number.
  virtual void take_events() = 0;
};

// Opens a device by its name; `user` is borrowed and outlives the Nic. May sleep. Errors: one sentence.
using OpenNic = std::function<Result<std::shared_ptr<Nic>>(const std::string& device, NicUser& user)>;

}  // namespace pvrdma::transport::hca
