#include "transport/local/local.h"

#include <array>
#include <cstddef>
#include <gtest/gtest.h>

#include "guestmem/address_space.h"
#include "verbs/engine.h"

// The bytes' way from guest to guest, and the answers, are tested with whole adapters (tests/device,
// tests/sim). Here: a message arrives at the right engine, at once, and is counted.
namespace pvrdma::transport {
namespace {

struct NoEvents final : verbs::EventSink {
  void completion_event(verbs::CqHandle) override {}
  void async_event(abi::EventType, std::uint32_t) override {}
  void qp_failed(verbs::Qpn, std::string_view) override {}
};

struct NoWire final : verbs::Wire {
  verbs::Sent send_request(verbs::PeerRoute&, const verbs::Request&, const guestmem::SpanList&,
                           Instant) override {
    return verbs::Sent::kTaken;
  }
  void send_response(verbs::PeerRoute&, const verbs::Response&, const guestmem::SpanList&, Instant) override {
  }
  void send_datagram(const verbs::Datagram&, const guestmem::SpanList&, Instant) override {}
  void flush(Instant) override {}
  bool bind_gid(const verbs::Gid&) override { return true; }
  void unbind_gid(const verbs::Gid&) override {}
};

struct Peer {
  guestmem::AddressSpace memory;
  NoEvents events;
  NoWire wire;
  verbs::Engine engine{verbs::Limits{}, verbs::Rules{}, memory, events, wire};

  // An engine without QPs drops each message, and counts it.
  std::uint64_t arrived() const { return engine.counters().dropped_unknown_qp; }
};

class LocalTest : public testing::Test {
 protected:
  LocalTest() {
    EXPECT_TRUE(payload_.append(bytes_.data(), bytes_.size()));
    request_.to.qpn = response_.to.qpn = datagram_.to.qpn = verbs::Qpn{77};
    request_.message_bytes = request_.bytes = datagram_.bytes = static_cast<std::uint32_t>(bytes_.size());
  }

  const Instant now_{std::chrono::seconds(1)};
  std::array<std::byte, 64> bytes_{};
  guestmem::SpanList payload_;
  guestmem::SpanList nothing_;
  verbs::Request request_;
  verbs::Response response_;
  verbs::Datagram datagram_;
  Peer peer_;
  Peer other_;
  Local local_;
};

TEST_F(LocalTest, HasAName) {
  EXPECT_EQ(local_.name(), "local");
}

TEST_F(LocalTest, DeliversToThePeerBeforeTheCallReturns) {
  const auto channel = local_.open(peer_.engine);
  EXPECT_EQ(channel->send_request(request_, payload_, now_), verbs::Sent::kTaken);
  EXPECT_EQ(peer_.arrived(), 1U);
  channel->send_response(response_, nothing_, now_);
  EXPECT_EQ(peer_.arrived(), 2U);
  channel->send_datagram(datagram_, payload_, now_);
  EXPECT_EQ(peer_.arrived(), 3U);
  EXPECT_EQ(other_.arrived(), 0U);
}

TEST_F(LocalTest, CountsWhatAllItsChannelsCarry) {
  const auto channel = local_.open(peer_.engine);
  const auto other_channel = local_.open(other_.engine);
  channel->send_request(request_, payload_, now_);
  other_channel->send_request(request_, payload_, now_);
  channel->send_response(response_, nothing_, now_);
  other_channel->send_datagram(datagram_, payload_, now_);
  EXPECT_EQ(local_.counters().requests, 2U);
  EXPECT_EQ(local_.counters().responses, 1U);
  EXPECT_EQ(local_.counters().datagrams, 1U);
  EXPECT_EQ(local_.counters().messages(), 4U);
  EXPECT_EQ(local_.counters().payload_bytes, 3 * bytes_.size());
}

}  // namespace
}  // namespace pvrdma::transport
