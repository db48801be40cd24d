// Two engines and a third one exchange messages on one stack while their shard finds out who makes its turns
// long. In each case one page of one guest sleeps, and only its owner may be blamed.
#include <string>

#include "base/blame.h"
#include "support/manual_clock.h"
#include "support/slow_pages.h"
#include "verbs/engine_fixture.h"

namespace pvrdma::verbs {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

constexpr std::uint32_t kMessageBytes = 3 * guestmem::kPageBytes;
constexpr std::uint32_t kUdQkey = 0x1122;
constexpr Duration kPageSleeps = 30ms;

class TimedGuest final : public Blame::Party {
 public:
  TimedGuest(Blame& blame, std::uint8_t host) : Party(blame), adapter(host) {
    adapter.engine.belong_to(this);
  }

  void on_blamed(Duration took) override { blamed += took; }
  std::string what() const override { return "a guest"; }

  // Posts `wr` and rings the doorbell, as a piece of this guest's work.
  void send(TestQp& qp, const SendWr& wr) {
    const Blame::Piece piece(blame(), this);
    adapter.send(qp, wr);
  }
  std::byte* at(const TestMr& mr, std::uint64_t offset) {
    return adapter.memory.at(mr.pages.at(offset / guestmem::kPageBytes));
  }
  std::byte* at(TestCq& queue) { return adapter.memory.at(queue.ring.slot(0)); }
  TestQp datagram_qp() {
    TestQp qp = adapter.make_qp(cq, cq, {.type = abi::QpType::kUd});
    abi::QpAttr attr{};
    attr.port_num = 1;
    attr.qkey = kUdQkey;
    EXPECT_TRUE(adapter.to_state(qp, abi::QpState::kInit,
                                 abi::kQpAttrPkeyIndex | abi::kQpAttrPort | abi::kQpAttrQkey, attr));
    EXPECT_TRUE(adapter.to_state(qp, abi::QpState::kRtr));
    EXPECT_TRUE(adapter.to_state(qp, abi::QpState::kRts, abi::kQpAttrSqPsn));
    return qp;
  }

  TestAdapter adapter;
  TestCq cq = adapter.make_cq();
  TestMr mr = adapter.make_mr(1u << 20);
  TestQp qp = adapter.make_qp(cq, cq);
  TestQp ud = datagram_qp();
  Duration blamed{0};
};

class TimedEngines : public ::testing::Test {
 protected:
  void SetUp() override {
    a_.adapter.wire.peer = &b_.adapter.engine;
    b_.adapter.wire.peer = &a_.adapter.engine;
    a_.adapter.connect(a_.qp, b_.adapter.endpoint(b_.qp), {.sq_psn = 1, .rq_psn = 2});
    b_.adapter.connect(b_.qp, a_.adapter.endpoint(a_.qp), {.sq_psn = 2, .rq_psn = 1});
    a_.adapter.fill(a_.mr, 0, kMessageBytes, 1);
    b_.adapter.fill(b_.mr, 0, kMessageBytes, 2);
    blame_.end_long_turn(clock_.now(), 0ms);
  }
  // A turn of the shard in which A executes a request towards B.
  void execute(abi::Opcode opcode) {
    b_.adapter.receive(b_.qp, {.wr_id = 50, .sges = {b_.mr.sge(0, kMessageBytes)}});
    blame_.begin_turn(clock_.now());
    a_.send(a_.qp, {.wr_id = 1,
                    .opcode = opcode,
                    .sges = {a_.mr.sge(0, kMessageBytes)},
                    .remote_addr = b_.mr.start,
                    .rkey = b_.mr.key});
    blame_.end_long_turn(clock_.now(), 0ms);
    EXPECT_THAT(a_.adapter.poll(a_.cq), ElementsAre(Completion{1}));
    EXPECT_EQ(a_.adapter.bytes(a_.mr, 0, kMessageBytes), b_.adapter.bytes(b_.mr, 0, kMessageBytes));
  }
  void send_datagram() {
    b_.adapter.receive(b_.ud, {.wr_id = 50, .sges = {b_.mr.sge(0, kMessageBytes)}});
    SendWr wr{.wr_id = 1, .opcode = abi::Opcode::kSend, .sges = {a_.mr.sge(0, 1000)}};
    wr.ud = abi::UdFields{.remote_qpn = b_.ud.qpn.value, .remote_qkey = kUdQkey, .av = {}};
    wr.ud->av.port_pd = 1u << 24;
    wr.ud->av.dgid.raw = b_.adapter.gid.bytes;
    blame_.begin_turn(clock_.now());
    a_.send(a_.ud, wr);
    blame_.end_long_turn(clock_.now(), 0ms);
    EXPECT_THAT(a_.adapter.poll(a_.cq), ElementsAre(Completion{1}));
    EXPECT_EQ(b_.adapter.bytes(b_.mr, 40, 1000), a_.adapter.bytes(a_.mr, 0, 1000));
  }
  // The second page is slow, so the message's first bytes do not tell.
  void slow_page_of(TimedGuest& guest, const std::byte* then = nullptr) {
    slow_.add(guest.at(guest.mr, guestmem::kPageBytes), then);
  }
  void expect_blamed(Duration a, Duration b) {
    EXPECT_EQ(a_.blamed, a);
    EXPECT_EQ(b_.blamed, b);
    EXPECT_EQ(other_.blamed, 0ms);
  }

  test::ManualClock clock_;
  Blame blame_{clock_};
  TimedGuest a_{blame_, 51};
  TimedGuest b_{blame_, 52};
  TimedGuest other_{blame_, 53};
  test::SlowPages slow_{kPageSleeps, &clock_};
};

class OneSidesMemory : public TimedEngines, public ::testing::WithParamInterface<abi::Opcode> {};

TEST_P(OneSidesMemory, OfTheRequester) {
  slow_page_of(a_);
  execute(GetParam());
  EXPECT_EQ(slow_.touched(), 1U);
  expect_blamed(kPageSleeps, 0ms);
}

TEST_P(OneSidesMemory, OfTheResponder) {
  slow_page_of(b_);
  execute(GetParam());
  EXPECT_EQ(slow_.touched(), 1U);
  expect_blamed(0ms, kPageSleeps);
}

// The page of one is slow again while the bytes are copied, because it sleeps after the touch.
TEST_P(OneSidesMemory, TheCopyItselfIsNobodys) {
  TimedGuest& source = GetParam() == abi::Opcode::kRdmaRead ? b_ : a_;
  TimedGuest& target = GetParam() == abi::Opcode::kRdmaRead ? a_ : b_;
  slow_page_of(target, source.at(source.mr, guestmem::kPageBytes));
  execute(GetParam());
  EXPECT_EQ(slow_.touched(), 2U);
  expect_blamed(&target == &a_ ? kPageSleeps : 0ms, &target == &b_ ? kPageSleeps : 0ms);
}

INSTANTIATE_TEST_SUITE_P(All, OneSidesMemory,
                         ::testing::Values(abi::Opcode::kRdmaWrite, abi::Opcode::kRdmaRead,
                                           abi::Opcode::kSend));

TEST_F(TimedEngines, TheMemoryOfADatagram) {
  slow_.add(a_.at(a_.mr, 0));
  send_datagram();
  expect_blamed(kPageSleeps, 0ms);
  slow_.add(b_.at(b_.mr, 0));
  send_datagram();
  EXPECT_EQ(slow_.touched(), 2U);
  expect_blamed(kPageSleeps, kPageSleeps);
}

TEST_F(TimedEngines, TheQueuesOfThePeerAreThePeers) {
  slow_.add(b_.at(b_.cq));
  execute(abi::Opcode::kSend);
  EXPECT_EQ(slow_.touched(), 1U);
  expect_blamed(0ms, kPageSleeps);
}

TEST_F(TimedEngines, AnAtomicSleepsInTheMemoryOfEither) {
  const auto add = [&] {
    blame_.begin_turn(clock_.now());
    a_.send(a_.qp, {.wr_id = 1,
                    .opcode = abi::Opcode::kAtomicFetchAndAdd,
                    .sges = {a_.mr.sge(0, 8)},
                    .remote_addr = b_.mr.start,
                    .rkey = b_.mr.key});
    blame_.end_long_turn(clock_.now(), 0ms);
    EXPECT_THAT(a_.adapter.poll(a_.cq), ElementsAre(Completion{1}));
  };
  slow_.add(b_.at(b_.mr, 0));
  add();
  expect_blamed(0ms, kPageSleeps);
  slow_.add(a_.at(a_.mr, 0));
  add();
  expect_blamed(kPageSleeps, kPageSleeps);
}

// The source lies with another shard, or in a socket: nobody here has a piece around the message.
TEST_F(TimedEngines, APayloadFromElsewhereIsNobodys) {
  class Elsewhere final : public Payload {
   public:
    explicit Elsewhere(test::ManualClock& clock) : clock_(clock) {}
    std::uint64_t bytes() const override { return 8; }
    bool copy_to(const guestmem::SpanList& /*target*/) override {
      clock_.sleep(kPageSleeps);
      return true;
    }

   private:
    test::ManualClock& clock_;
  } payload(clock_);
  Request write{.from = a_.adapter.endpoint(a_.qp), .to = b_.adapter.endpoint(b_.qp)};
  write.op = RequestOp::kWrite;
  write.number = MessageNumber(1);
  write.psn = Psn(1);
  write.message_bytes = write.bytes = 8;
  write.remote_addr = b_.mr.start;
  write.rkey = b_.mr.key;
  blame_.begin_turn(clock_.now());
  const Instant before = clock_.now();
  b_.adapter.engine.on_request(write, payload, b_.adapter.now);
  EXPECT_EQ(clock_.now() - before, kPageSleeps) << "it was copied";
  blame_.end_long_turn(clock_.now(), 0ms);
  expect_blamed(0ms, 0ms);
}

}  // namespace
}  // namespace pvrdma::verbs
