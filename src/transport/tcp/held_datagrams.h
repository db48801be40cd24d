// HeldDatagrams: the few datagrams that wait for a lane which is being dialled. Without them the first
// message of a connection manager would be lost, and it repeats one only after seconds.
//
// Thread: shard-owned.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "guestmem/host_span.h"
#include "transport/transport.h"
#include "verbs/message.h"

namespace pvrdma::transport::tcp {

class HeldDatagrams {
 public:
  static constexpr std::size_t kMax = 16;
  // Of datagrams that are not for a connection manager. So they do not take all places.
  static constexpr std::size_t kOthersMax = 8;

  // Copies the datagram and its payload. False: too many wait, or there is no memory.
  [[nodiscard]] bool add(SegmentId segment, const verbs::Datagram& datagram,
                         const guestmem::SpanList& payload) {
    if (held_.size() >= (datagram.to.qpn == verbs::kGsiQpn ? kMax : kOthersMax)) return false;
    try {
      const auto bytes = static_cast<std::size_t>(payload.bytes());
      Held held{segment, datagram, std::make_unique_for_overwrite<std::byte[]>(bytes)};
      guestmem::SpanList copy;
      static_cast<void>(copy.append(held.payload.get(), bytes));
      guestmem::copy(copy, payload, bytes);
      held_.push_back(std::move(held));
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }

  // Calls `take(SegmentId, const verbs::Datagram&, const guestmem::SpanList&)` for each, in order.
  template <typename Take>
  void release(Take take) {
    for (const Held& held : std::exchange(held_, {})) {
      guestmem::SpanList payload;
      static_cast<void>(payload.append(held.payload.get(), held.datagram.bytes));
      take(held.segment, held.datagram, payload);
    }
  }

  // Returns how many are lost.
  std::size_t drop() { return std::exchange(held_, {}).size(); }

 private:
  struct Held {
    SegmentId segment;
    verbs::Datagram datagram;
    std::unique_ptr<std::byte[]> payload;  // datagram.bytes
  };
  std::vector<Held> held_;
};

}  // namespace pvrdma::transport::tcp
