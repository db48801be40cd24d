// Nowhere: a path that drops and counts all messages, for a connection that has no peer or no means to reach
// it. It always has room. The guest learns of it when its time limit ends.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "verbs/path.h"

namespace pvrdma::transport {

class Nowhere final : public verbs::Path {
 public:
  // `taken` is borrowed and counts the messages. `why` has static storage: the clause for trouble().
  Nowhere(std::uint64_t& taken, std::string_view why) : taken_(taken), why_(why) {}

  bool leads_somewhere() const override { return false; }
  std::string trouble() const override { return std::string(why_); }
  std::uint32_t room(std::uint32_t wanted, Instant /*now*/) override { return wanted; }
  void send_request(const verbs::Request&, const guestmem::SpanList&, Instant) override { ++taken_; }
  void send_response(const verbs::Response&, const guestmem::SpanList&, Instant) override { ++taken_; }

 private:
  std::uint64_t& taken_;
  const std::string_view why_;
};

}  // namespace pvrdma::transport
