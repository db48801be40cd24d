#include "transport/local/local.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <gtest/gtest.h>

#include "guestmem/address_space.h"
#include "verbs/engine.h"

// Tests with whole adapters (tests/device, tests/sim) show how bytes get from guest to guest, and the
// answers. These tests show that a message arrives at the right engine at once and is counted.
namespace pvrdma::transport {
namespace {

struct NoEvents final : verbs::EventSink {
  void completion_event(verbs::CqHandle) override {}
  void async_event(abi::EventType, std::uint32_t) override {}
  void qp_failed(verbs::Qpn, std::string_view) override {}
};

class NoPort final : public verbs::SwitchPort {
 public:
  NoPort() : SwitchPort(generation_) {}
  bool send_datagram(const verbs::Datagram&, const guestmem::SpanList&, Instant) override { return true; }
  void flush(Instant) override {}
  bool bind_gid(const verbs::Gid&) override { return true; }
  void unbind_gid(const verbs::Gid&) override {}
  std::uint64_t set_stopped(bool) override { return 0; }

 private:
  void open_path(const verbs::Connection&, verbs::PathSlot&) override {}
  std::atomic<std::uint64_t> generation_ = 1;
};

struct Peer {
  guestmem::AddressSpace memory;
  NoEvents events;
  NoPort port;
  verbs::Account account{Budgets::none()};
  verbs::Engine engine{verbs::Limits{}, verbs::Rules{}, memory, events, port, account};

  // An engine without QPs drops and counts each message.
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
  Traffic traffic_;
  verbs::PathSlot path_;
};

TEST_F(LocalTest, DeliversToThePeerBeforeTheCallReturns) {
  local_.open({.engine = &peer_.engine}, {}, traffic_, path_);
  ASSERT_EQ(path_->room(1u << 30, now_), 1u << 30);
  path_->send_request(request_, payload_, now_);
  EXPECT_EQ(peer_.arrived(), 1U);
  path_->send_response(response_, nothing_, now_);
  EXPECT_EQ(peer_.arrived(), 2U);
  local_.send_datagram({.engine = &peer_.engine}, datagram_, payload_, traffic_, now_);
  EXPECT_EQ(peer_.arrived(), 3U);
  EXPECT_EQ(other_.arrived(), 0U);
}

TEST_F(LocalTest, CountsForEachAdapterAndForAll) {
  transport::Traffic others;
  verbs::PathSlot other_path;
  local_.open({.engine = &peer_.engine}, {}, traffic_, path_);
  local_.open({.engine = &other_.engine}, {}, others, other_path);
  path_->send_request(request_, payload_, now_);
  other_path->send_request(request_, payload_, now_);
  path_->send_response(response_, nothing_, now_);
  local_.send_datagram({.engine = &other_.engine}, datagram_, payload_, others, now_);
  EXPECT_EQ(local_.counters().requests, 2U);
  EXPECT_EQ(local_.counters().responses, 1U);
  EXPECT_EQ(local_.counters().datagrams, 1U);
  EXPECT_EQ(local_.counters().messages(), 4U);
  EXPECT_EQ(local_.counters().payload_bytes, 3 * bytes_.size());
  EXPECT_EQ(traffic_.messages, 2U);
  EXPECT_EQ(traffic_.payload_bytes, bytes_.size());
  EXPECT_EQ(others.messages, 2U);
  EXPECT_EQ(others.payload_bytes, 2 * bytes_.size());
}

}  // namespace
}  // namespace pvrdma::transport
