// Ends: the two ends of an RC connection over RoCE, and the envelope of every packet between them. Thread:
// shard-owned.
#pragma once

#include <cstddef>
#include <span>

#include "roce/counters.h"
#include "roce/frame.h"
#include "roce/frame_sink.h"
#include "verbs/engine.h"
#include "verbs/path.h"

namespace pvrdma::roce {

// A list of bytes that are only read.
inline guestmem::SpanList to_source(std::span<const std::byte> bytes) {
  guestmem::SpanList source;
  static_cast<void>(source.append(const_cast<std::byte*>(bytes.data()), bytes.size()));
  return source;
}

struct Ends {
  Ends(verbs::Engine& sending_engine, const verbs::Connection& ends, const Mac& mac, Counters& counted);

  // Sends the packet with the next `payload_bytes` bytes of `payload`. Fills in its destination. Returns
  // false if there was no room.
  bool send(Packet packet, std::uint32_t payload_bytes, guestmem::SpanReader& payload, FrameSink& sink) const;
  // Sends the packet without a payload.
  bool send(const Packet& packet, FrameSink& sink) const;

  verbs::Engine& engine;  // borrowed, like the counters
  verbs::Connection connection;
  Envelope envelope;
  Counters& counters;
};

}  // namespace pvrdma::roce
