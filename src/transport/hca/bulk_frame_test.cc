// Tests of the frames of bulk QPs: decoding restores what was encoded, and truncated or corrupted frames are
// refused.
#include "transport/hca/bulk_frame.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "base/network_order.h"
#include "transport/wire/format_fixture.h"

namespace pvrdma::transport::hca {
namespace {

using wire::Bytes;
using wire::Random;

// Appends `count` runs and returns the sum of their bytes.
std::uint32_t any_runs(Random& random, std::size_t count, Runs& runs) {
  std::uint32_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Run run{.address = (i + 1) << 32,
                  .bytes = static_cast<std::uint32_t>(1 + random.below(1600)),
                  .rkey = random.any<std::uint32_t>()};
    bytes += run.bytes;
    EXPECT_TRUE(runs.append(run));
  }
  return bytes;
}

// A lent request whose payload is in `runs` runs.
Lent any_lent(Random& random, std::size_t runs) {
  Lent lent;
  do {
    lent.request = wire::any_request(random);
  } while (lent.request.is_read_or_atomic());
  lent.segment = random.segment();
  lent.request.offset = 0;
  lent.request.bytes = lent.request.message_bytes = any_runs(random, runs, lent.runs);
  return lent;
}

LentAnswer any_lent_answer(Random& random, std::size_t runs) {
  LentAnswer lent{.segment = random.segment(), .response = {}, .runs = {}};
  lent.response = {.from = random.endpoint(),
                   .to = random.endpoint(),
                   .number = verbs::MessageNumber(random.any<std::uint32_t>()),
                   .op = verbs::RequestOp::kRead,
                   .offset = random.any<std::uint32_t>() / 2};
  lent.response.bytes = any_runs(random, runs, lent.runs);
  return lent;
}

Bytes encoded(std::uint64_t sequence, const Lent& lent) {
  BulkRoom room;
  const auto bytes = encode_lent(sequence, lent.segment, lent.request, lent.runs, room);
  return {bytes.begin(), bytes.end()};
}

Bytes encoded(std::uint64_t sequence, const LentAnswer& lent) {
  BulkRoom room;
  const auto bytes = encode_lent(sequence, lent.segment, lent.response, lent.runs, room);
  return {bytes.begin(), bytes.end()};
}

template <typename Body>
Bytes encoded(std::uint64_t sequence, const Body& body) {
  BulkRoom room;
  const auto bytes = encode_bulk(sequence, body, room);
  return {bytes.begin(), bytes.end()};
}

std::string defect_of(const Bytes& bytes) {
  BulkFrame frame;
  const BulkDecoded decoded = decode_bulk(bytes, frame);
  EXPECT_EQ(decoded.bytes == 0, !decoded.defect.empty());
  return std::string(decoded.defect);
}

// A copy with the bytes from `at` on replaced.
template <typename Value>
Bytes bent(Bytes bytes, std::size_t at, Value value) {
  NetworkWriter writer(std::span<std::byte>(bytes).subspan(at));
  writer.put(value);
  return bytes;
}

constexpr BulkEndpoint kBulkQp{.qpn = 0x123456, .psn = 0x654321, .reads = 16};

BulkOffer any_offer(Random& random) {
  return {
      .id = random.any<std::uint32_t>(),
      .stripe = {{.segment = random.segment(), .own = random.endpoint().gid, .peer = random.endpoint().gid},
                 static_cast<std::uint16_t>(random.below(kStripes))},
      .end = kBulkQp};
}

TEST(BulkFrameTest, ARequestThatIsLentComesBackWithItsRuns) {
  Random random(20261120);
  for (int round = 0; round < 500; ++round) {
    const Lent sent = any_lent(random, 1 + random.below(Runs::kMax));
    const auto sequence = random.any<std::uint64_t>();
    Bytes bytes = encoded(sequence, sent);
    ASSERT_FALSE(bytes.empty());
    const std::size_t frame_bytes = bytes.size();
    bytes.resize(frame_bytes + random.below(100));  // the next frame
    ASSERT_TRUE(is_bulk_frame(bytes));
    BulkFrame frame;
    const BulkDecoded decoded = decode_bulk(bytes, frame);
    ASSERT_EQ(decoded.bytes, frame_bytes) << decoded.defect;
    EXPECT_EQ(frame.sequence, sequence);
    const Lent& received = std::get<Lent>(frame.body);
    EXPECT_EQ(received.segment, sent.segment);
    wire::expect_same(received.request, sent.request);
    EXPECT_EQ(received.runs, sent.runs);
  }
}

TEST(BulkFrameTest, AnAnswerThatIsLentComesBackWithItsRuns) {
  Random random(20261124);
  for (int round = 0; round < 500; ++round) {
    const LentAnswer sent = any_lent_answer(random, 1 + random.below(Runs::kMax));
    const Bytes bytes = encoded(11, sent);
    ASSERT_FALSE(bytes.empty());
    BulkFrame frame;
    const BulkDecoded decoded = decode_bulk(bytes, frame);
    ASSERT_EQ(decoded.bytes, bytes.size()) << decoded.defect;
    EXPECT_EQ(frame.sequence, 11U);
    const LentAnswer& received = std::get<LentAnswer>(frame.body);
    EXPECT_EQ(received.segment, sent.segment);
    EXPECT_EQ(received.response.from, sent.response.from);
    EXPECT_EQ(received.response.to, sent.response.to);
    EXPECT_EQ(received.response.number, sent.response.number);
    EXPECT_EQ(received.response.offset, sent.response.offset);
    EXPECT_EQ(received.response.bytes, sent.response.bytes);
    EXPECT_EQ(received.runs, sent.runs);
  }
}

TEST(BulkFrameTest, OnlyDataOfAReadIsLentInAnAnswer) {
  Random random(3);
  LentAnswer lent = any_lent_answer(random, 1);
  lent.response.syndrome = verbs::Syndrome::kNakRemoteAccess;
  const Bytes refusal = encoded(1, lent);
  EXPECT_TRUE(refusal.empty() || !defect_of(refusal).empty());
  lent = any_lent_answer(random, 1);
  lent.response.op = verbs::RequestOp::kWrite;
  const Bytes other = encoded(1, lent);
  EXPECT_TRUE(other.empty() || !defect_of(other).empty());
  const Bytes request = encoded(1, any_lent(random, 1));
  EXPECT_EQ(defect_of(bent(request, 4, std::uint8_t{0x85})),
            "the lent message is invalid or must not be lent");
}

TEST(BulkFrameTest, WhatIsSaidOfQpsComesBack) {
  Random random(7);
  for (int round = 0; round < 100; ++round) {
    BulkFrame frame;
    const BulkOffer offer = any_offer(random);
    const Bytes offered = encoded(5, offer);
    ASSERT_EQ(decode_bulk(offered, frame).bytes, offered.size());
    EXPECT_EQ(frame.sequence, 5U);
    EXPECT_EQ(std::get<BulkOffer>(frame.body), offer);

    const BulkAnswer answer{.id = offer.id, .end = round % 2 == 0 ? kBulkQp : BulkEndpoint{}};
    const Bytes answered = encoded(6, answer);
    ASSERT_EQ(decode_bulk(answered, frame).bytes, answered.size());
    EXPECT_EQ(std::get<BulkAnswer>(frame.body), answer);

    const BulkStopped stopped{.id = offer.id};
    const Bytes said = encoded(7, stopped);
    ASSERT_EQ(decode_bulk(said, frame).bytes, said.size());
    EXPECT_EQ(frame.sequence, 7U);
    EXPECT_EQ(std::get<BulkStopped>(frame.body), stopped);

    const BulkReturned returned{.id = offer.id, .count = ~offer.id};
    const Bytes over = encoded(8, returned);
    ASSERT_EQ(decode_bulk(over, frame).bytes, over.size());
    EXPECT_EQ(std::get<BulkReturned>(frame.body), returned);
  }
}

TEST(BulkFrameTest, FramesOfALaneAreNoneOfThese) {
  Random random(11);
  for (std::size_t kind = 0; kind < wire::kKinds; ++kind)
    EXPECT_FALSE(is_bulk_frame(wire::encoded(wire::any_frame(kind, random)))) << kind;
}

TEST(BulkFrameTest, AFrameThatIsCutIsRefused) {
  Random random(3);
  for (const Bytes& bytes :
       {encoded(1, any_lent(random, 3)), encoded(1, any_offer(random)), encoded(1, BulkAnswer{1, kBulkQp}),
        encoded(1, BulkStopped{1}), encoded(1, any_lent_answer(random, 3)), encoded(1, BulkReturned{1, 2})}) {
    for (std::size_t size = 8; size < bytes.size(); ++size)
      EXPECT_EQ(defect_of({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}),
                "it does not fit into its slot");
  }
}

TEST(BulkFrameTest, HeadsThatBreakARuleAreRefused) {
  Random random(3);
  const Bytes stopped = encoded(1, BulkStopped{1});
  EXPECT_EQ(defect_of(bent(stopped, 0, std::uint32_t{7})), "it does not fit into its slot");
  EXPECT_EQ(defect_of(bent(stopped, 4, std::uint8_t{0x87})), "its kind is unknown");
  EXPECT_EQ(defect_of(bent(stopped, 5, std::uint8_t{1})), "a reserved bit is set");
  EXPECT_EQ(defect_of(bent(stopped, 6, std::uint16_t{1})), "its length does not match its kind");
  EXPECT_EQ(defect_of(bent(stopped, 4, std::uint8_t{0x83})), "its length does not match its kind");
  const Bytes offer = encoded(1, any_offer(random));
  EXPECT_EQ(defect_of(bent(offer, 26, std::uint16_t{kStripes})), "its stripe does not exist");
}

TEST(BulkFrameTest, EndsThatCanBeNoQpAreRefused) {
  for (const BulkEndpoint end :
       {BulkEndpoint{1, 0, 1}, BulkEndpoint{1U << 24, 0, 1}, BulkEndpoint{17, 1U << 24, 1},
        BulkEndpoint{17, 0, 0}, BulkEndpoint{17, 0, 1000}}) {
    EXPECT_EQ(defect_of(encoded(1, BulkAnswer{1, end})), "its QP is invalid");
    EXPECT_EQ(defect_of(encoded(1, BulkOffer{.id = 1, .stripe = {}, .end = end})), "its QP is invalid");
  }
  EXPECT_EQ(defect_of(encoded(1, BulkOffer{})), "its QP is invalid") << "only an answer may have no QP";
}

TEST(BulkFrameTest, RunsThatCannotBeAreRefused) {
  Random random(3);
  const Lent lent = any_lent(random, 2);
  const Bytes bytes = encoded(1, lent);
  const std::size_t runs_at = bytes.size() - 2 * kRunBytes;
  EXPECT_EQ(defect_of(bent(bytes, 6, std::uint16_t{0})), "its number of runs is invalid");
  EXPECT_EQ(defect_of(bent(bytes, 6, std::uint16_t{161})), "its number of runs is invalid");
  EXPECT_EQ(defect_of(bent(bytes, 6, std::uint16_t{100})), "its number of runs is invalid");
  EXPECT_EQ(defect_of(bent(bytes, 6, std::uint16_t{1})), "the lent message is invalid or must not be lent");
  EXPECT_EQ(defect_of(bent(bytes, runs_at + 8, std::uint32_t{0})),
            "one of its runs is empty or wraps around");
  EXPECT_EQ(defect_of(bent(bytes, runs_at, ~std::uint64_t{0})), "one of its runs is empty or wraps around");
  EXPECT_EQ(defect_of(bent(bytes, runs_at + 8, std::uint32_t{lent.runs.view()[0].bytes + 1})),
            "its runs are not as long as its payload");
}

TEST(BulkFrameTest, OnlyWhatHasAPayloadIsLent) {
  Random random(3);
  Lent lent = any_lent(random, 1);
  lent.request.op = verbs::RequestOp::kRead;
  lent.request.extra = verbs::Extra::kNone;
  const Bytes bytes = encoded(1, lent);
  ASSERT_FALSE(bytes.empty());
  EXPECT_EQ(defect_of(bytes), "the lent message is invalid or must not be lent");
  const Bytes response = wire::encoded(wire::any_frame(4, random));
  Bytes wrapped(8 + response.size() + kRunBytes);
  NetworkWriter writer(std::span<std::byte>{wrapped});
  writer.put(static_cast<std::uint32_t>(wrapped.size()));
  writer.put(std::uint8_t{0x81});
  writer.zeros(1);
  writer.put(std::uint16_t{1});
  writer.put_bytes(response.data(), response.size());
  EXPECT_EQ(defect_of(wrapped), "the lent message is invalid or must not be lent");
}

TEST(RunsTest, NeighboursAreOneRunAndThereIsAnEnd) {
  Runs runs;
  EXPECT_TRUE(runs.append({.address = 0x1000, .bytes = 16, .rkey = 5}));
  EXPECT_TRUE(runs.append({.address = 0x1010, .bytes = 16, .rkey = 5}));
  EXPECT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs.view()[0].bytes, 32U);
  EXPECT_TRUE(runs.append({.address = 0x1020, .bytes = 16, .rkey = 6})) << "another registration";
  EXPECT_EQ(runs.size(), 2U);
  while (runs.size() < Runs::kMax)
    ASSERT_TRUE(runs.append({.address = runs.size() << 20, .bytes = 16, .rkey = 6}));
  EXPECT_FALSE(runs.append({.address = 1, .bytes = 16, .rkey = 6}));
  const hca::Run last = runs.view().back();
  EXPECT_TRUE(runs.append({.address = last.address + last.bytes, .bytes = 4, .rkey = 6})) << "it is longer";
}

}  // namespace
}  // namespace pvrdma::transport::hca
