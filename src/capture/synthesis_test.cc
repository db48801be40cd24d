// Tests the frames of each kind of message: opcodes, PSNs, headers and bytes, as a RoCE receiver would check
// them.
#include "capture/synthesis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/capture_fixture.h"
#include "capture/ring.h"

namespace pvrdma::capture {
namespace {

using roce::Opcode;
using testing::ElementsAre;
using verbs::RequestOp;
using verbs::Syndrome;

constexpr Mac kMac{{0x52, 0x54, 0, 0x12, 0x34, 0x51}};

struct Made {
  std::vector<std::byte> kept;
  std::size_t bytes;
};

class SynthesisTest : public testing::Test {
 protected:
  // The frames that a capture with snap length `snap` makes of the record.
  std::vector<Made> make(const Record& record, std::vector<std::byte> bytes = {}, std::uint32_t snap = 262144,
                         RoceVersion version = RoceVersion::kV2) {
    Ring ring(1 << 20);
    const auto spans = spans_of(bytes);
    EXPECT_TRUE(ring.put(record, bytes.empty() ? nullptr : &spans, snap));
    Record got;
    std::vector<std::byte> payload;
    EXPECT_TRUE(ring.take(got, payload));
    Synthesis synthesis(kMac, version, snap);
    std::vector<Made> made;
    synthesis.frames_of(got, payload, [&](std::span<const std::byte> kept, std::size_t whole) {
      made.push_back({{kept.begin(), kept.end()}, whole});
    });
    return made;
  }
  // Parses the frames. Each must be complete and valid.
  std::vector<roce::Frame> parsed(const std::vector<Made>& made) {
    std::vector<roce::Frame> frames;
    for (const Made& each : made) {
      EXPECT_EQ(each.kept.size(), each.bytes);
      const auto frame = roce::parse(each.kept);
      EXPECT_TRUE(frame) << (frame ? "" : name_of(frame.error()));
      if (!frame) continue;
      EXPECT_TRUE(roce::payload_fits(frame->packet.opcode,
                                     static_cast<std::uint32_t>(frame->packet.payload.size()), 1024));
      frames.push_back(*frame);
    }
    return frames;
  }
  static std::vector<Opcode> opcodes(const std::vector<roce::Frame>& frames) {
    std::vector<Opcode> all;
    for (const auto& frame : frames) all.push_back(frame.packet.opcode);
    return all;
  }
};

TEST_F(SynthesisTest, APeersMacIsTheOneItsAddressWasMadeOf) {
  const std::pair<verbs::Gid, Mac> cases[] = {
      {{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0x12, 0x34, 0x52}},
       {{0x52, 0x54, 0, 0x12, 0x34, 0x52}}},
      {{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0a, 0, 0, 5}}, {{2, 0, 0x0a, 0, 0, 5}}},
      // An IPv4-mapped address that looks like one derived from a MAC.
      {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 254, 18, 52, 81}}, {{2, 0, 254, 18, 52, 81}}}};
  for (const auto& [gid, mac] : cases) {
    Record record = request(RequestOp::kWrite, 0);
    record.request.to.gid = gid;
    const auto frames = parsed(make(record));
    ASSERT_EQ(frames.size(), 1U);
    EXPECT_EQ(frames[0].envelope.destination_mac, mac) << gid.to_string();
  }
}

TEST_F(SynthesisTest, CutsAWriteIntoPacketsOfTheMtu) {
  const auto bytes = pattern(2500);
  const auto made = make(request(RequestOp::kWrite, 2500), bytes);
  const auto frames = parsed(made);
  ASSERT_THAT(opcodes(frames), ElementsAre(Opcode::kWriteFirst, Opcode::kWriteMiddle, Opcode::kWriteLast));
  EXPECT_EQ(frames[0].packet.psn, verbs::Psn(0xff'ffff));
  EXPECT_EQ(frames[1].packet.psn, verbs::Psn(0));
  EXPECT_EQ(frames[2].packet.psn, verbs::Psn(1));
  EXPECT_EQ(frames[0].packet.remote_addr, 0x7000);
  EXPECT_EQ(frames[0].packet.rkey, 0x77);
  EXPECT_EQ(frames[0].packet.dma_bytes, 2500);
  EXPECT_FALSE(frames[0].packet.ack_request);
  EXPECT_TRUE(frames[2].packet.ack_request);
  std::vector<std::byte> joined;
  for (const auto& frame : frames) {
    joined.insert(joined.end(), frame.packet.payload.begin(), frame.packet.payload.end());
    EXPECT_EQ(frame.envelope.source_mac, kMac);
    EXPECT_EQ(frame.envelope.source, kHere.gid);
    EXPECT_EQ(frame.envelope.destination, kThere.gid);
    EXPECT_EQ(frame.packet.destination, kThere.qpn);
    EXPECT_EQ(frame.envelope.source_port, frames[0].envelope.source_port);
    EXPECT_GE(frame.envelope.source_port, 0xc000);
  }
  EXPECT_EQ(joined, bytes);
}

TEST_F(SynthesisTest, GoesOnWithTheNextPieceOfAMessage) {
  Record piece = request(RequestOp::kSend, 4096);
  piece.request.extra = verbs::Extra::kInvalidate;
  piece.request.extra_value = 0x55;
  piece.request.offset = piece.request.bytes = 2048;
  const auto frames = parsed(make(piece, pattern(2048)));
  ASSERT_THAT(opcodes(frames), ElementsAre(Opcode::kSendMiddle, Opcode::kSendLastInvalidate));
  EXPECT_EQ(frames[0].packet.psn, verbs::Psn(1));
  EXPECT_EQ(frames[1].packet.invalidate_rkey, 0x55);
}

class JoinTest : public SynthesisTest {
 protected:
  // The frames of one message of 5000 bytes whose pieces end at `ends`. `snap` bytes of each packet are kept.
  std::vector<Made> in_pieces(const std::vector<std::uint32_t>& ends, std::uint32_t snap = 262144) {
    Ring ring(1 << 20);
    Synthesis synthesis(kMac, RoceVersion::kV2, snap);
    std::vector<Made> made;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      Record piece = request(RequestOp::kWrite, 5000);
      piece.request.offset = i == 0 ? first : ends[i - 1];
      piece.request.bytes = ends[i] - piece.request.offset;
      std::vector<std::byte> part(bytes.begin() + piece.request.offset, bytes.begin() + ends[i]);
      const auto spans = spans_of(part);
      EXPECT_TRUE(ring.put(piece, &spans, snap));
      std::vector<std::byte> payload;
      EXPECT_TRUE(ring.take(piece, payload));
      synthesis.frames_of(piece, payload, [&](std::span<const std::byte> kept, std::size_t whole) {
        made.push_back({{kept.begin(), kept.end()}, whole});
      });
    }
    return made;
  }
  const std::vector<std::byte> bytes = pattern(5000);
  std::uint32_t first = 0;  // the offset of the first piece
};

TEST_F(JoinTest, PacketsAreWholeWhereverAMessageWasCut) {
  const auto whole = in_pieces({5000});
  ASSERT_EQ(whole.size(), 5);
  for (const auto& ends : std::vector<std::vector<std::uint32_t>>{{1, 5000},
                                                                  {1023, 1024, 1025, 5000},
                                                                  {100, 200, 300, 1500, 1600, 4999, 5000},
                                                                  {2048, 3000, 5000}}) {
    const auto made = in_pieces(ends);
    ASSERT_EQ(made.size(), 5);
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(made[i].kept, whole[i].kept);
  }
}

TEST_F(JoinTest, WhatIsKeptOfAJoinedPacketIsItsBeginning) {
  const auto whole = in_pieces({5000});
  for (const std::uint32_t snap : {64u, 200u, 700u}) {
    const auto made = in_pieces({100, 300, 1600, 1700, 5000}, snap);
    ASSERT_EQ(made.size(), 5);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(made[i].bytes, whole[i].bytes);
      EXPECT_EQ(made[i].kept.size(), snap);
      EXPECT_TRUE(std::equal(made[i].kept.begin(), made[i].kept.end(), whole[i].kept.begin()))
          << i << " " << snap;
    }
  }
}

TEST_F(JoinTest, APacketWhoseBeginningDidNotComeIsLeftOut) {
  first = 1500;  // its packet begins at 1024
  const auto frames = parsed(in_pieces({5000}));
  EXPECT_THAT(opcodes(frames), ElementsAre(Opcode::kWriteMiddle, Opcode::kWriteMiddle, Opcode::kWriteLast));
  EXPECT_EQ(frames[0].packet.psn, verbs::Psn(1));
}

TEST_F(SynthesisTest, NamesEachKindOfMessage) {
  Record immediate = request(RequestOp::kSend, 8);
  immediate.request.extra = verbs::Extra::kImmediate;
  immediate.request.extra_value = 0x04030201;
  immediate.request.solicited = true;
  auto frames = parsed(make(immediate, pattern(8)));
  ASSERT_THAT(opcodes(frames), ElementsAre(Opcode::kSendOnlyImmediate));
  EXPECT_EQ(frames[0].packet.immediate, 0x04030201);
  EXPECT_TRUE(frames[0].packet.solicited);

  EXPECT_THAT(opcodes(parsed(make(request(RequestOp::kWrite, 0)))), ElementsAre(Opcode::kWriteOnly));
  Record reading = request(RequestOp::kRead, 600'000);
  reading.request.offset = reading.request.bytes = verbs::kPieceBytesMax;
  frames = parsed(make(reading));
  ASSERT_THAT(opcodes(frames), ElementsAre(Opcode::kReadRequest));
  EXPECT_EQ(frames[0].packet.remote_addr, 0x7000 + verbs::kPieceBytesMax);
  EXPECT_EQ(frames[0].packet.dma_bytes, verbs::kPieceBytesMax);
  EXPECT_EQ(frames[0].packet.psn, verbs::Psn(255));

  Record swap = request(RequestOp::kCompareSwap, 8);
  swap.request.compare_add = 5;
  swap.request.swap = 6;
  frames = parsed(make(swap));
  ASSERT_THAT(opcodes(frames), ElementsAre(Opcode::kCompareSwap));
  EXPECT_EQ(frames[0].packet.compare, 5);
  EXPECT_EQ(frames[0].packet.swap_or_add, 6);
  EXPECT_TRUE(frames[0].packet.ack_request);
  Record add = request(RequestOp::kFetchAdd, 8);
  add.request.compare_add = 5;
  frames = parsed(make(add));
  ASSERT_THAT(opcodes(frames), ElementsAre(Opcode::kFetchAdd));
  EXPECT_EQ(frames[0].packet.swap_or_add, 5);
}

TEST_F(SynthesisTest, AnswersAsAResponderWould) {
  const struct {
    Syndrome syndrome;
    std::uint8_t wire;
  } cases[] = {{Syndrome::kAck, 0x1f},
               {Syndrome::kProgress, 0x1f},
               {Syndrome::kRnrNak, 0x2c},
               {Syndrome::kNakSequence, 0x60},
               {Syndrome::kNakInvalidRequest, 0x61},
               {Syndrome::kNakRemoteAccess, 0x62},
               {Syndrome::kNakRemoteOperational, 0x63}};
  for (const auto& each : cases) {
    Record record = response(RequestOp::kSend, each.syndrome);
    record.response.rnr_timer = 12;
    const auto frames = parsed(make(record));
    ASSERT_THAT(opcodes(frames), ElementsAre(Opcode::kAcknowledge));
    EXPECT_EQ(frames[0].packet.syndrome, each.wire);
    EXPECT_EQ(frames[0].packet.psn, verbs::Psn(5));
    EXPECT_EQ(frames[0].envelope.destination_mac, kMac);
  }
  Record atomic = response(RequestOp::kFetchAdd, Syndrome::kAck);
  atomic.response.atomic_original = 99;
  const auto frames = parsed(make(atomic));
  ASSERT_THAT(opcodes(frames), ElementsAre(Opcode::kAtomicAcknowledge));
  EXPECT_EQ(frames[0].packet.atomic_original, 99);
  EXPECT_THAT(opcodes(parsed(make(response(RequestOp::kRead, Syndrome::kNakRemoteAccess)))),
              ElementsAre(Opcode::kAcknowledge));
}

TEST_F(SynthesisTest, CutsReadDataIntoPackets) {
  auto frames = parsed(make(response(RequestOp::kRead, Syndrome::kAck, 2100), pattern(2100)));
  ASSERT_THAT(opcodes(frames), ElementsAre(Opcode::kReadResponseFirst, Opcode::kReadResponseMiddle,
                                           Opcode::kReadResponseLast));
  EXPECT_EQ(frames[2].packet.psn, verbs::Psn(7));
  EXPECT_EQ(frames[2].packet.payload.size(), 52);
  frames = parsed(make(response(RequestOp::kRead, Syndrome::kAck, 100), pattern(100)));
  EXPECT_THAT(opcodes(frames), ElementsAre(Opcode::kReadResponseOnly));
}

TEST_F(SynthesisTest, CountsDatagramsAndUsesVersion1WhereTheyDo) {
  Record record = datagram(256);
  auto frames = parsed(make(record, pattern(256)));
  ASSERT_THAT(opcodes(frames), ElementsAre(Opcode::kUdSendOnly));
  EXPECT_EQ(frames[0].packet.qkey, 0x8001'0000);
  EXPECT_EQ(frames[0].packet.source, kHere.qpn);
  EXPECT_EQ(frames[0].packet.destination, verbs::kGsiQpn);
  EXPECT_EQ(frames[0].envelope.hop_limit, 64);
  record.datagram.roce = RoceVersion::kV1;
  EXPECT_EQ(parsed(make(record, pattern(256)))[0].envelope.version, RoceVersion::kV1);
  const auto v1 = make(request(RequestOp::kWrite, 8), pattern(8), 262144, RoceVersion::kV1);
  EXPECT_EQ(parsed(v1)[0].envelope.version, RoceVersion::kV1);
}

TEST_F(SynthesisTest, KeepsNoMoreOfAFrameThanIsWanted) {
  const auto whole = make(request(RequestOp::kWrite, 2500), pattern(2500));
  for (const std::uint32_t snap : {10u, 60u, 90u, 500u, 1024u, 1080u}) {
    const auto made = make(request(RequestOp::kWrite, 2500), pattern(2500), snap);
    ASSERT_EQ(made.size(), whole.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      EXPECT_EQ(made[i].bytes, whole[i].bytes);
      EXPECT_LE(made[i].kept.size(), snap);
      EXPECT_GE(made[i].kept.size(), std::min<std::size_t>(snap, 54));
      EXPECT_TRUE(std::equal(made[i].kept.begin(), made[i].kept.end(), whole[i].kept.begin()))
          << i << " " << snap;
    }
  }
}

TEST_F(SynthesisTest, HasTheHeadersOfWhatBroughtNoPayload) {
  const auto whole = make(request(RequestOp::kWrite, 2500), pattern(2500));
  const auto made = make(request(RequestOp::kWrite, 2500));
  ASSERT_EQ(made.size(), 3);
  for (std::size_t i = 0; i < made.size(); ++i) {
    EXPECT_EQ(made[i].bytes, whole[i].bytes);
    EXPECT_TRUE(std::equal(made[i].kept.begin(), made[i].kept.end(), whole[i].kept.begin()));
  }
  EXPECT_EQ(made[0].kept.size(), 14 + 28 + 12 + 16);
}

}  // namespace
}  // namespace pvrdma::capture
