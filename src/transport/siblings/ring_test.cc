#include "transport/siblings/ring.h"

#include <gtest/gtest.h>
#include <memory>
#include <poll.h>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "support/manual_clock.h"
#include "transport/siblings/ring_fixture.h"

namespace pvrdma::transport::siblings {
namespace {

using test::kSegment, test::Memory, test::request, test::response;

class RingTest : public testing::Test {
 protected:
  explicit RingTest(Position first = 0) : way_(*bell_, first) {}

  RingWriter::Sender sender(std::uint32_t rkey = 0) { return {share_, this, verbs::Qpn(5), rkey}; }
  // Sends a request as a path does, and says whether there was room.
  bool send(std::uint32_t number, std::uint32_t bytes = 0) { return send_as(share_, number, bytes); }
  bool send_as(RingWriter::Share& share, std::uint32_t number, std::uint32_t bytes = 0) {
    if (!way_.writer.has_room(share)) return false;
    Memory source(bytes);
    source.fill(number);
    return way_.writer.send(request(number, bytes), kSegment, {share, this, verbs::Qpn(5)}, source.spans());
  }
  bool lend(std::uint32_t number, const Memory& source) {
    if (!way_.writer.has_room(share_)) return false;
    return way_.writer.lend(request(number, static_cast<std::uint32_t>(source.spans().bytes())), kSegment,
                            sender(), source.spans());
  }
  // The number of the next message, whose payload is checked; 0: there is none; -1: it was lost.
  std::int64_t read() {
    const Slot* const slot = way_.reader.next();
    if (slot == nullptr) return 0;
    const std::uint32_t number = slot->message.request.number.value;
    EXPECT_EQ(slot->segment(), kSegment);
    Memory target(slot->payload_bytes());
    const bool copied = SlotPayload(*way_.ring, *slot, blame_, nullptr).copy_to(target.spans());
    EXPECT_TRUE(!copied || target.has(number)) << number;
    way_.reader.pass();
    return copied ? std::int64_t{number} : -1;
  }
  std::vector<std::int64_t> read_all() {
    std::vector<std::int64_t> numbers;
    for (std::int64_t each = read(); each != 0; each = read()) numbers.push_back(each);
    return numbers;
  }
  std::vector<std::uint32_t> revoke_all() {
    std::vector<std::uint32_t> numbers;
    way_.writer.revoke(
        [](const auto&, const Slot&) { return true; },
        [&](const auto&, const Slot& slot) { numbers.push_back(slot.message.request.number.value); });
    return numbers;
  }
  static bool is_rung(const Bell& bell) {
    pollfd fd{bell.fd(), POLLIN, 0};
    return ::poll(&fd, 1, 0) == 1;
  }

  pvrdma::test::ManualClock clock_;
  Blame blame_{clock_};
  const std::unique_ptr<Bell> bell_ = Bell::create().value();  // the writer's
  test::Direction way_;
  RingWriter::Share share_;
};

using Numbers = std::vector<std::int64_t>;

TEST_F(RingTest, CarriesPayloadInTheSlotBesideItAndLent) {
  Memory source(100'000, 7);
  source.fill(5);
  ASSERT_TRUE(send(1, 0) && send(2, kInSlotBytesMax) && send(3, kInSlotBytesMax + 1) &&
              send(4, kCopyBytesMax) && lend(5, source));
  const std::array where{Where::kInSlot, Where::kInSlot, Where::kBeside, Where::kBeside, Where::kLent};
  for (std::size_t i = 0; i < where.size(); ++i) EXPECT_EQ(way_.ring->slots[i].where, where[i]);
  EXPECT_EQ(read_all(), (Numbers{1, 2, 3, 4, 5}));
}

TEST_F(RingTest, CarriesEachKindOfMessage) {
  verbs::Datagram datagram;
  datagram.qkey = 77;
  ASSERT_TRUE(way_.writer.send(response(3), kSegment, sender(), {}) &&
              way_.writer.send(datagram, kSegment, sender(), {}));
  const Slot* slot = way_.reader.next();
  EXPECT_EQ(slot->kind, MessageKind::kResponse);
  EXPECT_EQ(slot->message.response.number, verbs::MessageNumber(3));
  way_.reader.pass();
  slot = way_.reader.next();
  EXPECT_EQ(slot->kind, MessageKind::kDatagram);
  EXPECT_EQ(slot->message.datagram.qkey, 77U);
}

TEST_F(RingTest, ReadsNoPayloadOfARequestThatAsksForBytes) {
  verbs::Request asks = request(1, 1000);
  asks.op = verbs::RequestOp::kRead;
  ASSERT_TRUE(way_.writer.send(asks, kSegment, sender(), {}));
  EXPECT_EQ(way_.reader.next()->payload_bytes(), 0U);
}

// Where the positions begin again, with messages of all sizes, so that spans and copies wrap, too.
class WrappingRingTest : public RingTest {
 protected:
  WrappingRingTest() : RingTest(kPositionMask - 700) {}
};

TEST_F(WrappingRingTest, KeepsOrderAndContentOverAllWraps) {
  std::vector<std::unique_ptr<Memory>> lent;
  std::uint32_t sent = 0;
  std::uint32_t seen = 0;
  while (seen < 3000) {
    for (std::uint32_t burst = sent % 97; burst != 0; --burst) {
      const std::uint32_t number = sent + 1;
      if (number % 5 == 0) {
        lent.push_back(std::make_unique<Memory>(600 + number, 1 + number % 160));
        lent.back()->fill(number);
        if (!lend(number, *lent.back())) break;
      } else if (!send(number, number * 37 % (kCopyBytesMax + 1))) {
        break;
      }
      ++sent;
    }
    if (sent % 97 == 0) sent += send(sent + 1) ? 1 : 0;
    for (std::uint32_t burst = seen % 61 + 1; burst != 0; --burst) {
      const std::int64_t number = read();
      if (number == 0) break;
      ASSERT_EQ(number, ++seen);
    }
  }
}

TEST_F(RingTest, OneAdapterFillsNoMoreThanHalfOfTheSlots) {
  RingWriter::Share other;
  std::uint32_t sent = 0;
  while (send(sent + 1)) ++sent;
  EXPECT_EQ(sent, kSlots / 2);
  std::uint32_t others = 0;
  while (send_as(other, sent + others + 1)) ++others;
  EXPECT_EQ(others, kSlots / 2 - 1) << "one slot is for an answer";
  EXPECT_EQ(read_all().size(), sent + others);
  EXPECT_TRUE(way_.writer.has_room_again());
  EXPECT_TRUE(send(1));
  EXPECT_EQ(share_.slots, 1U);
  EXPECT_EQ(other.slots, 0U);
}

// The first adapter waits when the second one asks, too, and finds the slots reclaimed.
TEST_F(RingTest, AnAdapterHearsOfRoomAlsoIfAnotherIsDeniedMeanwhile) {
  RingWriter::Share full{.slots = kSlots / 2};
  std::uint32_t sent = 0;
  while (send(sent + 1)) ++sent;
  read_all();
  EXPECT_FALSE(way_.writer.has_room(full));
  RingWriter::Share other;
  EXPECT_TRUE(way_.writer.has_room(other));
  EXPECT_FALSE(way_.writer.has_room(full)) << "the slots are reclaimed now, but its own are not";
  EXPECT_TRUE(way_.writer.has_room_again());
  EXPECT_TRUE(send(1));
}

TEST_F(RingTest, OneAdapterLendsNoMoreThanHalfOfTheBytes) {
  Memory source(verbs::kPieceBytesMax);
  source.fill(1);
  ASSERT_TRUE(lend(1, source) && lend(1, source));
  EXPECT_FALSE(lend(1, source)) << "512 KiB are lent";
  RingWriter::Share other;
  EXPECT_TRUE(send_as(other, 2));
  EXPECT_EQ(read(), 1);
  EXPECT_TRUE(lend(1, source)) << "what is read is not lent any more";
}

TEST_F(RingTest, SpansBoundWhatIsLent) {
  Memory source(guestmem::SpanList::kCapacity, guestmem::SpanList::kCapacity);
  source.fill(1);
  std::uint32_t lent = 0;
  while (lend(1, source)) ++lent;
  EXPECT_EQ(lent, kSpans / guestmem::SpanList::kCapacity);
  EXPECT_EQ(read_all().size(), lent);
  EXPECT_TRUE(lend(1, source));
}

// All of them are fewer than the messages after which the reader says how far it has read.
TEST_F(RingTest, AWriterThatWaitsForCopiesHearsOfTheLastOnes) {
  std::uint32_t sent = 0;
  while (send(sent + 1, kCopyBytesMax)) ++sent;
  EXPECT_EQ(sent, kLines * kCacheLine / kCopyBytesMax);
  bell_->lie_down();
  EXPECT_FALSE(way_.writer.has_room_again());
  EXPECT_EQ(read_all().size(), sent);
  EXPECT_TRUE(is_rung(*bell_));
  EXPECT_TRUE(way_.writer.has_room_again());
  EXPECT_FALSE(way_.writer.has_room_again()) << "it is told once";
  EXPECT_TRUE(send(1, kCopyBytesMax));
}

TEST_F(RingTest, AReaderThatSleepsHasSaidHowFarItHasRead) {
  for (std::uint32_t number = 1; number <= 3; ++number) ASSERT_TRUE(send(number));
  ASSERT_EQ(read_all().size(), 3U);
  EXPECT_EQ(way_.ring->head, 0U);
  way_.reader.before_sleep();
  EXPECT_EQ(way_.ring->head, 3U);
  EXPECT_FALSE(way_.reader.has_something());
  ASSERT_TRUE(send(4));
  EXPECT_TRUE(way_.reader.has_something());
}

TEST_F(RingTest, WhatIsRevokedIsNotReadAndNamedNewestFirst) {
  Memory source(5000);
  source.fill(2);
  ASSERT_TRUE(send(1, 10) && lend(2, source) && send(3, 300));
  EXPECT_EQ(revoke_all(), (std::vector<std::uint32_t>{3, 2, 1}));
  EXPECT_EQ(share_.lent_bytes, 0U);
  EXPECT_EQ(share_.slots, 3U) << "until the reader has passed them";
  EXPECT_EQ(revoke_all(), std::vector<std::uint32_t>{});
  ASSERT_TRUE(send(4));
  EXPECT_EQ(read_all(), (Numbers{4}));
  EXPECT_EQ(way_.writer.counters().revoked, 3U);
}

TEST_F(RingTest, ALentMessageThatIsRevokedAfterItWasSeenIsLost) {
  Memory source(5000);
  source.fill(1);
  Memory target(5000);
  ASSERT_TRUE(lend(1, source));
  const Slot* const slot = way_.reader.next();
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(revoke_all(), (std::vector<std::uint32_t>{1}));
  EXPECT_FALSE(SlotPayload(*way_.ring, *slot, blame_, nullptr).copy_to(target.spans()));
  EXPECT_FALSE(target.has(1));
}

// Its VMM may let the reader's thread sleep there.
TEST_F(RingTest, ReadingLentMemoryIsAPieceOfTheLender) {
  class Lender final : public Blame::Party {
   public:
    using Party::Party;
    void on_blamed(Duration took) override { blamed = took; }
    std::string what() const override { return "the lender"; }
    Duration blamed{0};
  };
  const pvrdma::test::ManualClock slow_clock(Blame::kLongPiece);
  Blame blame(slow_clock);
  Lender lender(blame);
  Memory source(5000);
  Memory target(5000);
  const auto read_as_piece = [&] {
    const Slot* const slot = way_.reader.next();
    EXPECT_TRUE(SlotPayload(*way_.ring, *slot, blame, &lender).copy_to(target.spans()));
    way_.reader.pass();
    blame.end_long_turn({}, {});
    blame.begin_turn({});
    return std::exchange(lender.blamed, {});
  };
  ASSERT_TRUE(lend(1, source));
  EXPECT_EQ(read_as_piece(), Duration(0)) << "nobody watches yet";
  ASSERT_TRUE(lend(2, source));
  EXPECT_EQ(read_as_piece(), Blame::kLongPiece);
  ASSERT_TRUE(send(3, 1000));
  Memory small(1000);
  const Slot* const slot = way_.reader.next();
  EXPECT_TRUE(SlotPayload(*way_.ring, *slot, blame, &lender).copy_to(small.spans()));
  blame.end_long_turn({}, {});
  EXPECT_EQ(lender.blamed, Duration(0)) << "the bytes are in the ring";
}

TEST_F(RingTest, WhatWasReadCannotBeRevoked) {
  Memory source(5000);
  source.fill(1);
  ASSERT_TRUE(lend(1, source) && lend(1, source));
  EXPECT_EQ(read(), 1);
  EXPECT_EQ(revoke_all(), (std::vector<std::uint32_t>{1})) << "the second one";
  EXPECT_EQ(read(), 0);
}

TEST_F(RingTest, AfterAStopNewMessagesWaitUntilItIsAnnounced) {
  ASSERT_TRUE(send(1));
  revoke_all();
  way_.writer.hold();
  EXPECT_FALSE(send(2));
  EXPECT_TRUE(way_.writer.has_room_for_datagram(share_)) << "it belongs to no connection";
  EXPECT_FALSE(way_.writer.has_room_again());
  way_.writer.release();
  EXPECT_TRUE(way_.writer.has_room_again());
  EXPECT_TRUE(send(1));
}

TEST_F(RingTest, LentAnswersAreReturnedWhenTheyAreRead) {
  Memory source(2000);
  source.fill(1);
  std::uint32_t lent = 0;
  while (way_.writer.has_room_for_answers() &&
         way_.writer.lend(response(1, 2000), kSegment, sender(lent + 100), source.spans()))
    ++lent;
  EXPECT_EQ(lent, RingWriter::kLentAnswersMax);
  EXPECT_FALSE(way_.writer.has_room_again());
  RingWriter::Returned returned;
  EXPECT_FALSE(way_.writer.take_returned(returned));
  way_.reader.pass();
  ASSERT_TRUE(way_.writer.take_returned(returned));
  EXPECT_EQ(returned.share, &share_);
  EXPECT_EQ(returned.qpn, verbs::Qpn(5));
  EXPECT_EQ(returned.rkey, 100U);
  EXPECT_FALSE(way_.writer.take_returned(returned));
  EXPECT_TRUE(way_.writer.has_room_for_answers());
}

// Nothing takes returned answers before the shard sleeps.
TEST_F(RingTest, AWriterThatWaitsForLentAnswersHearsOfTheirReturn) {
  Memory source(2000);
  source.fill(1);
  while (way_.writer.has_room_for_answers())
    ASSERT_TRUE(way_.writer.lend(response(1, 2000), kSegment, sender(), source.spans()));
  EXPECT_EQ(read_all().size(), RingWriter::kLentAnswersMax);
  EXPECT_TRUE(way_.writer.has_room_again());
  RingWriter::Returned returned;
  EXPECT_TRUE(way_.writer.take_returned(returned));
  EXPECT_TRUE(way_.writer.has_room_for_answers());
}

TEST_F(RingTest, ARevokedAnswerIsNotReturnedAndTheReaderIsTold) {
  Memory source(2000);
  ASSERT_TRUE(way_.writer.lend(response(1, 2000), kSegment, sender(9), source.spans()));
  revoke_all();
  EXPECT_TRUE(way_.writer.take_unflushed());
  way_.writer.tell_restored();
  EXPECT_TRUE(way_.writer.take_unflushed()) << "the reader may sleep";
  EXPECT_TRUE(way_.reader.has_something());
  EXPECT_TRUE(way_.reader.take_restored());
  EXPECT_FALSE(way_.reader.take_restored());
  EXPECT_EQ(way_.reader.next(), nullptr);
  RingWriter::Returned returned;
  EXPECT_FALSE(way_.writer.take_returned(returned));
}

TEST_F(RingTest, NothingRefersToAnAdapterThatHasEnded) {
  auto gone = std::make_unique<RingWriter::Share>();
  ASSERT_TRUE(send_as(*gone, 1));
  revoke_all();
  way_.writer.forget(*gone);
  gone.reset();
  ASSERT_TRUE(send(2));
  EXPECT_EQ(read_all(), (Numbers{2}));
  way_.reader.before_sleep();
  EXPECT_TRUE(send(3)) << "reclaims both";
}

TEST_F(RingTest, OnlyASleeperIsRungFor) {
  full_fence();
  EXPECT_FALSE(bell_->ring());
  bell_->lie_down();
  EXPECT_TRUE(bell_->ring());
  EXPECT_FALSE(bell_->ring()) << "once";
  EXPECT_TRUE(is_rung(*bell_));
  bell_->get_up();
  EXPECT_FALSE(is_rung(*bell_));
  bell_->lie_down();
  bell_->get_up();
  EXPECT_FALSE(bell_->ring());
}

TEST_F(RingTest, ABellThatIsWrittenLateWakesOnce) {
  const std::uint64_t one = 1;
  ASSERT_EQ(::write(bell_->fd(), &one, sizeof(one)), 8);  // one that rang before the sleeper got up
  bell_->lie_down();
  EXPECT_TRUE(is_rung(*bell_));
  bell_->get_up();
  bell_->lie_down();
  EXPECT_FALSE(is_rung(*bell_));
}

}  // namespace
}  // namespace pvrdma::transport::siblings
