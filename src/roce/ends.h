// Ends: the two ends of an RC connection over RoCE, and what every packet between them has around it. Thread:
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

// Bytes that are only copied from.
inline guestmem::SpanList to_source(std::span<const std::byte> bytes) {
  guestmem::SpanList source;
  static_cast<void>(source.append(const_cast<std::byte*>(bytes.data()), bytes.size()));
  return source;
}

struct Ends {
  Ends(verbs::Engine& sending_engine, const verbs::Connection& ends, const Mac& mac, Counters& counted);

  // Sends the packet, whose destination this fills in, with the first so many bytes of `payload`. False:
  // there was no room.
  bool send(Packet packet, std::uint32_t payload_bytes, guestmem::SpanReader& payload, FrameSink& sink) const;
  // The same without payload.
  bool send(const Packet& packet, FrameSink& sink) const;

  verbs::Engine& engine;  // borrowed, as the counters
  verbs::Connection connection;
  Envelope envelope;
  Counters& counters;
};

}  // namespace pvrdma::roce
