// A connection that began with packets continues with messages, for example because a native endpoint turns
// out to be a port of the cluster. The responder counted the two halves of a read as two packets' requests;
// the requester counts one read. The PSN tells what has been executed.
#include "verbs/connected_qp_fixture.h"
#include "verbs/queue_pair.h"

namespace pvrdma::verbs {
namespace {

using ::testing::IsEmpty;

constexpr std::uint32_t kMtu = 1024;  // as in ConnectOptions
constexpr std::uint32_t kHalf = 8 * kMtu;
constexpr std::uint32_t kHalfPackets = 8;

// The peer has sent a write, a read in two halves and a fetch-add. The peer counts them as 0, 1 and 2 from
// kRqPsn on, the QP here as 0, 1, 2 and 3. Their PSNs are 0, 1 to 16, and 17.
class PacketsToMessages : public ConnectedQp {
 protected:
  void SetUp() override {
    ConnectedQp::SetUp();
    by_packet(0, RequestOp::kWrite, 0, 8);
    read_half(1, 1, 0);
  }
  void other_half() { read_half(2, 1 + kHalfPackets, kHalf); }
  void fetch_add_by_packet() { by_packet(3, RequestOp::kFetchAdd, 1 + 2 * kHalfPackets, 8); }

  Request of(RequestOp op, std::uint32_t count, std::uint32_t packets, std::uint32_t bytes) const {
    Request made = request(op, kRqPsn + count, bytes);
    made.psn = Psn(kRqPsn + packets);
    made.compare_add = 1;
    return made;
  }
  void by_packet(std::uint32_t count, RequestOp op, std::uint32_t packets, std::uint32_t bytes) {
    Request made = of(op, count, packets, bytes);
    made.by_packet = true;
    op == RequestOp::kFetchAdd ? ask(made) : ask_filled(made);
    answers();
  }
  void read_half(std::uint32_t count, std::uint32_t packets, std::uint32_t offset) {
    Request half = of(RequestOp::kRead, count, packets, kHalf);
    half.remote_addr += offset;
    half.by_packet = true;
    EXPECT_TRUE(a.engine.accept_read(half, a.now));
  }
  Request whole_read() const { return of(RequestOp::kRead, 1, 1, 2 * kHalf); }
  Request fetch_add() const { return of(RequestOp::kFetchAdd, 2, 1 + 2 * kHalfPackets, 8); }
  Request write_behind() const { return of(RequestOp::kWrite, 3, 2 + 2 * kHalfPackets, 8); }
  // The QP adopts the peer's count.
  void expect_executes(const Request& due) {
    ask_filled(due, 7);
    const Response response = answered();
    EXPECT_EQ(response.syndrome, Syndrome::kAck);
    EXPECT_EQ(response.number, due.number);
    EXPECT_EQ(a.bytes(mr, 0, 8), TestAdapter::pattern_bytes(8, 7));
  }
};

TEST_F(PacketsToMessages, WhatIsDueIsExecuted) {
  other_half();
  fetch_add_by_packet();
  expect_executes(write_behind());
}

TEST_F(PacketsToMessages, WhatWasExecutedLastIsOnlyAnsweredAgain) {
  other_half();
  fetch_add_by_packet();
  const std::uint64_t word = a.word(mr, 0);
  ask(fetch_add());
  const Response response = answered();
  EXPECT_EQ(response.number, fetch_add().number);
  EXPECT_EQ(response.atomic_original, word - 1);
  EXPECT_EQ(a.word(mr, 0), word);
  expect_executes(write_behind());
}

TEST_F(PacketsToMessages, WhatWasExecutedBeforeConfirmsNothingBehindIt) {
  other_half();
  fetch_add_by_packet();
  const std::uint64_t word = a.word(mr, 0);
  ask_filled(of(RequestOp::kWrite, 0, 0, 8), 9);
  EXPECT_EQ(answered().number, MessageNumber(kRqPsn)) << "not the newest: the peer counts otherwise";
  EXPECT_EQ(a.word(mr, 0), word);
  ask(whole_read());
  EXPECT_EQ(answered().bytes, 2 * kHalf);
  expect_executes(write_behind());
}

TEST_F(PacketsToMessages, AnOlderAtomicIsAnsweredAgain) {
  other_half();
  fetch_add_by_packet();
  by_packet(4, RequestOp::kFetchAdd, 2 + 2 * kHalfPackets, 8);
  const std::uint64_t word = a.word(mr, 0);
  ask(fetch_add());
  EXPECT_EQ(answered().atomic_original, word - 2);
  EXPECT_EQ(a.word(mr, 0), word);
}

TEST_F(PacketsToMessages, AReadOfWhichOnlyTheFirstHalfWasAskedForGoesOn) {
  ask(whole_read());
  EXPECT_EQ(answered().bytes, 2 * kHalf);
  ask(fetch_add());
  EXPECT_EQ(answered().number, fetch_add().number);
}

TEST_F(PacketsToMessages, WhatIsEarlyIsNotExecuted) {
  ask_filled(write_behind(), 7);
  EXPECT_THAT(answers(), IsEmpty()) << "there is no number to name";
  EXPECT_NE(a.bytes(mr, 0, 8), TestAdapter::pattern_bytes(8, 7));
  ask(whole_read());
  ask(fetch_add());
  answers();
  expect_executes(write_behind());
}

// The read's second half is due, and a request that is no read claims to begin before it.
TEST_F(PacketsToMessages, OnlyAReadCanBeHalfExecuted) {
  ask_filled(of(RequestOp::kWrite, 1, 1, 2 * kHalf), 7);
  EXPECT_THAT(answers(), IsEmpty());
  EXPECT_NE(a.bytes(mr, 0, 8), TestAdapter::pattern_bytes(8, 7));
}

}  // namespace
}  // namespace pvrdma::verbs
