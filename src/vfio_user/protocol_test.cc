// Table tests of the codec: the meaning of each payload, and the kind of refusal of each wrong one.
#include "vfio_user/protocol.h"

#include <cerrno>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "vfio_user/raw_peer.h"

namespace pvrdma::vfio_user {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
constexpr int kMalformed = 0;

// 0 for malformed, an errno for an errno reply, -1 for accepted.
template <typename T>
int refusal_of(const Decoded<T>& decoded) {
  return decoded ? -1 : decoded.error().answer;
}
constexpr int kAccepted = -1;

TEST(DecodeVersion, ReadsWhatQemuSends) {
  const auto bytes = qemu_version();
  EXPECT_EQ(bytes.size(), 214u);  // as on the wire (docs/device.md 8.2)
  const auto version = decode_version(std::span(bytes).subspan(kHeaderBytes));
  ASSERT_TRUE(version);
  EXPECT_EQ(version->major, 0);
  EXPECT_EQ(version->minor, 0);
  EXPECT_EQ(version->capabilities.max_msg_fds, 16u);
  EXPECT_EQ(version->capabilities.max_data_xfer_size, 1048576u);
}

TEST(DecodeVersion, AbsentCapabilitiesHaveTheProtocolsDefaults) {
  for (const Bytes& payload :
       {bytes_of(wire::Version{0, 1}), version_payload("{}"), version_payload(R"({"capabilities":{}})"),
        version_payload(R"({"other":[1]})")}) {
    const auto version = decode_version(payload);
    ASSERT_TRUE(version);
    EXPECT_EQ(version->capabilities.max_msg_fds, 1u);
    EXPECT_EQ(version->capabilities.pgsizes, 4096u);
  }
}

TEST(DecodeVersion, OnlyTheCapabilitiesThemselvesCount) {
  const auto version = decode_version(version_payload(
      R"({"max_msg_fds":-1,"capabilities":{"other":{"max_msg_fds":"x"},"list":[{"pgsizes":0}],"max_msg_fds":7},)"
      R"("more":{"max_msg_fds":9}})"));
  ASSERT_TRUE(version);
  EXPECT_EQ(version->capabilities.max_msg_fds, 7u);
  EXPECT_EQ(version->capabilities.pgsizes, 4096u);
}

TEST(DecodeVersion, RefusesWhatIsNoVersion) {
  Bytes no_nul = version_payload("{}");
  no_nul.pop_back();
  for (const Bytes& payload :
       {Bytes{}, Bytes(3), no_nul, version_payload(""), version_payload("{"), version_payload("[]"),
        version_payload("null"), version_payload(R"({"capabilities":3})"),
        version_payload(R"({"capabilities":{"max_msg_fds":-1}})"),
        version_payload(R"({"capabilities":{"max_msg_fds":"8"}})"),
        version_payload(R"({"capabilities":{"max_msg_fds":[8]}})"),
        version_payload(R"({"capabilities":{"max_msg_fds":{}}})"), version_payload(R"({"capabilities":[]})"),
        version_payload(R"({"capabilities":{"max_msg_fds":1e3}})"),
        version_payload(R"({"capabilities":{"max_data_xfer_size":4294967296}})"),
        version_payload(std::string(4000, '[')), version_payload("{}" + std::string(5000, ' '))}) {
    EXPECT_EQ(refusal_of(decode_version(payload)), kMalformed);
  }
}

TEST(WriteVersion, FitsInTheRoomThereIs) {
  Bytes room(198);
  const std::size_t bytes = write_version(room, kOwnCapabilities);
  EXPECT_GT(bytes, sizeof(wire::Version));
  const auto version = decode_version(std::span(room).first(bytes));
  ASSERT_TRUE(version);
  EXPECT_EQ(version->capabilities.max_msg_fds, 8u);
  EXPECT_EQ(version->capabilities.max_data_xfer_size, 1048576u);

  EXPECT_EQ(write_version(std::span(room).first(bytes), kOwnCapabilities), bytes);
  EXPECT_EQ(write_version(std::span(room).first(bytes - 1), kOwnCapabilities), sizeof(wire::Version));
}

TEST(DecodeDmaMap, Table) {
  const wire::DmaMap good{.flags = 3, .fd_offset = 0x3000, .iova = 0x1000, .size = 0x2000};
  const auto with = [&](auto change) {
    wire::DmaMap map = good;
    change(map);
    return bytes_of(map);
  };
  const struct {
    const char* what;
    Bytes payload;
    int expected;
  } table[] = {
      {"good", bytes_of(good), kAccepted},
      {"longer than known", bytes_of(good, std::uint64_t{7}), kAccepted},
      {"no rights", with([](auto& m) { m.flags = 0; }), kAccepted},
      {"up to the last page but one", with([](auto& m) { m.iova = kMax - 0x2fff; }), kAccepted},
      {"empty payload", {}, kMalformed},
      {"truncated", Bytes(31), kMalformed},
      {"argsz too small", with([](auto& m) { m.argsz = 31; }), EINVAL},
      {"unknown flag", with([](auto& m) { m.flags = 4; }), EINVAL},
      {"no size", with([](auto& m) { m.size = 0; }), EINVAL},
      {"half a page", with([](auto& m) { m.size = 0x800; }), EINVAL},
      {"crooked address", with([](auto& m) { m.iova = 0x1001; }), EINVAL},
      {"crooked offset", with([](auto& m) { m.fd_offset = 1; }), EINVAL},
      {"address wraps", with([](auto& m) { m.iova = kMax - 0xfff; }), EINVAL},
      {"offset wraps", with([](auto& m) { m.fd_offset = kMax - 0xfff; }), EINVAL},
      {"all of it", with([](auto& m) { m.size = kMax - 0xfff; }), EINVAL},
  };
  for (const auto& row : table)
    EXPECT_EQ(refusal_of(decode_dma_map(row.payload, 1)), row.expected) << row.what;

  const auto map = decode_dma_map(bytes_of(good), 1);
  ASSERT_TRUE(map);
  EXPECT_EQ(map->iova, 0x1000u);
  EXPECT_EQ(map->size, 0x2000u);
  EXPECT_EQ(map->fd_offset, 0x3000u);
  EXPECT_TRUE(map->readable && map->writable);

  const auto no_ram = decode_dma_map(with([](auto& m) { m.fd_offset = kMax; }), 0);
  ASSERT_TRUE(no_ram);
  EXPECT_EQ(no_ram->fd_offset, 0u);
}

TEST(DecodeDmaUnmap, Table) {
  using Unmap = wire::DmaUnmap;
  const struct {
    const char* what;
    Bytes payload;
    int expected;
  } table[] = {
      {"good", bytes_of(Unmap{.iova = 0x1000, .size = 0x1000}), kAccepted},
      {"all", bytes_of(Unmap{.flags = 2}), kAccepted},
      {"truncated", Bytes(23), kMalformed},
      {"argsz too small", bytes_of(Unmap{.argsz = 16, .iova = 0x1000, .size = 0x1000}), EINVAL},
      {"all with a size", bytes_of(Unmap{.flags = 2, .size = 0x1000}), EINVAL},
      {"all with an address", bytes_of(Unmap{.flags = 2, .iova = 0x1000}), EINVAL},
      {"dirty bitmap", bytes_of(Unmap{.flags = 1, .iova = 0x1000, .size = 0x1000}), EINVAL},
      {"empty", bytes_of(Unmap{.iova = 0x1000}), EINVAL},
      {"wraps", bytes_of(Unmap{.iova = kMax - 0xfff, .size = 0x2000}), EINVAL},
  };
  for (const auto& row : table)
    EXPECT_EQ(refusal_of(decode_dma_unmap(row.payload)), row.expected) << row.what;
  EXPECT_TRUE(decode_dma_unmap(table[1].payload)->all);
}

TEST(DecodeInfoRequests, Table) {
  EXPECT_EQ(refusal_of(decode_get_info(bytes_of(wire::DeviceInfo{}))), kAccepted);
  EXPECT_EQ(refusal_of(decode_get_info(Bytes(15))), kMalformed);
  EXPECT_EQ(refusal_of(decode_get_info(bytes_of(wire::DeviceInfo{.argsz = 12}))), EINVAL);
  EXPECT_EQ(refusal_of(decode_get_region_info(Bytes(31))), kMalformed);
  EXPECT_EQ(refusal_of(decode_get_region_info(bytes_of(wire::RegionInfo{.argsz = 31}))), EINVAL);
  EXPECT_EQ(refusal_of(decode_get_irq_info(Bytes(15))), kMalformed);
  EXPECT_EQ(refusal_of(decode_get_irq_info(bytes_of(wire::IrqInfo{.argsz = 0}))), EINVAL);
  EXPECT_EQ(decode_get_irq_info(bytes_of(wire::IrqInfo{.index = 3})), 3u);
  EXPECT_EQ(refusal_of(decode_reset({})), kAccepted);
  EXPECT_EQ(refusal_of(decode_reset(Bytes(1))), kMalformed);
}

TEST(DecodeSetIrqs, Table) {
  using Irqs = wire::SetIrqs;
  constexpr int kAssign = -10, kDisable = -11, kUnsupported = -12;
  const struct {
    const char* what;
    Bytes payload;
    std::size_t fds;
    int expected;
  } table[] = {
      {"vector 1 gets an eventfd", bytes_of(Irqs{.flags = 0x24, .start = 1, .count = 1}), 1, kAssign},
      {"three at once", bytes_of(Irqs{.flags = 0x24, .count = 3}), 3, kAssign},
      {"unassign", bytes_of(Irqs{.flags = 0x24, .count = 3}), 0, kAssign},
      {"fewer fds than vectors", bytes_of(Irqs{.flags = 0x24, .count = 3}), 2, EINVAL},
      {"more fds than vectors", bytes_of(Irqs{.flags = 0x24, .count = 1}), 2, EINVAL},
      {"no vector", bytes_of(Irqs{.flags = 0x24}), 0, EINVAL},
      {"disable", bytes_of(Irqs{.flags = 0x21}), 0, kDisable},
      {"disable with fds", bytes_of(Irqs{.flags = 0x21}), 1, EINVAL},
      {"trigger by hand", bytes_of(Irqs{.flags = 0x21, .count = 1}), 0, kUnsupported},
      {"bools", bytes_of(Irqs{.flags = 0x22, .count = 2}, std::uint16_t{1}), 0, kUnsupported},
      {"too few bools", bytes_of(Irqs{.flags = 0x22, .count = 3}, std::uint16_t{1}), 0, kMalformed},
      {"a great many bools", bytes_of(Irqs{.flags = 0x22, .count = 0xffffffff}), 0, kMalformed},
      {"bools with fds", bytes_of(Irqs{.flags = 0x22}), 1, EINVAL},
      {"mask", bytes_of(Irqs{.flags = 0x09, .count = 1}), 0, kUnsupported},
      {"unmask", bytes_of(Irqs{.flags = 0x11, .count = 1}), 0, kUnsupported},
      {"unmask by eventfd", bytes_of(Irqs{.flags = 0x14, .count = 1}), 1, kUnsupported},
      {"no data kind", bytes_of(Irqs{.flags = 0x20, .count = 1}), 0, EINVAL},
      {"two data kinds", bytes_of(Irqs{.flags = 0x25, .count = 1}), 0, EINVAL},
      {"no action", bytes_of(Irqs{.flags = 0x01, .count = 1}), 0, EINVAL},
      {"two actions", bytes_of(Irqs{.flags = 0x31, .count = 1}), 0, EINVAL},
      {"unknown flag", bytes_of(Irqs{.flags = 0x61, .count = 1}), 0, EINVAL},
      {"argsz too small", bytes_of(Irqs{.argsz = 19, .flags = 0x21}), 0, EINVAL},
      {"truncated", Bytes(19), 0, kMalformed},
  };
  for (const auto& row : table) {
    const auto decoded = decode_set_irqs(row.payload, row.fds);
    const int got = decoded ? -10 - static_cast<int>(decoded->operation) : decoded.error().answer;
    EXPECT_EQ(got, row.expected) << row.what;
  }
}

TEST(DecodeRegionAccess, Table) {
  using Access = wire::RegionAccess;
  EXPECT_EQ(refusal_of(decode_region_read(bytes_of(Access{8, 1, 4}))), kAccepted);
  EXPECT_EQ(refusal_of(decode_region_read(bytes_of(Access{8, 1, 1u << 20}))), kAccepted);
  EXPECT_EQ(refusal_of(decode_region_read(bytes_of(Access{8, 1, 0}))), EINVAL);
  EXPECT_EQ(refusal_of(decode_region_read(bytes_of(Access{8, 1, (1u << 20) + 1}))), EINVAL);
  EXPECT_EQ(refusal_of(decode_region_read(bytes_of(Access{kMax - 2, 1, 4}))), EINVAL);
  EXPECT_EQ(refusal_of(decode_region_read(Bytes(15))), kMalformed);
  EXPECT_EQ(refusal_of(decode_region_read(bytes_of(Access{8, 1, 4}, std::uint32_t{0}))), kMalformed);

  const auto good = bytes_of(Access{8, 1, 4}, std::uint32_t{0x01020304});
  const auto write = decode_region_write(good);
  ASSERT_TRUE(write);
  EXPECT_EQ(write->access.offset, 8u);
  EXPECT_EQ(write->access.region, 1u);
  EXPECT_EQ(read<std::uint32_t>(write->data), 0x01020304u);
  EXPECT_EQ(refusal_of(decode_region_write(Bytes(15))), kMalformed);
  EXPECT_EQ(refusal_of(decode_region_write(bytes_of(Access{8, 1, 4}))), kMalformed);
  EXPECT_EQ(refusal_of(decode_region_write(bytes_of(Access{8, 1, 0xffffffff}, std::uint32_t{0}))),
            kMalformed);
  EXPECT_EQ(refusal_of(decode_region_write(bytes_of(Access{8, 1, 3}, std::uint32_t{0}))), kMalformed);
  EXPECT_EQ(refusal_of(decode_region_write(bytes_of(Access{8, 1, 0}))), EINVAL);
  EXPECT_EQ(refusal_of(decode_region_write(bytes_of(Access{kMax, 1, 4}, std::uint32_t{0}))), EINVAL);
}

TEST(RegionInfoReplies, CapabilitiesOnlyWhereTheyFit) {
  const RegionInfo info{.size = 0x3000,
                        .readable = true,
                        .writable = true,
                        .mmap_areas = {{0x1000, 0x1000}, {0x2000, 0x1000}},
                        .fd_offset = 0x5000};
  ASSERT_EQ(region_info_bytes(info), 80u);
  Bytes room(200);
  for (const std::uint32_t argsz : {32u, 79u}) {
    ASSERT_EQ(write_region_info(room, info, {2, argsz}), 32u);
    const auto head = read<wire::RegionInfo>(room);
    EXPECT_EQ(head.argsz, 80u);
    EXPECT_EQ(head.flags, 7u);
    EXPECT_EQ(head.index, 2u);
    EXPECT_EQ(head.cap_offset, 0u);
  }
  for (const std::uint32_t argsz : {80u, 4096u}) {
    const std::size_t bytes = write_region_info(room, info, {2, argsz});
    ASSERT_EQ(bytes, 80u);
    EXPECT_EQ(read<wire::RegionInfo>(room).flags, 15u);
    const auto reply = decode_region_info_reply(std::span(room).first(bytes));
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->info.mmap_areas, info.mmap_areas);
    EXPECT_EQ(reply->info.fd_offset, 0x5000u);
    EXPECT_EQ(reply->info.size, 0x3000u);
  }
}

TEST(RegionInfoReplies, HostileCapabilityChainsEnd) {
  const wire::RegionInfo head{.argsz = 64, .flags = 15, .cap_offset = 32, .size = 0x1000};
  const wire::SparseMmapArea area{0, 0x1000};
  const auto refused = [](const Bytes& payload) {
    return refusal_of(decode_region_info_reply(payload)) == kMalformed;
  };
  EXPECT_FALSE(refused(bytes_of(head, wire::SparseMmap{.area_count = 1}, area)));
  EXPECT_FALSE(refused(bytes_of(head, wire::SparseMmap{.id = 9, .next = 0}, area)));
  EXPECT_TRUE(refused(bytes_of(head, wire::SparseMmap{.area_count = 2}, area)));
  EXPECT_TRUE(refused(bytes_of(head, wire::SparseMmap{.area_count = 0xffffffff}, area)));
  EXPECT_TRUE(refused(bytes_of(head, wire::SparseMmap{.id = 9, .next = 32}, area)));
  EXPECT_TRUE(refused(bytes_of(head, wire::SparseMmap{.id = 9, .next = 0xffffffff}, area)));
  EXPECT_TRUE(refused(bytes_of(wire::RegionInfo{.argsz = 64, .flags = 15, .cap_offset = 8})));
  EXPECT_TRUE(refused(Bytes(31)));
}

TEST(RegionInfoReplies, MappableWithoutAListMeansAllOfIt) {
  const auto reply = decode_region_info_reply(bytes_of(wire::RegionInfo{.flags = 7, .size = 0x2000}));
  ASSERT_TRUE(reply);
  EXPECT_THAT(reply->info.mmap_areas, testing::ElementsAre(MmapArea{0, 0x2000}));
}

TEST(NameOf, EveryNumber) {
  EXPECT_EQ(name_of(Command::kRegionWrite), "REGION_WRITE");
  EXPECT_EQ(name_of(Command{14}), "UNKNOWN");
  for (std::uint16_t i = 1; i <= 18; ++i) EXPECT_FALSE(name_of(Command{i}).empty());
}

}  // namespace
}  // namespace pvrdma::vfio_user
