#include "transport/hca/hca.h"

#include <algorithm>
#include <array>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/network_order.h"
#include "transport/hca/hca_fixture.h"
#include "transport/hca/host_pipes.h"
#include "transport/hca/pipe.h"

namespace pvrdma::transport {
namespace {

using hca::HcaFixture;
using hca::kE810;
using hca::NicLimits;
using hca::PipeEnd;
using std::chrono::milliseconds;
using std::chrono::seconds;

class HcaTest : public HcaFixture {
 protected:
  // The time until `from` reports `to` as up.
  Duration time_until_up(Host& from, const Host& to) {
    const Instant start = clock_.now();
    EXPECT_TRUE(wait([&] { return from.hca->is_up(to.id); }));
    return clock_.now() - start;
  }
};

TEST_F(HcaTest, HostsThatKnowEachOtherAreUpSoon) {
  Host& a = add_host();
  Host& b = add_host();
  EXPECT_EQ(a.hca->trouble(b.id), "this host has no active HCA");
  meet();
  EXPECT_FALSE(a.hca->is_up(b.id));
  ASSERT_TRUE(wait([&] { return reach(a, b); }, milliseconds(500)));
  EXPECT_EQ(a.hca->trouble(b.id), "");
  EXPECT_EQ(a.told.changes, 1);
  EXPECT_EQ(a.told.restored, 1) << "what another path has under way may be lost";
  pass(seconds(100));
  EXPECT_TRUE(reach(a, b));
  EXPECT_EQ(a.told.changes, 1) << "nobody says anything, and it stands";
}

TEST_F(HcaTest, AMessageGoesInSlotsAndArrivesWhole) {
  Host& a = add_host();
  Host& b = add_host({}, kE810);
  join(a, b);
  std::vector<std::byte> data(300 * 1000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 >> 3);
  guestmem::SpanList spans;  // in several pieces
  for (std::size_t at = 0; at < 200 * 1000; at += 10 * 1000)
    ASSERT_TRUE(spans.append(data.data() + at + (at / 10000 % 2) * 100 * 1000 / 2, 5000));
  verbs::Path& way = path(a, b);
  const auto bytes = static_cast<std::uint32_t>(spans.bytes());
  ASSERT_EQ(way.room(bytes, clock_.now()), bytes);
  way.send_request(request(1, bytes), spans, clock_.now());
  a.hca->flush(clock_.now());
  ASSERT_TRUE(wait([&] { return b.told.received.size() == bytes; }));
  std::vector<std::byte> sent;
  for (const auto& span : spans) sent.insert(sent.end(), span.data, span.data + span.size);
  EXPECT_EQ(b.told.received, sent);
  EXPECT_EQ(b.told.requests.size(), (bytes + hca::kSlotPayload - 1) / hca::kSlotPayload);
  std::uint32_t offset = 0;
  for (const verbs::Request& piece : b.told.requests) {
    EXPECT_EQ(piece.offset, offset);
    offset += piece.bytes;
  }
  EXPECT_EQ(b.told.hosts[0], a.id);
  EXPECT_EQ(traffic_.payload_bytes, bytes);
  EXPECT_EQ(a.hca->counters().requests, 1U);
}

TEST_F(HcaTest, SmallMessagesOfATurnShareASlot) {
  Host& a = add_host();
  Host& b = add_host();
  join(a, b);
  verbs::Path& way = path(a, b);
  for (std::uint32_t i = 0; i < 30; ++i) {
    ASSERT_EQ(way.room(1, clock_.now()), 1U);
    way.send_request(request(i), {}, clock_.now());
  }
  a.hca->flush(clock_.now());
  ASSERT_TRUE(wait([&] { return b.told.requests.size() == 30; }));
  for (std::uint32_t i = 0; i < 30; ++i) EXPECT_EQ(b.told.requests[i].number, verbs::MessageNumber(i));
}

// The dialler asks for reads faster than the answers leave. The acceptor takes no request that it cannot
// answer, and the peer's receives never run out, which the simulated NIC would count as a crime.
TEST_F(HcaTest, AFloodOfReadsIsAnsweredInFull) {
  Host& a = add_host();
  Host& b = add_host();
  join(a, b);
  std::vector<std::byte> data(hca::kReadBytesMax);
  verbs::PathSlot back;
  Traffic traffic;
  b.hca->open({.host = a.id, .segment = kSegment}, {}, traffic, back);
  b.told.on_any_request = [&](const verbs::Request& asked) {
    verbs::Response response{.number = asked.number, .syndrome = verbs::Syndrome::kAck};
    response.op = verbs::RequestOp::kRead;
    response.from.qpn = response.to.qpn = verbs::Qpn(2);
    response.bytes = asked.bytes;
    guestmem::SpanList spans;
    ASSERT_TRUE(spans.append(data.data(), asked.bytes));
    back->send_response(response, spans, clock_.now());
  };
  verbs::Path& way = path(a, b);
  constexpr std::uint32_t kReads = 500;
  std::uint32_t asked = 0;
  ASSERT_TRUE(wait([&] {
    while (asked < kReads && way.room_to_ask(hca::kReadBytesMax, clock_.now()) != 0) {
      verbs::Request read = request(asked++, hca::kReadBytesMax);
      read.op = verbs::RequestOp::kRead;
      way.send_request(read, {}, clock_.now());
    }
    a.hca->flush(clock_.now());
    std::uint64_t bytes = 0;
    for (const verbs::Response& piece : a.told.responses) bytes += piece.bytes;
    return bytes == std::uint64_t{kReads} * hca::kReadBytesMax;
  }));
  EXPECT_EQ(b.hca->errors().responses_dropped, 0U);
  EXPECT_EQ(a.hca->errors().falls, 0U);
}

TEST_F(HcaTest, WhoFindsNoRoomIsToldOfIt) {
  Host& a = add_host();
  Host& b = add_host();
  join(a, b);
  verbs::Path& way = path(a, b);
  std::vector<std::byte> data(1 << 20);
  guestmem::SpanList spans;
  ASSERT_TRUE(spans.append(data.data(), data.size()));
  const std::uint32_t granted = way.room(1 << 20, clock_.now());
  EXPECT_LT(granted, 1U << 20) << "a part of it";
  spans.clear();
  ASSERT_TRUE(spans.append(data.data(), granted));
  way.send_request(request(1, granted), spans, clock_.now());
  EXPECT_EQ(way.room(1, clock_.now()), 0U);
  const int before = a.told.ready;
  ASSERT_TRUE(wait([&] { return a.told.ready != before; }));
  EXPECT_NE(way.room(1, clock_.now()), 0U);
}

TEST_F(HcaTest, APortThatGoesDownEndsItAtOnceAndThereIsAWayBack) {
  Host& a = add_host();
  Host& b = add_host();
  join(a, b);
  nics_.set_port(a.device, false);
  ASSERT_TRUE(wait([&] { return !a.hca->is_up(b.id); }, milliseconds(1)));
  EXPECT_EQ(a.hca->trouble(b.id), "port 1 of RDMA device rdma1 is down");
  EXPECT_EQ(a.told.restored, 2);
  ASSERT_TRUE(wait([&] { return !b.hca->is_up(a.id); })) << "its pings fail, or it hears nothing";
  nics_.set_port(a.device, true);
  const Duration first = time_until_up(a, b);
  EXPECT_GE(first, HcaTimes{}.proof_first);
  EXPECT_LE(first, seconds(8));
  nics_.set_port(a.device, false);
  ASSERT_TRUE(wait([&] { return !a.hca->is_up(b.id); }));
  nics_.set_port(a.device, true);
  EXPECT_GE(time_until_up(a, b), 2 * HcaTimes{}.proof_first)
      << "who fails again has to prove himself for longer";
  EXPECT_EQ(a.hca->peers()[0].falls, 2U);
}

TEST_F(HcaTest, ANetworkThatIsCutIsNoticedByBothAndUsedAgain) {
  Host& a = add_host();
  Host& b = add_host();
  join(a, b);
  nics_.cut(true);
  verbs::Path& way = path(a, b);
  way.send_request(request(1), {}, clock_.now());
  a.hca->flush(clock_.now());
  const Instant start = clock_.now();
  ASSERT_TRUE(wait([&] { return !a.hca->is_up(b.id); }));
  EXPECT_LE(clock_.now() - start, milliseconds(300)) << "its retries are used up";
  ASSERT_TRUE(wait([&] { return !b.hca->is_up(a.id); }, hca::kSilenceMax + seconds(1)));
  pass(seconds(30));
  EXPECT_FALSE(a.hca->is_up(b.id));
  EXPECT_EQ(way.room(1, clock_.now()), 0U);
  nics_.cut(false);
  ASSERT_TRUE(wait([&] { return reach(a, b); }));
  EXPECT_TRUE(b.told.requests.empty()) << "what was under way is lost";
}

TEST_F(HcaTest, ADeviceThatFailsIsClosedAndOpenedAgain) {
  Host& a = add_host();
  Host& b = add_host();
  join(a, b);
  nics_.destroy(a.device);
  ASSERT_TRUE(wait([&] { return !a.hca->is_up(b.id); }));
  pass(seconds(20));
  EXPECT_EQ(a.hca->trouble(b.id), "there is no RDMA device rdma1");
  nics_.add(a.device, hca::kConnectX5, {hca::link_local(1)});
  EXPECT_TRUE(wait([&] { return reach(a, b); }));
}

// The kernel may refuse a watch, for instance when the user has too many (fs.epoll.max_user_watches).
TEST_F(HcaTest, ADeviceWhoseEventsCannotBeWatchedIsTriedAgain) {
  Host& a = add_host();
  Host& b = add_host();
  const Fd events(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const Fd refused(::memfd_create("no events", MFD_CLOEXEC));
  const Fd more(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  nics_.set_event_fds(a.device, {events.get(), refused.get(), more.get()});
  meet();
  pass(seconds(20));
  EXPECT_NE(a.hca->trouble(b.id), "");
  nics_.set_event_fds(a.device, {events.get(), more.get()});
  EXPECT_TRUE(wait([&] { return reach(a, b); }));
  leave(a);
}

TEST_F(HcaTest, AHostThatStopsSaysSo) {
  Host& a = add_host();
  Host& b = add_host();
  join(a, b);
  leave(b);
  ASSERT_TRUE(wait([&] { return !a.hca->is_up({b.id}); }));
  EXPECT_EQ(a.told.restored, 2);
  pass(seconds(3));
  EXPECT_EQ(a.hca->trouble(b.id), "nobody is there");
}

TEST_F(HcaTest, WhoIsNoPeerAnyMoreIsReachedNoMore) {
  Host& a = add_host();
  Host& b = add_host();
  join(a, b);
  a.hca->configure({.device = a.device});
  ASSERT_TRUE(wait([&] { return !a.hca->is_up(b.id) && !b.hca->is_up(a.id); }));
  EXPECT_TRUE(a.hca->peers().empty());
  pass(seconds(5));
  EXPECT_EQ(b.hca->trouble(a.id), "host esx2 is not one of its HCA peers");
  meet();
  EXPECT_TRUE(wait([&] { return reach(a, b); }));
}

TEST_F(HcaTest, NobodyIsAskedWhomNoLaneReaches) {
  Host& a = add_host();
  Host& b = add_host();
  a.lanes = b.lanes = hca::LaneState::kDown;
  meet();
  pass(seconds(10));
  EXPECT_FALSE(a.hca->is_up(b.id));
  a.lanes = b.lanes = hca::LaneState::kUp;
  EXPECT_TRUE(wait([&] { return reach(a, b); }, milliseconds(200))) << "however long the lanes were away";
}

TEST_F(HcaTest, GidsWithoutACommonFamilyAreASentence) {
  Host& a = add_host({verbs::Gid{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}}});
  Host& b = add_host();
  HcaSettings settings = settings_of(a);
  settings.tagged = verbs::Gid{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}};
  a.hca->configure(settings);
  b.hca->configure(settings_of(b));
  pass(seconds(5));
  EXPECT_EQ(a.hca->trouble(b.id), "the hosts' HCAs have no GID of the same family");
  settings.tagged.reset();
  a.hca->configure(settings);
  pass(seconds(1));
  EXPECT_NE(a.hca->trouble(b.id).find("has no GID of RoCE v2"), std::string::npos) << a.hca->trouble(b.id);
}

TEST_F(HcaTest, ADeviceThatIsTooSmallIsASentence) {
  NicLimits small = kE810;
  small.work_requests = 32;
  Host& a = add_host({}, small);
  Host& b = add_host();
  meet();
  pass(seconds(5));
  EXPECT_EQ(
      a.hca->trouble(b.id),
      "RDMA device rdma1 allows 32 work requests and 1048574 completions in a queue; a pipe needs 64 and "
      "128");
  EXPECT_FALSE(b.hca->is_up(a.id));
}

TEST_F(HcaTest, OffersOfStrangersAreRefused) {
  Host& a = add_host();
  Host& b = add_host();
  join(a, b);
  const hca::PipeEndpoint end{.qpn = 99, .psn = 0, .mtu = 1024, .slots = 256};
  EXPECT_EQ(a.hca->answer("esx9", {end, {hca::link_local(9)}}).error().code, EACCES);
  EXPECT_EQ(a.hca->answer(b.name, {{}, {hca::link_local(9)}}).error().code, EPROTO);
  Host& c = add_host();
  EXPECT_EQ(c.hca->answer(b.name, {end, {hca::link_local(9)}}).error().code, EHOSTUNREACH);
  EXPECT_TRUE(reach(a, b));
}

TEST_F(HcaTest, ConfigurationMayRefuseAnyDevice) {
  Host& a = add_host();
  hca::Told told;
  Hca refusing(HcaOptions{.open = nullptr,
                          .introducer = a.introducer,
                          .worker = a.worker,
                          .lanes = [](HostId) { return hca::LaneState::kUp; },
                          .refused = "[hca] enabled is false on this host"},
               *loop_, clock_, told);
  refusing.configure({.device = "rdma1", .peers = {{HostId(2), "esx2"}}});
  pass(seconds(1));
  EXPECT_FALSE(refusing.is_up(HostId(2)));
  EXPECT_EQ(refusing.trouble(HostId(2)), "[hca] enabled is false on this host");
}

// --- A peer that breaks every rule. It has introduced itself as esx2. ---

class HostilePeer : public HcaTest {
 protected:
  static constexpr const char* kName = "esx2";

  HostilePeer() : a_(add_host()) {
    nics_.add("hostile", hca::kConnectX5, {hca::link_local(66)});
    nic_ = nics_.open("hostile", nobody_).value();
    a_.hca->configure({.device = a_.device, .peers = {{HostId(2), kName}}});
    pass(milliseconds(10));
  }
  ~HostilePeer() override {
    end_.reset();
    nic_.reset();
  }

  void dial() {
    end_.reset();
    end_ = PipeEnd::make(nic_, 1024).value();
    const hca::PipeOffer offer{end_->here(), {hca::link_local(66)}};
    const auto answer = a_.hca->answer(kName, offer);
    ASSERT_TRUE(answer) << answer.error().message;
    ASSERT_TRUE(end_->connect(answer->dialler, answer->acceptor, answer->end));
    sent_ = 0;
  }
  // Sends `frames` in one slot, after a head of 8 bytes that grants `granted` credits.
  void send(std::span<const std::byte> frames, std::uint32_t granted = 0) {
    const auto slot = static_cast<std::uint32_t>(sent_ % end_->slots());
    NetworkWriter writer(end_->send_slot(slot));
    writer.put(granted);
    writer.put(std::uint32_t{0});
    writer.put_bytes(frames.data(), frames.size());
    ASSERT_TRUE(end_->post_send(slot, static_cast<std::uint32_t>(hca::kPipeHeadBytes + frames.size()),
                                sent_++, false));
  }
  // Whether the pipe is broken: the QP that the peer was connected to is gone.
  bool is_thrown_out() {
    static_cast<void>(wait([&] { return nics_.objects() <= 4; }, seconds(1)));
    const std::uint64_t before = a_.told.requests.size();
    wire::Head head;
    send(wire::encode(next_++, kSegment, request(1), head));
    pass(milliseconds(500));
    return a_.told.requests.size() == before;
  }
  void dial_and_greet() {
    dial();
    next_ = 0;
    wire::Head head;
    send(wire::encode(next_++, kSegment, request(1), head));
    ASSERT_TRUE(wait([&] { return !a_.told.requests.empty(); }, seconds(1)));
  }

  struct Nobody final : hca::NicUser {
    void on_news(News) override {}
  } nobody_;
  Host& a_;
  std::shared_ptr<hca::Nic> nic_;
  std::unique_ptr<PipeEnd> end_;
  std::uint64_t sent_ = 0;
  std::uint64_t next_ = 0;
};

TEST_F(HostilePeer, IsHeardWhileItKeepsTheRules) {
  dial_and_greet();
  EXPECT_FALSE(is_thrown_out());
  EXPECT_EQ(a_.hca->errors().bad_frames, 0U);
}

TEST_F(HostilePeer, IsThrownOutForGarbage) {
  wire::Head head;
  const auto good = [&] { return wire::encode(next_, kSegment, request(2), head); };
  std::vector<std::byte> zeros(100);
  for (int kind = 0; kind < 5; ++kind) {
    SCOPED_TRACE(kind);
    a_.told.requests.clear();
    dial_and_greet();
    switch (kind) {
      case 0:  // not a frame
        send(zeros);
        break;
      case 1:  // a truncated frame
        send(good().first(good().size() - 1));
        break;
      case 2:  // a kind that only an acceptor sends
        send(wire::encode(next_, kSegment,
                          verbs::Response{.from = {{}, verbs::Qpn(2)}, .to = {{}, verbs::Qpn(2)}}, head));
        break;
      case 3:  // a write without its bytes
        send(wire::encode(next_, kSegment, request(2, 4096), head));
        break;
      case 4:  // more credits than possible
        send(good(), 100);
        break;
      default:
        break;
    }
    EXPECT_TRUE(is_thrown_out());
    EXPECT_EQ(a_.hca->errors().bad_frames, static_cast<std::uint64_t>(kind + 1));
  }
}

TEST_F(HostilePeer, IsThrownOutForAFrameThatIsNotTheNext) {
  dial_and_greet();
  wire::Head head;
  send(wire::encode(next_ - 1, kSegment, request(2), head));
  EXPECT_TRUE(is_thrown_out());
  EXPECT_EQ(a_.hca->errors().bad_sequence, 1U);
}

TEST_F(HostilePeer, LiesAboutItsGidAreCounted) {
  dial_and_greet();
  a_.told.verdict = Delivery::kForeignSource;
  wire::Head head;
  send(wire::encode(next_++, kSegment, request(2), head));
  pass(milliseconds(10));
  EXPECT_EQ(a_.hca->errors().foreign_sources, 1U);
}

// Each new pipe replaces the one before.
TEST_F(HostilePeer, HasOnePipeHoweverOftenItDials) {
  for (int i = 0; i < 50; ++i) {
    dial();
    pass(milliseconds(2));
  }
  EXPECT_LE(nics_.objects(), 6U);
  pass(seconds(4));
  EXPECT_LE(nics_.objects(), 4U) << "it said nothing";
}

TEST(HcaMemoryTest, PathsSayWhatIsMissing) {
  const auto note = [](const HcaMemory& memory) { return describe(memory, "VM-01"); };
  constexpr std::uint64_t kGiB = 1ULL << 30;
  EXPECT_EQ(note({}), "");
  EXPECT_EQ(note({.bytes = kGiB, .pinned_bytes = kGiB}), "");
  EXPECT_EQ(note({.bytes = 64 * kGiB, .pinned_bytes = 12 * kGiB}),
            "memory of VM-01 is being registered (12288 of 65536 MiB)");
  EXPECT_EQ(note({.bytes = kGiB, .trouble = "no room"}), "long payload of VM-01 is sent in pieces: no room");
}

}  // namespace
}  // namespace pvrdma::transport
