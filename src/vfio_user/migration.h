// Migration: the server's side of the protocol's migration messages: DEVICE_FEATURE, MIG_DATA_READ,
// MIG_DATA_WRITE.
//
// It checks the client's requests, keeps the migration's state and whether writes are logged, and calls the
// Handler. A device that can neither migrate nor log refuses these commands as unknown (EOPNOTSUPP). A device
// that can do one of them refuses other features with ENOTTY, as Linux does. Replies are as large as the
// request's argsz allows, with at most 1 MiB of data.
//
// Thread: its session's. Source: QEMU docs/interop/vfio-user.rst; <linux/vfio.h>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vfio_user/handler.h"
#include "vfio_user/migration_state.h"
#include "vfio_user/protocol.h"

namespace pvrdma::vfio_user {

namespace wire {

inline constexpr std::uint32_t kFeatureMask = 0xffff;
inline constexpr std::uint32_t kFeatureGet = 1u << 16;
inline constexpr std::uint32_t kFeatureSet = 1u << 17;
inline constexpr std::uint32_t kFeatureProbe = 1u << 18;

inline constexpr std::uint32_t kFeatureMigration = 1;  // data: flags, 8 bytes
inline constexpr std::uint32_t kFeatureMigDeviceState = 2;
inline constexpr std::uint32_t kFeatureDmaLoggingStart = 6;
inline constexpr std::uint32_t kFeatureDmaLoggingStop = 7;  // no data
inline constexpr std::uint32_t kFeatureDmaLoggingReport = 8;

// The feature's data follows.
struct DeviceFeature {
  std::uint32_t argsz = 8;
  std::uint32_t flags = 0;
};
static_assert(sizeof(DeviceFeature) == 8 && offsetof(DeviceFeature, flags) == 4);

struct MigDeviceState {
  std::uint32_t device_state = 0;
  std::uint32_t data_fd = 0xffffffff;  // unused in vfio-user
};
static_assert(sizeof(MigDeviceState) == 8 && offsetof(MigDeviceState, data_fd) == 4);

// `range_count` ranges follow.
struct DmaLoggingControl {
  std::uint64_t page_size = 0;
  std::uint32_t range_count = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(DmaLoggingControl) == 16 && offsetof(DmaLoggingControl, range_count) == 8);

struct DmaLoggingRange {
  std::uint64_t iova = 0;
  std::uint64_t length = 0;
};
static_assert(sizeof(DmaLoggingRange) == 16 && offsetof(DmaLoggingRange, length) == 8);

// In the reply, the bitmap follows.
struct DmaLoggingReport {
  std::uint64_t iova = 0;
  std::uint64_t length = 0;
  std::uint64_t page_size = 0;
};
static_assert(sizeof(DmaLoggingReport) == 24 && offsetof(DmaLoggingReport, page_size) == 16);

// MIG_DATA_READ and MIG_DATA_WRITE. Data follows in read replies and write requests.
struct MigData {
  std::uint32_t argsz = 0;
  std::uint32_t size = 0;
};
static_assert(sizeof(MigData) == 8 && offsetof(MigData, size) == 4);

}  // namespace wire

// As many as fit into one page, which is the limit of the Linux kernel.
inline constexpr std::uint32_t kMaxLogRanges = 256;

// The size of a report's bitmap in bytes, a multiple of 8. `page_size` is not 0.
std::uint64_t log_bitmap_bytes(std::uint64_t length, std::uint64_t page_size);

class Migration {
 public:
  explicit Migration(Handler& handler) : handler_(handler) {}

  // Each executes one message's payload and writes the reply's payload to `out`, which has room for the
  // largest message. Returns the reply's size in bytes.
  Decoded<std::size_t> device_feature(std::span<const std::byte> payload, std::span<std::byte> out);
  Decoded<std::size_t> data_read(std::span<const std::byte> payload, std::span<std::byte> out);
  Decoded<std::size_t> data_write(std::span<const std::byte> payload);

  // Neither a migration nor a log is running.
  bool is_idle() const { return states_.current() == MigrationState::kRunning && !logging_; }

  // The device was reset. A log goes on, because it is not part of the device's state.
  void reset() { states_.reset(); }

 private:
  bool supported() const { return handler_.migration_flags() != 0 || handler_.can_log_writes(); }
  std::uint32_t methods_of(std::uint32_t feature) const;
  Decoded<std::size_t> get(std::uint32_t feature, const wire::DeviceFeature& head,
                           std::span<const std::byte> data, std::span<std::byte> out);
  Decoded<std::size_t> set(std::uint32_t feature, std::span<const std::byte> data, std::span<std::byte> out);
  Decoded<std::size_t> report(const wire::DeviceFeature& head, std::span<const std::byte> data,
                              std::span<std::byte> out);
  int set_state(std::span<const std::byte> data);
  int start_log(std::span<const std::byte> data, std::span<std::byte> out);
  int stop_log();

  Handler& handler_;
  MigrationStates states_;
  bool logging_ = false;
};

}  // namespace pvrdma::vfio_user
