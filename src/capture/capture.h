// Capture: what the shard and the reader of one capture share. Tap: the captures of one adapter, on its
// shard: it hands each message of the adapter's engine to all of them.
//
// A capture ends when its reader lets go of it or its adapter goes; whoever is left finds that out by itself.
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

// Of all adapters together.
inline constexpr std::size_t kCapturesMax = 4;

struct Capture final : Reapable {
  explicit Capture(std::uint32_t snap, std::size_t ring_bytes = Ring::kBytes)
      : snap_bytes(snap), ring(ring_bytes) {}

  // One that is released by the queue, which is its own, whoever lets go of it last: the shard may, and
  // giving back a ring's memory takes long.
  static std::shared_ptr<Capture> create(std::shared_ptr<ReaperQueue> queue, std::uint32_t snap);

  const std::uint32_t snap_bytes;  // kept of each frame at most
  Ring ring;
  std::atomic<std::uint64_t> lost_frames{0};  // the shard's: there was no room for them
  std::atomic<bool> adapter_gone{false};      // the shard's: nothing more comes
};

class Tap final : public verbs::MessageObserver {
 public:
  // `port` is the adapter's, borrowed.
  explicit Tap(fabric::Port& port) : port_(port) {}
  ~Tap() override;
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;

  // From now on, every message, while anybody else has the capture, too. False: there are kCapturesMax.
  bool add(std::shared_ptr<Capture> capture);
  void remove(const Capture& capture);

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
