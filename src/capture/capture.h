// Capture: what the shard and the reader of one capture share. Tap: the captures of one adapter, on its
// shard; it passes each message of the adapter's engine to all of them.
//
// A capture ends when its reader releases it or its adapter is destroyed. The other side notices by itself.
//
// Thread: Capture as its members say; Tap shard-owned.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/reaper.h"
#include "capture/ring.h"
#include "fabric/port.h"
#include "verbs/observer.h"

namespace pvrdma::capture {

// The limit over all adapters.
inline constexpr std::size_t kCapturesMax = 4;

struct Capture final : Reapable {
  explicit Capture(std::uint32_t snap, std::size_t ring_bytes = Ring::kBytes)
      : snap_bytes(snap), ring(ring_bytes) {}

  // Makes a capture that `queue`, which serves only this capture, releases on another thread. The last holder
  // may be the shard, and freeing a ring's memory takes long.
  static std::shared_ptr<Capture> create(std::shared_ptr<ReaperQueue> queue, std::uint32_t snap);

  const std::uint32_t snap_bytes;  // the most that is kept of each frame
  Ring ring;
  // Written by the shard: frames dropped because the ring was full.
  std::atomic<std::uint64_t> lost_frames{0};
  std::atomic<bool> adapter_gone{false};  // written by the shard: no more messages will come
};

class Tap final : public verbs::MessageObserver {
 public:
  // `port` is the adapter's port, borrowed.
  explicit Tap(fabric::Port& port) : port_(port) {}
  ~Tap() override;
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;

  // Passes every message to the capture while it has another holder. False: the adapter has kCapturesMax
  // captures.
  bool add(std::shared_ptr<Capture> capture);
  void remove(const Capture& capture);
  // Whether a capture has another holder, which reads it.
  bool is_read() const;

  void on_request(verbs::Direction direction, const verbs::Request& request,
                  const guestmem::SpanList* payload, abi::Mtu mtu, Instant now) override;
  void on_response(verbs::Direction direction, const verbs::Response& response,
                   const verbs::Answered& answered, const guestmem::SpanList* payload, abi::Mtu mtu,
                   Instant now) override;
  void on_datagram(verbs::Direction direction, const verbs::Datagram& datagram,
                   const guestmem::SpanList& payload, Instant now) override;

 private:
  void keep(Record& record, const guestmem::SpanList* payload);

  fabric::Port& port_;
  std::vector<std::shared_ptr<Capture>> captures_;
};

}  // namespace pvrdma::capture
