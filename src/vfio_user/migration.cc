#include "vfio_user/migration.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace pvrdma::vfio_user {
namespace {

constexpr std::string_view kTooShort = "is shorter than its command's structure";
constexpr std::size_t kHeadBytes = sizeof(wire::DeviceFeature);

tl::unexpected<Refusal> answer(int code) {
  return tl::unexpected(Refusal{code, {}});
}
tl::unexpected<Refusal> malformed(std::string_view why) {
  return tl::unexpected(Refusal{0, why});
}

bool is_page_size(std::uint64_t bytes) {
  return bytes >= kPageBytes && std::has_single_bit(bytes);
}

bool is_log_range(std::uint64_t iova, std::uint64_t length, std::uint64_t page_size) {
  return length != 0 && iova % page_size == 0 && length % page_size == 0 &&
         iova <= std::numeric_limits<std::uint64_t>::max() - length;
}

std::optional<MigrationState> state_of(std::uint32_t number) {
  switch (static_cast<MigrationState>(number)) {
    case MigrationState::kError:
    case MigrationState::kStop:
    case MigrationState::kRunning:
    case MigrationState::kStopCopy:
    case MigrationState::kResuming:
    case MigrationState::kPreCopy:
      return static_cast<MigrationState>(number);
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t log_bitmap_bytes(std::uint64_t length, std::uint64_t page_size) {
  const std::uint64_t pages = length / page_size + (length % page_size != 0 ? 1 : 0);
  return (pages / 64 + (pages % 64 != 0 ? 1 : 0)) * 8;
}

// Whether the device has GET and SET of the feature; 0 if it does not have the feature.
std::uint32_t Migration::methods_of(std::uint32_t feature) const {
  const bool migrates = handler_.migration_flags() != 0;
  const bool logs = handler_.can_log_writes();
  switch (feature) {
    case wire::kFeatureMigration:
      return migrates ? wire::kFeatureGet : 0;
    case wire::kFeatureMigDeviceState:
      return migrates ? wire::kFeatureGet | wire::kFeatureSet : 0;
    case wire::kFeatureDmaLoggingStart:
    case wire::kFeatureDmaLoggingStop:
      return logs ? wire::kFeatureSet : 0;
    case wire::kFeatureDmaLoggingReport:
      return logs ? wire::kFeatureGet : 0;
    default:
      return 0;
  }
}

Decoded<std::size_t> Migration::device_feature(std::span<const std::byte> payload, std::span<std::byte> out) {
  if (payload.size() < kHeadBytes) return malformed(kTooShort);
  if (!supported()) return answer(EOPNOTSUPP);
  const auto head = read<wire::DeviceFeature>(payload);
  const std::uint32_t feature = head.flags & wire::kFeatureMask;
  const std::uint32_t asked = head.flags & (wire::kFeatureGet | wire::kFeatureSet);
  const bool probe = (head.flags & wire::kFeatureProbe) != 0;
  const bool one_method = asked == wire::kFeatureGet || asked == wire::kFeatureSet;
  if (head.argsz < kHeadBytes || (!probe && !one_method) ||
      (head.flags & ~(wire::kFeatureMask | wire::kFeatureGet | wire::kFeatureSet | wire::kFeatureProbe)) != 0)
    return answer(EINVAL);
  const std::uint32_t methods = methods_of(feature);
  if (methods == 0) return answer(ENOTTY);
  if ((asked & ~methods) != 0) return answer(EINVAL);
  const auto data = payload.subspan(kHeadBytes);
  if (!probe && asked == wire::kFeatureGet) return get(feature, head, data, out);

  // The reply repeats the request.
  if (payload.size() > head.argsz || payload.size() > out.size()) return answer(EINVAL);
  std::ranges::copy(payload, out.begin());
  if (probe) return payload.size();
  return set(feature, data, out.first(payload.size()));
}

Decoded<std::size_t> Migration::get(std::uint32_t feature, const wire::DeviceFeature& head,
                                    std::span<const std::byte> data, std::span<std::byte> out) {
  if (feature == wire::kFeatureDmaLoggingReport) return report(head, data, out);
  if (head.argsz < kHeadBytes + sizeof(std::uint64_t)) return answer(EINVAL);
  const std::size_t bytes = kHeadBytes + sizeof(std::uint64_t);
  write(out, 0, wire::DeviceFeature{static_cast<std::uint32_t>(bytes), head.flags});
  if (feature == wire::kFeatureMigration) {
    write(out, kHeadBytes, handler_.migration_flags());
  } else {
    write(out, kHeadBytes,
          wire::MigDeviceState{.device_state = static_cast<std::uint32_t>(states_.current())});
  }
  return bytes;
}

Decoded<std::size_t> Migration::set(std::uint32_t feature, std::span<const std::byte> data,
                                    std::span<std::byte> out) {
  int result = 0;
  switch (feature) {
    case wire::kFeatureMigDeviceState:
      if (data.size() < sizeof(wire::MigDeviceState)) return malformed(kTooShort);
      result = set_state(data);
      break;
    case wire::kFeatureDmaLoggingStart:
      if (data.size() < sizeof(wire::DmaLoggingControl)) return malformed(kTooShort);
      result = start_log(data, out);
      break;
    default:
      result = stop_log();
  }
  if (result != 0) return answer(result);
  return out.size();
}

int Migration::set_state(std::span<const std::byte> data) {
  const auto wanted = state_of(read<wire::MigDeviceState>(data).device_state);
  if (!wanted) return EINVAL;
  return states_.change(*wanted, (handler_.migration_flags() & kMigrationPreCopy) != 0,
                        [this](MigrationState next) { return handler_.set_migration_state(next); });
}

int Migration::start_log(std::span<const std::byte> data, std::span<std::byte> out) {
  auto control = read<wire::DmaLoggingControl>(data);
  if (!is_page_size(control.page_size)) return EINVAL;
  if (control.range_count > kMaxLogRanges) return E2BIG;
  if (data.size() - sizeof(control) != control.range_count * sizeof(wire::DmaLoggingRange)) return EINVAL;
  if (logging_) return EBUSY;
  std::vector<LogRange> ranges;
  ranges.reserve(control.range_count);
  for (std::uint32_t i = 0; i < control.range_count; ++i) {
    const auto range = read<wire::DmaLoggingRange>(data, sizeof(control) + i * sizeof(wire::DmaLoggingRange));
    if (!is_log_range(range.iova, range.length, kPageBytes)) return EINVAL;
    ranges.push_back({range.iova, range.length});
  }
  if (const int result = handler_.log_start(control.page_size, ranges); result != 0) return result;
  logging_ = true;
  write(out, kHeadBytes, control);  // contains the page size that the device chose
  return 0;
}

int Migration::stop_log() {
  if (!logging_) return EINVAL;
  const int result = handler_.log_stop();
  if (result == 0) logging_ = false;
  return result;
}

Decoded<std::size_t> Migration::report(const wire::DeviceFeature& head, std::span<const std::byte> data,
                                       std::span<std::byte> out) {
  if (data.size() < sizeof(wire::DmaLoggingReport)) return malformed(kTooShort);
  const auto asked = read<wire::DmaLoggingReport>(data);
  if (!logging_ || !is_page_size(asked.page_size) || !is_log_range(asked.iova, asked.length, asked.page_size))
    return answer(EINVAL);
  const std::uint64_t bitmap_bytes = log_bitmap_bytes(asked.length, asked.page_size);
  if (bitmap_bytes > kMaxDataTransferBytes - sizeof(asked)) return answer(E2BIG);
  const std::size_t bytes = kHeadBytes + sizeof(asked) + bitmap_bytes;
  if (bytes > head.argsz) return answer(EINVAL);
  write(out, 0, wire::DeviceFeature{static_cast<std::uint32_t>(bytes), head.flags});
  write(out, kHeadBytes, asked);
  const auto bitmap = out.subspan(kHeadBytes + sizeof(asked), bitmap_bytes);
  std::ranges::fill(bitmap, std::byte{0});
  if (const int result = handler_.log_report({asked.iova, asked.length}, asked.page_size, bitmap);
      result != 0)
    return answer(result);
  return bytes;
}

Decoded<std::size_t> Migration::data_read(std::span<const std::byte> payload, std::span<std::byte> out) {
  if (payload.size() < sizeof(wire::MigData)) return malformed(kTooShort);
  if (handler_.migration_flags() == 0) return answer(EOPNOTSUPP);
  const auto asked = read<wire::MigData>(payload);
  const bool saving =
      states_.current() == MigrationState::kPreCopy || states_.current() == MigrationState::kStopCopy;
  if (!saving || asked.size == 0 || asked.size > kMaxDataTransferBytes ||
      asked.argsz < sizeof(asked) + asked.size)
    return answer(EINVAL);
  const auto filled = handler_.migration_read(out.subspan(sizeof(asked), asked.size));
  if (!filled) return answer(filled.error());
  PVRDMA_CHECK(*filled <= asked.size, "more migration data than was asked for");
  const std::size_t bytes = sizeof(asked) + *filled;
  write(out, 0, wire::MigData{static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(*filled)});
  return bytes;
}

Decoded<std::size_t> Migration::data_write(std::span<const std::byte> payload) {
  if (payload.size() < sizeof(wire::MigData)) return malformed(kTooShort);
  if (handler_.migration_flags() == 0) return answer(EOPNOTSUPP);
  const auto head = read<wire::MigData>(payload);
  const auto data = payload.subspan(sizeof(head));
  if (data.size() != head.size) return malformed("announces more or fewer bytes than it carries");
  if (states_.current() != MigrationState::kResuming || data.empty() || data.size() > kMaxDataTransferBytes)
    return answer(EINVAL);
  if (const int result = handler_.migration_write(data); result != 0) return answer(result);
  return 0;
}

}  // namespace pvrdma::vfio_user
