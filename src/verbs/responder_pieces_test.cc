// The receive side of an RC QP when a message comes in pieces, twice in different pieces, or without its
// bytes.
#include "verbs/connected_qp_fixture.h"

namespace pvrdma::verbs {
namespace {

using abi::CompletionStatus;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ResponderPiecesTest : public ConnectedQp {
 protected:
  static constexpr std::uint32_t kBytes = 1000;

  // Bytes [from, to) of a message.
  Request cut(const Request& message, std::uint32_t from, std::uint32_t to) const {
    Request piece = message;
    piece.offset = from;
    piece.bytes = to - from;
    return piece;
  }
  void piece(const Request& message, std::uint32_t from, std::uint32_t to) {
    const auto data = TestAdapter::pattern_bytes(message.message_bytes, 4);
    ask(cut(message, from, to), {data.begin() + from, data.begin() + to});
  }
  void piece_without_bytes(const Request& message, std::uint32_t from, std::uint32_t to) {
    TestPayload never(std::vector<std::byte>(to - from), false);
    a.engine.on_request(cut(message, from, to), never, a.now);
  }
  Request with_immediate(Request message) const {
    message.extra = Extra::kImmediate;
    return message;
  }
  std::vector<std::pair<Syndrome, std::uint32_t>> said() {
    std::vector<std::pair<Syndrome, std::uint32_t>> out;
    for (const auto& one : answers()) out.emplace_back(one.message.syndrome, one.message.offset);
    return out;
  }
  bool landed(std::uint32_t bytes = kBytes) {
    return a.bytes(mr, 0, bytes) == TestAdapter::pattern_bytes(bytes, 4);
  }

  const Request send_ = request(RequestOp::kSend, kRqPsn, kBytes);
};

TEST_F(ResponderPiecesTest, ASendInPiecesIsDeliveredAndAckedOnce) {
  a.receive(qp, receive_of(1, 0, kBytes));
  piece(send_, 0, 1);
  piece(send_, 1, 700);
  EXPECT_THAT(receives_done(), IsEmpty());
  piece(send_, 700, kBytes);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1}));
  EXPECT_TRUE(landed());
}

TEST_F(ResponderPiecesTest, WithoutAReceiveThereIsOneAnswerForAllPieces) {
  for (const std::uint32_t at : {0u, 300u, 600u}) piece(send_, at, at + 300);
  piece(send_, 900, kBytes);
  ask(request(RequestOp::kWrite, kRqPsn + 1, 0));  // the next message is early too
  EXPECT_THAT(said(), ElementsAre(std::pair(Syndrome::kRnrNak, 0u)));
  a.receive(qp, receive_of(1, 0, kBytes));
  EXPECT_THAT(said(), ElementsAre(std::pair(Syndrome::kProgress, 0u)));
  piece(send_, 0, 600);
  piece(send_, 600, kBytes);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
  EXPECT_TRUE(landed());
}

TEST_F(ResponderPiecesTest, TheLastPieceOfAWriteMayFindNoReceive) {
  const Request message = with_immediate(request(RequestOp::kWrite, kRqPsn, kBytes));
  piece(message, 0, 600);
  piece(message, 600, kBytes);
  EXPECT_THAT(said(), ElementsAre(std::pair(Syndrome::kRnrNak, 600u)));
  a.receive(qp, receive_of(1, 0, 0));
  EXPECT_THAT(said(), ElementsAre(std::pair(Syndrome::kProgress, 600u)));
  piece(message, 500, kBytes);  // the refused bytes, cut in another way
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1}));
  EXPECT_TRUE(landed());
}

TEST_F(ResponderPiecesTest, AfterARefusedPieceTheRestIsSilence) {
  Request message = request(RequestOp::kWrite, kRqPsn, kBytes);
  message.rkey ^= 0x100;
  for (const std::uint32_t at : {0u, 250u, 500u, 750u}) piece(message, at, at + 250);
  EXPECT_EQ(answered().syndrome, Syndrome::kNakRemoteAccess);
  EXPECT_EQ(a.state(qp), abi::QpState::kErr);
}

TEST_F(ResponderPiecesTest, PiecesThatAreKnownInPartGoOnAndCountOnce) {
  a.receive(qp, receive_of(1, 0, kBytes));
  piece(send_, 0, 400);
  piece(send_, 0, 300);  // known
  piece(send_, 0, 400);  // known
  EXPECT_EQ(a.engine.counters().duplicates, 2u);
  piece(send_, 0, 500);
  piece(send_, 499, kBytes);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1}));
  EXPECT_TRUE(landed());
  EXPECT_EQ(a.engine.counters().rx_bytes, kBytes);
  piece(send_, 0, 500);
  piece(send_, 499, kBytes);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);  // the complete message is acknowledged again
  EXPECT_EQ(a.engine.counters().rx_messages, 1u);
  EXPECT_THAT(receives_done(), IsEmpty());
}

TEST_F(ResponderPiecesTest, AMissingPieceIsAskedForOnce) {
  a.receive(qp, receive_of(1, 0, kBytes));
  piece(send_, 0, 300);
  piece(send_, 600, 900);
  piece(send_, 900, kBytes);
  EXPECT_THAT(said(), ElementsAre(std::pair(Syndrome::kNakSequence, 300u)));
  piece(send_, 300, kBytes);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
  EXPECT_TRUE(landed());
}

TEST_F(ResponderPiecesTest, APieceWithoutItsBytesNeverCame) {
  a.receive(qp, receive_of(1, 0, kBytes));  // the first piece takes it, and it is kept
  piece_without_bytes(send_, 0, 400);
  piece_without_bytes(send_, 0, kBytes);
  EXPECT_THAT(answers(), IsEmpty());
  EXPECT_THAT(receives_done(), IsEmpty());
  EXPECT_EQ(a.engine.counters().rx_bytes, 0u);
  piece(send_, 400, kBytes);
  EXPECT_THAT(said(), ElementsAre(std::pair(Syndrome::kNakSequence, 0u)));
  piece(send_, 0, kBytes);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1}));
  EXPECT_EQ(a.engine.counters().rnr_naks_sent, 0u);
}

TEST_F(ResponderPiecesTest, AWriteWithoutItsLastBytesKeepsItsReceive) {
  const Request message = with_immediate(request(RequestOp::kWrite, kRqPsn, kBytes));
  a.receive(qp, receive_of(1, 0, 0));
  piece(message, 0, 600);
  piece_without_bytes(message, 600, kBytes);
  EXPECT_THAT(answers(), IsEmpty());
  piece(message, 600, kBytes);
  EXPECT_EQ(answered().syndrome, Syndrome::kAck);
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1}));
}

TEST_F(ResponderPiecesTest, AKeyIsLookedAtOnlyWithTheMessagesLastByte) {
  Request message = send_;
  message.extra = Extra::kInvalidate;
  message.extra_value = mr.key;  // a key that must not be invalidated, so the message will be refused
  a.receive(qp, receive_of(1, 0, kBytes));
  piece(message, 0, 600);
  piece_without_bytes(message, 600, kBytes);
  EXPECT_THAT(answers(), IsEmpty());
  EXPECT_EQ(a.state(qp), abi::QpState::kRts);
  piece(message, 300, kBytes);
  EXPECT_EQ(answered().syndrome, Syndrome::kNakRemoteAccess);
  EXPECT_THAT(receives_done(), ElementsAre(Completion{1, CompletionStatus::kLocalQpOperation}));
}

TEST_F(ResponderPiecesTest, ProgressOfALongMessageIsReported) {
  constexpr std::uint32_t kLong = 3 * kProgressBytes;
  const Request message = request(RequestOp::kWrite, kRqPsn, kLong);
  for (std::uint32_t at = 0; at < kLong; at += kPieceBytesMax) piece(message, at, at + kPieceBytesMax);
  EXPECT_THAT(said(), ElementsAre(std::pair(Syndrome::kProgress, kProgressBytes),
                                  std::pair(Syndrome::kProgress, 2 * kProgressBytes),
                                  std::pair(Syndrome::kAck, kLong - kPieceBytesMax)));
  EXPECT_TRUE(landed(kLong));
}

TEST_F(ResponderPiecesTest, ProgressIsNotBoundToPieces) {
  constexpr std::uint32_t kLong = 2 * kProgressBytes + 1;
  constexpr std::uint32_t kPiece = 200'000;
  a.receive(qp, receive_of(1, 0, kLong));
  const Request message = request(RequestOp::kSend, kRqPsn, kLong);
  for (std::uint32_t at = 0; at < kLong; at += kPiece) piece(message, at, std::min(kLong, at + kPiece));
  EXPECT_THAT(said(),
              ElementsAre(std::pair(Syndrome::kProgress, 3 * kPiece), std::pair(Syndrome::kAck, 5 * kPiece)));
  EXPECT_TRUE(landed(kLong));
}

// The progress report may have been lost, and a requester with a full window waits for it.
TEST_F(ResponderPiecesTest, ARepetitionHearsOfTheProgressAgain) {
  const Request message = request(RequestOp::kWrite, kRqPsn, 2 * kProgressBytes);
  for (int time = 0; time < 2; ++time) {
    for (std::uint32_t at = 0; at < 3 * kPieceBytesMax; at += kPieceBytesMax)
      piece(message, at, at + kPieceBytesMax);
  }
  EXPECT_THAT(said(), ElementsAre(std::pair(Syndrome::kProgress, kProgressBytes),
                                  std::pair(Syndrome::kProgress, 3 * kPieceBytesMax)));
}

// Only the first part of an answer arrived. The requester asks again from there, and its new request overlaps
// parts that were served.
TEST_F(ResponderPiecesTest, AReadMayBeAskedForAgainFromWithinItsServedPart) {
  const Request message = request(RequestOp::kRead, kRqPsn, kBytes);
  ask(cut(message, 0, 600));
  ask(cut(message, 100, 700));
  ask(cut(message, 100, 200));  // all of it was served before
  ask(cut(message, 650, kBytes));
  ask(request(RequestOp::kWrite, kRqPsn + 1, 0));
  EXPECT_THAT(said(), ElementsAre(std::pair(Syndrome::kAck, 0u), std::pair(Syndrome::kAck, 100u),
                                  std::pair(Syndrome::kAck, 100u), std::pair(Syndrome::kAck, 650u),
                                  std::pair(Syndrome::kAck, 0u)));
  EXPECT_EQ(a.engine.counters().rx_messages, 2u);
}

}  // namespace
}  // namespace pvrdma::verbs
