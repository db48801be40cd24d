// Nowhere: a path that has room, takes everything, and counts it: there is nobody to send to, or no means to.
// The sender's time limit tells its guest.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>

#include "verbs/path.h"

namespace pvrdma::transport {

class Nowhere final : public verbs::Path {
 public:
  // Borrowed: counts the messages.
  explicit Nowhere(std::uint64_t& taken) : taken_(taken) {}

  bool leads_somewhere() const override { return false; }
  std::uint32_t room(std::uint32_t wanted, Instant /*now*/) override { return wanted; }
  void send_request(const verbs::Request&, const guestmem::SpanList&, Instant) override { ++taken_; }
  void send_response(const verbs::Response&, const guestmem::SpanList&, Instant) override { ++taken_; }

 private:
  std::uint64_t& taken_;
};

}  // namespace pvrdma::transport
