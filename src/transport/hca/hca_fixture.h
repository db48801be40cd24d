// Shared by the tests of the path hca: hosts with simulated NICs in one loop. Each host has an Inbound that
// records what it is told. Thread: one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "shard/loop.h"
#include "support/manual_clock.h"
#include "transport/hca/fake_nic.h"
#include "transport/hca/fake_surroundings.h"
#include "transport/hca/hca.h"

namespace pvrdma::transport::hca {

struct Told final : Inbound {
  Delivery on_request(HostId from, PathKind, SegmentId segment, const verbs::Request& request,
                      verbs::Payload& payload, Instant) override {
    EXPECT_EQ(segment, wanted_segment);
    requests.push_back(request);
    hosts.push_back(from);
    std::vector<std::byte> bytes(payload.bytes());
    guestmem::SpanList into;
    EXPECT_TRUE(into.append(bytes.data(), bytes.size()));
    EXPECT_TRUE(payload.copy_to(into));
    received.insert(received.end(), bytes.begin(), bytes.end());
    if (on_any_request) on_any_request(request);
    return verdict;
  }
  Delivery on_response(HostId, SegmentId, const verbs::Response& response, verbs::Payload& payload,
                       Instant) override {
    responses.push_back(response);
    EXPECT_EQ(payload.bytes(), response.bytes);
    return verdict;
  }
  Delivery on_datagram(HostId, SegmentId, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                       Instant) override {
    EXPECT_EQ(payload.bytes(), datagram.bytes);
    ++datagrams;
    return verdict;
  }
  void on_ready(HostId, Instant) override { ++ready; }
  void on_restored(HostId, Instant) override { ++restored; }
  void on_up_changed(HostId, Instant) override { ++changes; }

  SegmentId wanted_segment{.dvs = 7, .vlan = 11};
  Delivery verdict = Delivery::kDelivered;
  std::function<void(const verbs::Request&)> on_any_request;
  std::vector<verbs::Request> requests;
  std::vector<HostId> hosts;
  std::vector<std::byte> received;
  std::vector<verbs::Response> responses;
  int datagrams = 0;
  int ready = 0;
  int restored = 0;
  int changes = 0;
};

inline verbs::Gid link_local(std::uint8_t last) {
  verbs::Gid gid{{0xfe, 0x80}};
  gid.bytes[15] = last;
  return gid;
}

class HcaFixture : public testing::Test {
 protected:
  static constexpr SegmentId kSegment{.dvs = 7, .vlan = 11};

  // A shard of a host.
  struct Host {
    Host(HcaFixture& of, std::uint32_t number, std::string the_name, ShardNumber the_shard)
        : name(std::move(the_name)),
          shard(the_shard),
          device("rdma" + std::to_string(number)),
          id(number),
          introducer(of.book_, name) {}
    const std::string name;
    const ShardNumber shard;
    const std::string device;
    const HostId id;
    Told told;
    LaterWorker worker;
    DirectIntroducer introducer;
    std::unique_ptr<Hca> hca;
    LaneState lanes = LaneState::kUp;
  };

  HcaFixture() {
    log::set_level(log::Level::kError);
    nics_.set_on_shard([this] { return on_shard_ && !LaterWorker::works(); });
    loop_->add(nics_);
  }
  ~HcaFixture() override {
    for (auto& host : hosts_) leave(*host);
    loop_->remove(nics_);
    EXPECT_EQ(nics_.crimes(), 0U);
    EXPECT_EQ(nics_.objects(), 0U) << "QPs and regions that nobody destroyed";
  }

  Host& add_host(std::vector<verbs::Gid> gids = {}, const NicLimits& limits = kConnectX5) {
    return add("esx" + std::to_string(hosts_.size() + 1), {}, std::move(gids), limits);
  }
  // Another shard of `first`'s host.
  Host& add_shard(const Host& first, std::uint16_t shard) { return add(first.name, ShardNumber(shard)); }
  Host& add(const std::string& name, ShardNumber shard, std::vector<verbs::Gid> gids = {},
            const NicLimits& limits = kConnectX5) {
    const auto number = static_cast<std::uint32_t>(hosts_.size() + 1);
    Host& host = *hosts_.emplace_back(std::make_unique<Host>(*this, number, name, shard));
    if (gids.empty()) gids = {link_local(static_cast<std::uint8_t>(number))};
    nics_.add(host.device, limits, std::move(gids));
    loop_->add(host.worker);
    host.hca = std::make_unique<Hca>(
        HcaOptions{.open = [this](const std::string& name, NicUser& user) { return nics_.open(name, user); },
                   .introducer = host.introducer,
                   .worker = host.worker,
                   .lanes = [&host](HostId) { return host.lanes; },
                   .shard = shard},
        *loop_, clock_, host.told);
    book_.hosts[{host.name, host.shard}] = host.hca.get();
    return host;
  }
  void leave(Host& host) {
    if (host.hca == nullptr) return;
    book_.hosts.erase({host.name, host.shard});
    on_shard_ = true;
    host.hca.reset();
    on_shard_ = false;
    while (host.worker.run({})) {
    }
    loop_->remove(host.worker);
  }
  // Introduces all hosts to each other.
  void meet() {
    for (auto& host : hosts_) host->hca->configure(settings_of(*host));
  }
  HcaSettings settings_of(const Host& host) const {
    HcaSettings settings{.device = host.device};
    for (const auto& other : hosts_) {
      if (other->name != host.name) settings.peers.push_back({other->id, other->name, other->shard});
    }
    return settings;
  }

  bool turn() {
    on_shard_ = true;
    const bool worked = loop_->turn(Duration{0});
    on_shard_ = false;
    return worked;
  }
  // Advances time from deadline to deadline until `done` holds. False: it did not hold within `most`.
  template <typename Done>
  [[nodiscard]] bool wait(Done done, Duration most = std::chrono::seconds(300)) {
    const Instant end = clock_.now() + most;
    while (!done()) {
      if (turn()) {
        clock_.advance(std::chrono::microseconds(1));
        continue;
      }
      Instant next = nics_.next_deadline();
      for (const auto& host : hosts_) {
        if (host->hca) next = std::min({next, host->hca->next_deadline(), host->worker.next_deadline()});
      }
      if (clock_.now() >= end || next == Instant::never()) return done();
      clock_.set(std::min(end, std::max(clock_.now() + std::chrono::microseconds(1), next)));
    }
    return true;
  }
  void pass(Duration time) {
    const Instant end = clock_.now() + time;
    static_cast<void>(wait([&] { return clock_.now() >= end; }, time));
  }
  static bool reach(const Host& a, const Host& b) { return a.hca->is_up(b.id) && b.hca->is_up(a.id); }
  void join(Host& a, Host& b) {
    meet();
    ASSERT_TRUE(wait([&] { return reach(a, b); }));
  }

  verbs::Path& path(Host& from, const Host& to) {
    from.hca->open({.host = to.id, .segment = kSegment}, {}, traffic_, slot_);
    return *slot_;
  }
  // A write of `bytes` bytes with this number and PSN.
  static verbs::Request request(std::uint32_t number, std::uint32_t bytes = 0) {
    verbs::Request made{.number = verbs::MessageNumber(number), .psn = verbs::Psn(number)};
    made.op = verbs::RequestOp::kWrite;
    made.from.qpn = made.to.qpn = verbs::Qpn(2);
    made.message_bytes = made.bytes = bytes;
    return made;
  }

  test::ManualClock clock_;
  FakeNetwork nics_{7, clock_};  // outlives the jobs left in the loop
  std::unique_ptr<shard::Loop> loop_ = shard::Loop::create({}, clock_).value();
  HostBook book_;
  std::vector<std::unique_ptr<Host>> hosts_;
  Traffic traffic_;
  verbs::PathSlot slot_;
  bool on_shard_ = false;
};

}  // namespace pvrdma::transport::hca
