// The migration messages: what each asks of the device, and what the server refuses.
#include "vfio_user/migration.h"

#include <cerrno>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "vfio_user/fake_handler.h"
#include "vfio_user/raw_peer.h"

namespace pvrdma::vfio_user {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint32_t kGet = wire::kFeatureGet;
constexpr std::uint32_t kSet = wire::kFeatureSet;
constexpr std::uint32_t kProbe = wire::kFeatureProbe;
constexpr int kMalformedMessage = -1;

class MigrationTest : public testing::Test {
 protected:
  FakeHandler device_;
  Migration migration_{device_};
  Bytes out_ = Bytes(kMaxMessageBytes - kHeaderBytes, std::byte{0xee});

  void SetUp() override {
    device_.migrates = kMigrationStopCopy | kMigrationPreCopy;
    device_.logs = true;
  }

  Bytes taken(const Decoded<std::size_t>& bytes) {
    EXPECT_TRUE(bytes);
    return bytes ? Bytes(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(*bytes)) : Bytes();
  }
  static int code(const Decoded<std::size_t>& bytes) {
    if (bytes) return 0;
    return bytes.error().answer != 0 ? bytes.error().answer : kMalformedMessage;
  }

  template <typename... Data>
  Decoded<std::size_t> feature(std::uint32_t flags, std::uint32_t argsz, const Data&... data) {
    return migration_.device_feature(bytes_of(wire::DeviceFeature{argsz, flags}, data...), out_);
  }
  int go_to(MigrationState state) {
    return code(feature(kSet | wire::kFeatureMigDeviceState, 16,
                        wire::MigDeviceState{static_cast<std::uint32_t>(state)}));
  }
  std::uint32_t state() {
    return read<wire::MigDeviceState>(taken(feature(kGet | wire::kFeatureMigDeviceState, 16)), 8)
        .device_state;
  }
  int start_log(const wire::DmaLoggingControl& control) {
    return code(feature(kSet | wire::kFeatureDmaLoggingStart, 24, control));
  }
  int report(const wire::DmaLoggingReport& asked, std::uint32_t argsz = 1u << 20) {
    return code(feature(kGet | wire::kFeatureDmaLoggingReport, argsz, asked));
  }
  int read_data(std::uint32_t argsz, std::uint32_t size) {
    return code(migration_.data_read(bytes_of(wire::MigData{argsz, size}), out_));
  }
  int write_data(const Bytes& data) {
    Bytes payload = bytes_of(wire::MigData{8, static_cast<std::uint32_t>(data.size())});
    payload.insert(payload.end(), data.begin(), data.end());
    return code(migration_.data_write(payload));
  }
};

TEST_F(MigrationTest, FlagsAndProbes) {
  const Bytes reply = taken(feature(kGet | wire::kFeatureMigration, 16));
  EXPECT_EQ(reply, bytes_of(wire::DeviceFeature{16, kGet | 1}, std::uint64_t{5}));

  const struct {
    std::uint32_t flags;
    int result;
  } table[] = {
      {kProbe | 1, 0},
      {kProbe | kGet | 1, 0},
      {kProbe | kSet | 1, EINVAL},
      {kProbe | kGet | kSet | 2, 0},
      {kProbe | kSet | 6, 0},
      {kProbe | kGet | 6, EINVAL},
      {kProbe | kSet | 7, 0},
      {kProbe | kGet | 8, 0},
      {kProbe | kGet | kSet | 8, EINVAL},
      {kProbe | 3, ENOTTY},
      {kProbe | 0xffff, ENOTTY},
      {kGet | 3, ENOTTY},
      {kGet | kSet | 2, EINVAL},
      {2, EINVAL},
      {kSet | 1, EINVAL},
      {kProbe | 1 | 1u << 19, EINVAL},
  };
  for (const auto& row : table) EXPECT_EQ(code(feature(row.flags, 16)), row.result) << std::hex << row.flags;
  EXPECT_EQ(taken(feature(kProbe | 2, 16)), bytes_of(wire::DeviceFeature{16, kProbe | 2}));
  EXPECT_EQ(code(feature(kGet | 1, 15)), EINVAL) << "no room for the flags";
  EXPECT_EQ(code(feature(kProbe | 1, 7)), EINVAL);
  EXPECT_EQ(code(migration_.device_feature(Bytes(7), out_)), kMalformedMessage);
  EXPECT_THAT(device_.calls, IsEmpty());
}

TEST_F(MigrationTest, WhatTheDeviceHasNotIsNotThere) {
  device_.logs = false;
  EXPECT_EQ(code(feature(kProbe | 6, 16)), ENOTTY);
  EXPECT_EQ(code(feature(kProbe | 1, 16)), 0);
  device_.migrates = 0;
  for (const std::uint32_t number : {1u, 2u, 6u, 7u, 8u})
    EXPECT_EQ(code(feature(kProbe | number, 16)), EOPNOTSUPP);
  EXPECT_EQ(read_data(16, 8), EOPNOTSUPP);
  EXPECT_EQ(write_data(Bytes(8)), EOPNOTSUPP);
  device_.logs = true;
  EXPECT_EQ(code(feature(kProbe | 6, 16)), 0);
  EXPECT_EQ(code(feature(kProbe | 2, 16)), ENOTTY);
}

TEST_F(MigrationTest, StatesByTheirNumbers) {
  EXPECT_EQ(state(), 2u);
  EXPECT_EQ(go_to(MigrationState::kStopCopy), 0);
  EXPECT_THAT(device_.take_calls(), ElementsAre("state 1", "state 3"));
  EXPECT_EQ(state(), 3u);
  for (const std::uint32_t number : {0u, 5u, 7u, 0xffffffffu})
    EXPECT_EQ(go_to(static_cast<MigrationState>(number)), EINVAL);
  EXPECT_EQ(go_to(MigrationState::kPreCopy), EINVAL);
  EXPECT_EQ(code(feature(kSet | 2, 16, std::uint32_t{1})), kMalformedMessage);

  device_.next_result = EIO;
  EXPECT_EQ(go_to(MigrationState::kStop), EIO);
  EXPECT_EQ(state(), 3u);
  device_.lost_on_failure = true;
  EXPECT_EQ(go_to(MigrationState::kStop), EIO);
  EXPECT_EQ(state(), 0u);
  device_.next_result = 0;
  EXPECT_EQ(go_to(MigrationState::kRunning), EINVAL);
  migration_.reset();
  EXPECT_EQ(state(), 2u);
  device_.migrates = kMigrationStopCopy;
  EXPECT_EQ(go_to(MigrationState::kPreCopy), EINVAL);
}

TEST_F(MigrationTest, DataOnlyInItsStates) {
  constexpr std::uint32_t kMost = kMaxDataTransferBytes;
  EXPECT_EQ(read_data(16, 8), EINVAL);
  EXPECT_EQ(write_data(Bytes(8)), EINVAL);
  EXPECT_EQ(code(migration_.data_read(Bytes(7), out_)), kMalformedMessage);
  EXPECT_EQ(code(migration_.data_write(Bytes(7))), kMalformedMessage);

  for (const MigrationState saving : {MigrationState::kPreCopy, MigrationState::kStopCopy}) {
    ASSERT_EQ(go_to(saving), 0);
    EXPECT_EQ(read_data(16, 8), 0);
    EXPECT_EQ(write_data(Bytes(8)), EINVAL);
    EXPECT_EQ(read_data(15, 8), EINVAL);
    EXPECT_EQ(read_data(8, 0), EINVAL);
    EXPECT_EQ(read_data(kMost + 8, kMost), 0);
    EXPECT_EQ(read_data(kMost + 9, kMost + 1), EINVAL);
    EXPECT_EQ(read_data(0xffffffff, 0xffffffff), EINVAL);
    EXPECT_EQ(read_data(7, 0xffffffff), EINVAL);
  }
  device_.migration_data = 5;  // bytes left
  EXPECT_EQ(taken(migration_.data_read(bytes_of(wire::MigData{16, 8}), out_)).size(), 8u + 5u);
  EXPECT_EQ(read<wire::MigData>(out_).argsz, 13u);
  EXPECT_EQ(read<wire::MigData>(out_).size, 5u);
  device_.next_result = ENOMEM;
  EXPECT_EQ(read_data(16, 8), ENOMEM);
  device_.next_result = 0;

  ASSERT_EQ(go_to(MigrationState::kResuming), 0);
  device_.take_calls();
  EXPECT_EQ(write_data(Bytes(8)), 0);
  EXPECT_THAT(device_.take_calls(), ElementsAre("write state 8"));
  EXPECT_EQ(read_data(16, 8), EINVAL);
  EXPECT_EQ(write_data({}), EINVAL);
  EXPECT_EQ(code(migration_.data_write(bytes_of(wire::MigData{8, 9}, std::uint64_t{0}))), kMalformedMessage);
}

TEST_F(MigrationTest, LogsStartStopAndReport) {
  constexpr std::uint64_t kPage = 4096;
  EXPECT_EQ(code(feature(kSet | 7, 8)), EINVAL) << "no log";
  EXPECT_EQ(report({0, kPage, kPage}), EINVAL) << "no log";
  EXPECT_EQ(start_log({.page_size = 0}), EINVAL);
  EXPECT_EQ(start_log({.page_size = 2048}), EINVAL);
  EXPECT_EQ(start_log({.page_size = 3 * kPage}), EINVAL);
  EXPECT_EQ(start_log({.page_size = kPage, .range_count = 1}), EINVAL) << "which is not there";
  EXPECT_EQ(start_log({.page_size = kPage, .range_count = 0xffffffff}), E2BIG);
  EXPECT_EQ(code(feature(kSet | 6, 23, wire::DmaLoggingControl{kPage})), EINVAL) << "no room";
  EXPECT_EQ(code(feature(kSet | 6, 24, kPage)), kMalformedMessage);
  const wire::DmaLoggingControl one{kPage, 1};
  for (const auto& range : {wire::DmaLoggingRange{1, kPage}, wire::DmaLoggingRange{0, 1},
                            wire::DmaLoggingRange{0, 0}, wire::DmaLoggingRange{~(kPage - 1), kPage}})
    EXPECT_EQ(code(feature(kSet | 6, 40, one, range)), EINVAL);
  EXPECT_THAT(device_.calls, IsEmpty());

  // The device supports only pages of 4096 bytes.
  const Bytes reply = taken(
      feature(kSet | 6, 40, wire::DmaLoggingControl{2 * kPage, 1}, wire::DmaLoggingRange{kPage, 8 * kPage}));
  EXPECT_EQ(reply, bytes_of(wire::DeviceFeature{40, kSet | 6}, wire::DmaLoggingControl{kPage, 1},
                            wire::DmaLoggingRange{kPage, 8 * kPage}));
  EXPECT_THAT(device_.take_calls(), ElementsAre("log 8192 0x1000+0x8000"));
  EXPECT_EQ(start_log({.page_size = kPage}), EBUSY);

  migration_.reset();  // does not stop the log
  const Bytes bitmap = taken(feature(kGet | 8, 48, wire::DmaLoggingReport{kPage, 65 * kPage, kPage}));
  EXPECT_EQ(bitmap,
            bytes_of(wire::DeviceFeature{48, kGet | 8}, wire::DmaLoggingReport{kPage, 65 * kPage, kPage},
                     std::uint64_t{1}, std::uint64_t{0}));
  EXPECT_THAT(device_.take_calls(), ElementsAre("report 0x1000+0x41000 4096 16"));
  EXPECT_EQ(report({kPage, 65 * kPage, kPage}, 47), EINVAL);
  EXPECT_EQ(report({0, kPage, 0}), EINVAL);
  EXPECT_EQ(report({0, kPage, 8 * kPage}), EINVAL);
  EXPECT_EQ(report({1, kPage, kPage}), EINVAL);
  EXPECT_EQ(report({0, 0, kPage}), EINVAL);
  EXPECT_EQ(report({~(kPage - 1), kPage, kPage}), EINVAL);
  EXPECT_EQ(report({0, ~(kPage - 1), kPage}, 0xffffffff), E2BIG);
  constexpr std::uint64_t kMost = (kMaxDataTransferBytes - 24) * 8 * kPage;
  EXPECT_EQ(report({0, kMost, kPage}, 0xffffffff), 0);
  EXPECT_EQ(report({0, kMost + kPage, kPage}, 0xffffffff), E2BIG);
  EXPECT_EQ(report({0, 1ull << 63, 1ull << 63}), 0);

  device_.take_calls();
  EXPECT_EQ(code(feature(kSet | 7, 8)), 0);
  EXPECT_THAT(device_.take_calls(), ElementsAre("log off"));
  EXPECT_EQ(code(feature(kSet | 7, 8)), EINVAL);
  Bytes ranges =
      bytes_of(wire::DeviceFeature{0xffff, kSet | 6}, wire::DmaLoggingControl{kPage, kMaxLogRanges + 1});
  ranges.resize(ranges.size() + (kMaxLogRanges + 1) * sizeof(wire::DmaLoggingRange));
  EXPECT_EQ(code(migration_.device_feature(ranges, out_)), E2BIG);
}

}  // namespace
}  // namespace pvrdma::vfio_user
