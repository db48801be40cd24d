// The interface to an RDMA NIC that the path hca uses: some dozen calls. Rdma (rdma.h) implements it with
// libibverbs; FakeNic (fake_nic.h) simulates a NIC for tests.
//
// Threads: functions that may sleep (opening a device, registering memory, making, connecting and destroying
// objects) are called on a thread that may block; each says so. The shard calls everything else. Those calls
// are bounded by this host's own hardware, never by a peer.
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

// The limits that a device reports. 0: it reports no limit.
struct NicLimits {
  std::uint32_t qps = 0;
  std::uint32_t work_requests = 0;  // per queue of a QP
  std::uint32_t sges = 0;
  std::uint32_t cqes = 0;
  std::uint32_t regions = 0;
  std::uint64_t region_bytes = 0;
  std::uint32_t reads = 0;  // that a QP answers at a time
};

struct NicPort {
  bool active = false;
  std::uint32_t mtu = 0;         // bytes: 256 ... 4096
  std::vector<verbs::Gid> gids;  // RoCE v2 GIDs
};

// Whether peers that know a region's key may read it. The device's own QPs may always read it, and no peer
// may ever write it.
enum class RemoteAccess : std::uint8_t { kNone, kRead };

// Memory that the device may access while this object exists.
class NicMemoryRegion {
 public:
  virtual ~NicMemoryRegion() = default;  // may sleep
  virtual std::uint32_t lkey() const = 0;
  virtual std::uint32_t rkey() const = 0;
};

// A protection domain: its QPs accept the keys of its own regions only.
class NicDomain {
 public:
  virtual ~NicDomain() = default;  // may sleep; destroyed after all that was made in it
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
  // Returns how many completions were taken. Empty: the device is gone.
  virtual std::optional<std::size_t> poll(std::span<NicCompletion> into) = 0;
  // The next completion calls CqUser::on_completions(), once. The caller then polls once more for earlier
  // completions.
  virtual void arm() = 0;
};

class CqUser {
 public:
  virtual ~CqUser() = default;
  virtual void on_completions() = 0;  // called on the shard
};

// A span of registered memory.
struct RegisteredSpan {
  std::byte* data = nullptr;
  std::uint32_t bytes = 0;
  std::uint32_t lkey = 0;
};

// The Local ACK Timeout of pipes, as in ibv_qp_attr: 4.096 us * 2^13 = 34 ms. After seven of them without an
// answer, 0.25 s, the peer counts as dead.
inline constexpr std::uint8_t kPipeTimeout = 13;

// The address of a QP's peer and the parameters of the connection.
struct QpConnection {
  verbs::Gid own;
  verbs::Gid peer;
  std::uint32_t peer_qpn = 0;
  std::uint32_t send_psn = 0;           // 24 bits
  std::uint32_t receive_psn = 0;        // 24 bits
  std::uint32_t mtu = 0;                // bytes
  std::uint32_t reads = 0;              // outstanding READs in either direction that both ends support
  std::uint8_t timeout = kPipeTimeout;  // Local ACK Timeout, 5 bits
};

struct QpSize {
  std::uint32_t sends = 0;
  std::uint32_t receives = 0;
  // The most outstanding READs in either direction; 0: the QP neither sends nor answers READs.
  std::uint32_t reads = 0;
};

// An RC QP whose peer may use SEND, and READ if `reads` is not 0; never a remote write.
class NicQueuePair {
 public:
  virtual ~NicQueuePair() = default;  // may sleep
  virtual std::uint32_t qpn() const = 0;
  // Moves the QP from INIT to RTS. May sleep, because the peer's MAC is resolved. Errors: one sentence.
  virtual Result<void> connect(const QpConnection& connection) = 0;
  // `id` comes back with the completion. False: the device accepts no more work requests.
  [[nodiscard]] virtual bool post_receive(std::uint64_t id, const RegisteredSpan& into) = 0;
  // If `signaled`, it has a completion of its own; otherwise only if it fails. The bytes must stay unchanged
  // until its completion or a later one's.
  [[nodiscard]] virtual bool post_send(std::uint64_t id, const RegisteredSpan& from, bool signaled) = 0;
  // Reads from the peer's memory into `into`. It always has a completion.
  [[nodiscard]] virtual bool post_read(std::uint64_t id, const RegisteredSpan& into,
                                       std::uint64_t remote_address, std::uint32_t rkey) = 0;
  // Moves the QP to ERR, which flushes what is posted. Once the flush completions have been polled, the
  // device accesses none of the posted memory.
  virtual void fail() = 0;
};

// Called on the shard, from within Nic::take_events() or a simulation's turn.
class NicUser {
 public:
  virtual ~NicUser() = default;
  enum class News : std::uint8_t {
    kChanged,   // ask for the port again
    kPortDown,  // nothing gets through: break connections at once
    kGone,      // the device failed or was removed: close it
  };
  virtual void on_news(News news) = 0;
};

// An open device and its port 1.
class Nic {
 public:
  virtual ~Nic() = default;                     // may sleep; destroyed after all that it made
  virtual const std::string& name() const = 0;  // "mlx5_0"
  virtual NicLimits limits() const = 0;
  virtual Result<NicPort> port() = 0;  // may sleep

  // The next four functions may sleep and may be called on any thread. The Nic, and `domain`, outlive what is
  // made; a null `domain` means the Nic's own. Errors: one sentence with a way out.
  virtual Result<std::unique_ptr<NicDomain>> make_domain() = 0;
  virtual Result<std::unique_ptr<NicMemoryRegion>> register_memory(std::span<std::byte> memory,
                                                                   RemoteAccess access,
                                                                   NicDomain* domain = nullptr) = 0;
  virtual Result<std::unique_ptr<NicCompletionQueue>> make_cq(std::uint32_t cqes, CqUser& user) = 0;
  virtual Result<std::unique_ptr<NicQueuePair>> make_qp(NicCompletionQueue& cq, const QpSize& size,
                                                        NicDomain* domain = nullptr) = 0;

  // These descriptors become readable when take_events() has work. Empty: take_events() need not be called.
  virtual std::span<const int> event_fds() const = 0;
  // Handles a bounded number of events.
  virtual void take_events() = 0;
};

// Opens a device by its name; `user` is borrowed and outlives the Nic. May sleep. Errors: one sentence.
using OpenNic = std::function<Result<std::shared_ptr<Nic>>(const std::string& device, NicUser& user)>;

}  // namespace pvrdma::transport::hca
