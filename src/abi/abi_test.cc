// The headers prove the layouts when this file compiles. The tests check the functions of the headers.
#include <gtest/gtest.h>
#include <span>

#include "abi/commands.h"
#include "abi/cqe.h"
#include "abi/endian.h"
#include "abi/registers.h"
#include "abi/ring.h"
#include "abi/shared_region.h"
#include "abi/wqe.h"

namespace pvrdma::abi {
namespace {

TEST(Endian, StoresTheMostSignificantByteFirst) {
  const Be32 word = Be32::from_host(0x01020304);
  EXPECT_EQ(word.raw, 0x04030201U);
  EXPECT_EQ(word.to_host(), 0x01020304U);
  const Be64 guid = Be64::from_host(0x0102030405060708);
  EXPECT_EQ(guid.raw, 0x0807060504030201U);
  EXPECT_EQ(guid.to_host(), 0x0102030405060708U);
}

// The rows of section 4.5.
struct StrideRow {
  std::uint32_t min_sge, max_sge, stride;
};

void expect_strides(std::span<const StrideRow> rows, std::optional<std::uint32_t> (*stride)(std::uint32_t)) {
  for (const StrideRow& row : rows)
    for (std::uint32_t sge = row.min_sge; sge <= row.max_sge; ++sge)
      EXPECT_EQ(stride(sge), row.stride) << sge;
  const std::uint32_t too_many = rows.back().max_sge + 1;
  for (const std::uint32_t sge : {too_many, 0x0ffffffbu, 0x10000000u, 0xffffffffu})
    EXPECT_EQ(stride(sge), std::nullopt);
}

TEST(WqeStride, FollowsTheSendTable) {
  const StrideRow rows[] = {{0, 3, 128},    {4, 11, 256},    {12, 27, 512},
                            {28, 59, 1024}, {60, 123, 2048}, {124, 251, 4096}};
  expect_strides(rows, send_wqe_stride);
}

TEST(WqeStride, FollowsTheReceiveTable) {
  const StrideRow rows[] = {{0, 0, 16},    {1, 1, 32},     {2, 3, 64},      {4, 7, 128},     {8, 15, 256},
                            {16, 31, 512}, {32, 63, 1024}, {64, 127, 2048}, {128, 255, 4096}};
  expect_strides(rows, recv_wqe_stride);
}

// Each parser accepts exactly its enumerators and returns the same number.
template <typename Parse>
void expect_accepts(Parse parse, std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t raw = 0; raw <= last + 300; ++raw) {
    const auto parsed = parse(raw);
    ASSERT_EQ(parsed.has_value(), raw >= first && raw <= last) << raw;
    if (parsed) {
      EXPECT_EQ(static_cast<std::uint32_t>(*parsed), raw);
    }
  }
  EXPECT_FALSE(parse(0x80000000 + first));
  EXPECT_FALSE(parse(0xffffffff));
}

TEST(Parse, AcceptsTheEnumeratorsOnly) {
  expect_accepts(parse_command, 0, 20);
  expect_accepts(parse_opcode, 0, 15);
  expect_accepts(parse_qp_state, 0, 6);
  expect_accepts(parse_qp_type, 0, 4);
  expect_accepts(parse_mtu, 1, 5);
  expect_accepts(parse_ctl, 0, 2);
  expect_accepts(parse_event_type, 0, 18);
  expect_accepts(parse_completion_status, 0, 21);
}

TEST(Parse, KnowsTheCompletionOpcodesOfBothSides) {
  for (std::uint32_t raw = 0; raw < 0x200; ++raw)
    EXPECT_EQ(parse_completion_opcode(raw).has_value(), raw <= 10 || raw == 0x80 || raw == 0x81) << raw;
}

TEST(Parse, KnowsAlignedRegistersOnly) {
  for (std::uint64_t offset = 0; offset < 0x40; ++offset)
    EXPECT_EQ(parse_register(offset).has_value(), offset % 4 == 0 && offset <= 0x24) << offset;
  EXPECT_EQ(parse_register(0x10), Register::kRequest);
  EXPECT_FALSE(parse_register(1ull << 32));
  for (std::uint32_t offset = 0; offset < 0x20; ++offset)
    EXPECT_EQ(parse_uar_word(offset).has_value(), offset % 4 == 0 && offset <= 8) << offset;
  EXPECT_FALSE(parse_uar_word(4092));
}

TEST(Mtu, IsCountedInBytesToo) {
  EXPECT_EQ(mtu_bytes(Mtu::k256), 256U);
  EXPECT_EQ(mtu_bytes(Mtu::k1024), 1024U);
  EXPECT_EQ(mtu_bytes(Mtu::k4096), 4096U);
}

// The table of section 3.2.
TEST(Commands, TellWhichOnesAreAnswered) {
  const bool answered[kCommandCount] = {true,  true,  true,  false, true,  false, true,
                                        true,  false, true,  true,  true,  false, true,
                                        false, false, false, true,  false, true,  false};
  for (std::uint32_t raw = 0; raw < kCommandCount; ++raw)
    EXPECT_EQ(expects_response(*parse_command(raw)), answered[raw]) << raw;
  EXPECT_EQ(ack_of(Command::kQueryPort), 0x80000000U);
  EXPECT_EQ(ack_of(Command::kDestroySrq), 0x80000014U);
}

TEST(Commands, SplitTheUarFrame) {
  CreateUcRequest request{};
  request.pfn64 = 0x12'3456'789a;
  EXPECT_EQ(request.pfn(), 0x3456789aU);
}

TEST(QpAttrBits, AreThoseOfTheMasksSeen) {
  EXPECT_EQ(kQpAttrState | kQpAttrAccessFlags | kQpAttrPkeyIndex | kQpAttrPort, 0x39U);
  EXPECT_EQ(kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn |
                kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer,
            0x129181U);
  EXPECT_EQ(
      kQpAttrState | kQpAttrTimeout | kQpAttrRetryCnt | kQpAttrRnrRetry | kQpAttrSqPsn | kQpAttrMaxQpRdAtomic,
      0x12e01U);
  EXPECT_EQ(kQpAttrState | kQpAttrPkeyIndex | kQpAttrQkey, 0x51U);
}

TEST(SendWqe, HoldsOneFormAtATime) {
  SendWqeHeader header{};
  header.set_form(
      UdFields{.remote_qpn = 1, .remote_qkey = 0x80010000, .av = {.port_pd = 0x1000001, .hop_limit = 64}});
  const UdFields ud = header.form<UdFields>();
  EXPECT_EQ(ud.remote_qpn, 1U);
  EXPECT_EQ(ud.av.port_num(), 1U);
  EXPECT_EQ(ud.av.hop_limit, 64U);
  EXPECT_EQ(header.form<RdmaFields>().remote_addr, 0x8001000000000001U);
  header.set_form(AtomicFields{.remote_addr = 8, .compare_add = 2, .swap = 3, .rkey = 4});
  EXPECT_EQ(header.form<AtomicFields>().rkey, 4U);
}

TEST(SendWqe, ReadsTheExtraWordByOpcode) {
  SendWqeHeader header{};
  header.ex = Be32::from_host(0xcafe);
  EXPECT_EQ(header.imm_data().to_host(), 0xcafeU);
  header.ex.raw = 0x301;
  EXPECT_EQ(header.invalidate_rkey(), 0x301U);
}

TEST(AddressVectorWord, SplitsTrafficClassAndFlowLabel) {
  const AddressVector av{.sl_tclass_flowlabel = 0xab << 20 | 0xfedcb};
  EXPECT_EQ(av.traffic_class(), 0xab);
  EXPECT_EQ(av.flow_label(), 0xfedcbU);
}

// Section 4.3: runs the driver's counter arithmetic to the end of its period, for rings of 1 to 16 data
// pages.
TEST(EffectiveRing, IsThePeriodOfTheDriversArithmetic) {
  for (std::uint32_t pages = 1; pages <= 16; ++pages) {
    for (const std::uint32_t per_page : {512u, 1024u}) {
      const std::uint32_t nominal = pages * per_page;
      const std::uint32_t effective = effective_ring_entries(nominal);
      std::uint32_t counter = 0;
      std::uint32_t period = 0;
      do {
        ASSERT_EQ(counter & (nominal - 1), counter & (effective - 1));
        counter = (counter + 1) & (2 * nominal - 1);
        ++period;
      } while (counter != 0);
      EXPECT_EQ(period, 2 * effective) << nominal;
    }
  }
  EXPECT_EQ(effective_ring_entries_of<AsyncEvent>(0), 0U);
  EXPECT_EQ(effective_ring_entries_of<AsyncEvent>(1), 0U);
}

}  // namespace
}  // namespace pvrdma::abi
