// Tests frames: those of another implementation, every opcode in every encapsulation, and frames that are
// dropped.
#include <algorithm>
#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "roce/frames_fixture.h"

namespace pvrdma::roce {
namespace {

constexpr std::array kEncapsulations{Encapsulation::kV2Ipv4, Encapsulation::kV2Ipv6, Encapsulation::kV1};
constexpr std::size_t kIpv4At = 14;
constexpr std::size_t kIpv4BthAt = 14 + 28;

// Frames that Linux 6.12's rxe sent between two VMs. The blanks were added here.
struct Sample {
  std::string_view hex;
  Opcode opcode;
  std::uint32_t qpn;
  std::uint32_t psn;
  std::size_t payload_bytes;
};
constexpr Sample kSamples[] = {
    {"525400123562525400123561080045000030 60ff4000401141f2c0a80b3dc0a80b3e c12112b7001c0000"
     "1100ffff0000001100d0842a 1f000001 14173713",
     Opcode::kAcknowledge, 0x11, 0xd0842a, 0},
    {"5254001235615254001235620800 4500003c61254000401141c0c0a80b3ec0a80b3d c33f12b700280000"
     "0400ffff00000016807dad3e 000055b61ba3c06000000a6700000040 bfadfbfb",
     Opcode::kSendOnly, 0x16, 0x7dad3e, 16},
    {"5254001235625254001235610800 4500004467f1400040113aecc0a80b3dc0a80b3e c24012b700300000"
     "0a00ffff00000018804445f0 0000562fdeea300000000c3800000008 0000000000000001 636dfaec",
     Opcode::kWriteOnly, 0x18, 0x4445f0, 8},
    {"5254001235615254001235620800 4500003c5e144000401144d1c0a80b3ec0a80b3d c14412b700280000"
     "0c00ffff00000012801f242f 00005567c6937388000003f800001388 30588cf7",
     Opcode::kReadRequest, 0x12, 0x1f242f, 0},
    {"5254001235615254001235620800 450000485fd9400040114300c0a80b3ec0a80b3d c19012b700340000"
     "1400ffff0000001480e622a4 00005567808ad000000005d700000000000000010000000000000000 7e2d87f7",
     Opcode::kFetchAdd, 0x14, 0xe622a4, 0},
    {"5254001235625254001235610800 4500003863c9400040113f20c0a80b3dc0a80b3e c19012b700240000"
     "1200ffff0000001400e622a4 1f000001c16a3f41e6ec1977 3c0adf51",
     Opcode::kAtomicAcknowledge, 0x14, 0xe622a4, 0},
    {"525400123562525400123561 86dd 6000000000301140fd000011000000000000000000000061"
     "fd000011000000000000000000000062 c12112b700300000 0a30ffff00000011802b245c"
     "000055d41748d000000002ba00000005 0000000001 000000 82c835bf",
     Opcode::kWriteOnly, 0x11, 0x2b245c, 5},
    {"525400123561525400123562 86dd 60000000001c1140fd000011000000000000000000000062"
     "fd000011000000000000000000000061 c12112b7001c0000 1100ffff00000011002b245c 1f000001 75e649e7",
     Opcode::kAcknowledge, 0x11, 0x2b245c, 0},
};

TEST(RxeFrames, AreUnderstood) {
  for (const Sample& sample : kSamples) {
    SCOPED_TRACE(sample.hex);
    const Bytes bytes = from_hex(sample.hex);
    const auto frame = parse(bytes);
    ASSERT_TRUE(frame) << name_of(frame.error());
    EXPECT_EQ(frame->packet.opcode, sample.opcode);
    EXPECT_EQ(frame->packet.destination, verbs::Qpn(sample.qpn));
    EXPECT_EQ(frame->packet.psn, verbs::Psn(sample.psn));
    EXPECT_EQ(frame->packet.payload.size(), sample.payload_bytes);
    EXPECT_FALSE(frame->packet.migrated);
    EXPECT_EQ(frame_bytes(*frame, static_cast<std::uint32_t>(sample.payload_bytes)), bytes.size());
  }
}

TEST(RxeFrames, AreBuiltAgainByteForByteButForTheIdOfIpv4) {
  for (const Sample& sample : kSamples) {
    SCOPED_TRACE(sample.hex);
    Bytes bytes = from_hex(sample.hex);
    const auto frame = parse(bytes);
    ASSERT_TRUE(frame);
    Bytes again = built(*frame);
    if (encapsulation_of(frame->envelope) == Encapsulation::kV2Ipv4) {
      std::copy_n(bytes.begin() + kIpv4At + 4, 2, again.begin() + kIpv4At + 4);    // id
      std::copy_n(bytes.begin() + kIpv4At + 10, 2, again.begin() + kIpv4At + 10);  // checksum
      ASSERT_TRUE(seal(again));
    }
    EXPECT_EQ(again, bytes);
  }
}

TEST(RxeFrames, HaveTheValuesOfTheirHeaders) {
  const auto write = parse(from_hex(kSamples[2].hex));
  EXPECT_EQ(write->packet.remote_addr, 0x562f'deea'3000);
  EXPECT_EQ(write->packet.rkey, 0xc38);
  EXPECT_EQ(write->packet.dma_bytes, 8);
  EXPECT_TRUE(write->packet.ack_request);
  const auto add = parse(from_hex(kSamples[4].hex));
  EXPECT_EQ(add->packet.swap_or_add, 1);
  EXPECT_EQ(add->packet.compare, 0);
  EXPECT_EQ(add->packet.rkey, 0x5d7);
  const auto answer = parse(from_hex(kSamples[5].hex));
  EXPECT_EQ(answer->packet.syndrome, kSyndromeAck);
  EXPECT_EQ(answer->packet.msn, 1);
  EXPECT_EQ(answer->packet.atomic_original, 0xc16a'3f41'e6ec'1977);
}

std::uint32_t some_payload(Opcode opcode) {
  switch (rule_of(opcode).payload) {
    case PayloadRule::kNone:
      return 0;
    case PayloadRule::kMtu:
      return 1024;
    case PayloadRule::kOneToMtu:
    case PayloadRule::kUpToMtu:
    case PayloadRule::kAny:
      return 5;
    case PayloadRule::kSixteen:
      return 16;
  }
  return 0;
}

TEST(Frame, OfEveryOpcodeAndEncapsulationIsParsedAsItWasBuilt) {
  Bytes payload(kMtuBytesMax);
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i * 7);
  for (const OpcodeRule& rule : kOpcodes) {
    for (const Encapsulation encapsulation : kEncapsulations) {
      for (const bool tagged : {false, true}) {
        SCOPED_TRACE(static_cast<int>(rule.opcode));
        Frame sent{envelope(encapsulation),
                   packet(rule.opcode, std::span(payload).first(some_payload(rule.opcode)))};
        if (tagged) sent.envelope.vlan = 0x123;
        const Bytes bytes = built(sent);
        const auto got = parse(bytes);
        ASSERT_TRUE(got) << name_of(got.error());
        EXPECT_EQ(got->envelope.vlan, sent.envelope.vlan);
        if (encapsulation == Encapsulation::kV2Ipv4) sent.envelope.flow_label = got->envelope.flow_label;
        EXPECT_EQ(got->envelope, sent.envelope);
        EXPECT_THAT(got->packet.payload, testing::ElementsAreArray(sent.packet.payload));
        EXPECT_EQ(built(*got), bytes);
        EXPECT_EQ(got->packet.remote_addr, sent.packet.remote_addr);
        EXPECT_EQ(got->packet.rkey, sent.packet.rkey);
        EXPECT_EQ(got->packet.dma_bytes, sent.packet.dma_bytes);
        EXPECT_EQ(got->packet.swap_or_add, sent.packet.swap_or_add);
        EXPECT_EQ(got->packet.compare, sent.packet.compare);
        EXPECT_EQ(got->packet.syndrome, sent.packet.syndrome);
        EXPECT_EQ(got->packet.msn, sent.packet.msn);
        EXPECT_EQ(got->packet.atomic_original, sent.packet.atomic_original);
        EXPECT_EQ(got->packet.immediate, sent.packet.immediate);
        EXPECT_EQ(got->packet.invalidate_rkey, sent.packet.invalidate_rkey);
        EXPECT_EQ(got->packet.qkey, sent.packet.qkey);
        EXPECT_EQ(got->packet.source, sent.packet.source);
      }
    }
  }
}

TEST(Frame, OfTheLargestKindFitsTheLargestSize) {
  const Bytes payload(kMtuBytesMax);
  Frame frame{envelope(Encapsulation::kV2Ipv6), packet(Opcode::kWriteOnlyImmediate, payload)};
  frame.envelope.vlan = 1;
  EXPECT_EQ(built(frame).size(), kFrameBytesMax);
  for (const OpcodeRule& rule : kOpcodes) EXPECT_LE(18 + 48 + header_bytes(rule.opcode), kHeadBytesMax);
}

TEST(Frame, IsAcceptedWithWhatRoutersAndEthernetChange) {
  Bytes bytes = from_hex(kSamples[0].hex);
  bytes[kIpv4At + 1] = std::byte{0x03};      // ECN
  bytes[kIpv4At + 8] = std::byte{1};         // TTL
  bytes[kIpv4At + 10] = std::byte{0xee};     // its checksum
  bytes[kIpv4At + 26] = std::byte{0x12};     // UDP's
  bytes[kIpv4BthAt + 4] |= std::byte{0xc0};  // FECN, BECN
  bytes.resize(bytes.size() + 9);            // Ethernet's pad
  const auto frame = parse(bytes);
  ASSERT_TRUE(frame) << name_of(frame.error());
  EXPECT_TRUE(frame->packet.becn);
  EXPECT_EQ(frame->envelope.traffic_class, 3);
}

TEST(Frame, OfVersion1AndIpv6HidesTheSameFieldsFromTheIcrc) {
  for (const Encapsulation encapsulation : {Encapsulation::kV2Ipv6, Encapsulation::kV1}) {
    Bytes bytes = built({envelope(encapsulation), packet(Opcode::kAcknowledge)});
    bytes[14] ^= std::byte{0x0f};
    for (const std::size_t at : {15, 16, 17, 21}) bytes[at] ^= std::byte{0xff};
    EXPECT_TRUE(parse(bytes));
    bytes[14 + 8] ^= std::byte{1};  // an address
    EXPECT_EQ(parse(bytes).error(), DropReason::kIcrc);
  }
}

TEST(Frame, WithAnyOtherBitChangedIsRefused) {
  const Bytes good = from_hex(kSamples[2].hex);
  for (std::size_t at = kIpv4At; at < good.size(); ++at) {
    const std::size_t ip = at - kIpv4At;
    if (ip == 1 || ip == 8 || ip == 10 || ip == 11 || ip == 26 || ip == 27 || at == kIpv4BthAt + 4) continue;
    for (int bit = 0; bit < 8; ++bit) {
      Bytes bytes = good;
      bytes[at] ^= static_cast<std::byte>(1 << bit);
      EXPECT_FALSE(parse(bytes)) << at << " " << bit;
    }
  }
}

TEST(Frame, CutAnywhereIsRefused) {
  for (const Sample& sample : kSamples) {
    const Bytes bytes = from_hex(sample.hex);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      // A copy, so that a sanitizer sees an access beyond its end.
      const Bytes part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_FALSE(parse(part)) << size;
    }
  }
}

struct Refused {
  DropReason reason;
  std::size_t at;
  std::vector<int> bytes;
};

TEST(Frame, IsRefusedForEachFault) {
  const Refused cases[] = {
      {DropReason::kNotRoce, 12, {0x08, 0x06}},                        // ARP
      {DropReason::kNotRoce, kIpv4At + 9, {6}},                        // TCP
      {DropReason::kNotRoce, kIpv4At + 22, {0, 53}},                   // DNS
      {DropReason::kNetworkVersion, kIpv4At, {0x55}},                  //
      {DropReason::kIpOptions, kIpv4At, {0x46}},                       //
      {DropReason::kFragment, kIpv4At + 6, {0x20, 0}},                 // more fragments
      {DropReason::kFragment, kIpv4At + 6, {0, 1}},                    // an offset
      {DropReason::kNetworkLength, kIpv4At + 2, {0, 0x45}},            // one more than the frame has
      {DropReason::kNetworkLength, kIpv4At + 2, {0, 0x1b}},            // less than UDP's header
      {DropReason::kUdpLength, kIpv4At + 24, {0, 0x2f}},               //
      {DropReason::kTransportVersion, kIpv4BthAt + 1, {0x01}},         //
      {DropReason::kOpcode, kIpv4BthAt, {0x20}},                       // UC
      {DropReason::kOpcode, kIpv4BthAt, {0xa0}},                       // XRC
      {DropReason::kPkey, kIpv4BthAt + 2, {0xff, 0xfe}},               //
      {DropReason::kDestination, kIpv4BthAt + 5, {0, 0, 0}},           //
      {DropReason::kDestination, kIpv4BthAt + 5, {0xff, 0xff, 0xff}},  //
      {DropReason::kShortPacket, kIpv4BthAt, {0x14}},                  // AtomicETH is longer
      {DropReason::kIcrc, kIpv4BthAt + 36, {0xff, 0xff, 0xff, 0xff}},  //
  };
  for (const Refused& each : cases) {
    SCOPED_TRACE(name_of(each.reason));
    Bytes bytes = from_hex(kSamples[2].hex);
    for (std::size_t i = 0; i < each.bytes.size(); ++i)
      bytes[each.at + i] = static_cast<std::byte>(each.bytes[i]);
    if (each.reason != DropReason::kIcrc) static_cast<void>(seal(bytes));
    const auto frame = parse(bytes);
    ASSERT_FALSE(frame);
    EXPECT_EQ(name_of(frame.error()), name_of(each.reason));
  }
  EXPECT_EQ(parse(Bytes(17)).error(), DropReason::kShortFrame);
  Bytes tiny = from_hex(kSamples[2].hex);
  tiny[kIpv4At + 3] = std::byte{28 + 15};  // one byte less than BTH and ICRC
  tiny[kIpv4At + 25] = std::byte{8 + 15};
  EXPECT_EQ(parse(tiny).error(), DropReason::kShortPacket);
  Bytes mapped = built({envelope(Encapsulation::kV2Ipv6), packet(Opcode::kAcknowledge)});
  for (const std::size_t address : {14 + 8, 14 + 24}) {
    std::fill_n(mapped.begin() + static_cast<std::ptrdiff_t>(address), 10, std::byte{0});
    std::fill_n(mapped.begin() + static_cast<std::ptrdiff_t>(address) + 10, 2, std::byte{0xff});
  }
  EXPECT_EQ(parse(mapped).error(), DropReason::kNetworkVersion);
}

TEST(Packet, OfALimitedMemberOfOurPartitionIsAccepted) {
  Frame frame{envelope(Encapsulation::kV1), packet(Opcode::kAcknowledge)};
  frame.packet.pkey = 0x7fff;
  EXPECT_TRUE(parse(built(frame)));
}

TEST(Packet, HasAsMuchPayloadAsItsOpcodeAllows) {
  struct {
    Opcode opcode;
    std::vector<std::uint32_t> fits, fits_not;
  } const cases[] = {
      {Opcode::kSendFirst, {1024}, {0, 1, 1023, 1025, 4096}},
      {Opcode::kReadResponseMiddle, {1024}, {0, 1023, 1025}},
      {Opcode::kWriteLastImmediate, {1, 1023, 1024}, {0, 1025}},
      {Opcode::kWriteOnly, {0, 1, 1024}, {1025}},
      {Opcode::kReadRequest, {0}, {1, 1024}},
      {Opcode::kAcknowledge, {0}, {1}},
      {Opcode::kCongestionNotification, {16}, {0, 15, 17}},
  };
  for (const auto& each : cases) {
    for (const std::uint32_t bytes : each.fits) EXPECT_TRUE(payload_fits(each.opcode, bytes, 1024)) << bytes;
    for (const std::uint32_t bytes : each.fits_not)
      EXPECT_FALSE(payload_fits(each.opcode, bytes, 1024)) << bytes;
  }
}

TEST(Opcode, OfAnotherTransportIsUnknown) {
  int known = 0;
  for (int wire = 0; wire < 256; ++wire) {
    const OpcodeRule* rule = find_rule(static_cast<std::uint8_t>(wire));
    if (rule == nullptr) continue;
    ++known;
    if (rule->opcode == Opcode::kUnsupportedRequest) continue;
    EXPECT_EQ(static_cast<int>(rule->opcode), wire);
  }
  EXPECT_EQ(known, 35);
  for (const int wire : {0x15, 0x18, 0x1c, 0x1d, 0x1f})
    EXPECT_EQ(find_rule(static_cast<std::uint8_t>(wire))->opcode, Opcode::kUnsupportedRequest);
  for (const int wire : {0x20, 0x24, 0x44, 0x63, 0x66, 0x80, 0xa4}) {
    EXPECT_EQ(find_rule(static_cast<std::uint8_t>(wire)), nullptr) << wire;
  }
}

TEST(Icrc, StandsOnTheWireWithItsLeastSignificantByteFirst) {
  const Bytes bytes = built({envelope(Encapsulation::kV2Ipv4), packet(Opcode::kAcknowledge)});
  const std::uint32_t once = icrc(Encapsulation::kV2Ipv4, std::span(bytes).subspan(14, bytes.size() - 18));
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(bytes[bytes.size() - 4 + i], static_cast<std::byte>(once >> (8 * i)));
}

}  // namespace
}  // namespace pvrdma::roce
