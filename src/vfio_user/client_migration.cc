// The client's side of the migration messages.
#include <algorithm>
#include <cerrno>
#include <fmt/core.h>

#include "vfio_user/client.h"
#include "vfio_user/migration.h"

namespace pvrdma::vfio_user {
namespace {

constexpr std::size_t kHeadBytes = sizeof(wire::DeviceFeature);

}  // namespace

// The reply's data of `reply_bytes` bytes, valid until the next call.
Result<std::span<const std::byte>> Client::feature(std::uint32_t flags, std::size_t reply_bytes,
                                                   std::span<const std::byte> data) {
  if (auto usable = ready(); !usable) return Failure(std::move(usable).error());
  write(request_payload(), 0,
        wire::DeviceFeature{static_cast<std::uint32_t>(kHeadBytes + reply_bytes), flags});
  std::ranges::copy(data, request_payload().begin() + kHeadBytes);
  const auto reply = call(Command::kDeviceFeature, kHeadBytes + data.size());
  if (!reply) return Failure(reply.error());
  if (reply->payload.size() != kHeadBytes + reply_bytes)
    return give_up(Command::kDeviceFeature, EPROTO, "the reply does not have its feature's size");
  return reply->payload.subspan(kHeadBytes);
}

Result<std::uint64_t> Client::migration_flags() {
  const auto data = feature(wire::kFeatureGet | wire::kFeatureMigration, sizeof(std::uint64_t), {});
  if (!data) return Failure(data.error());
  return read<std::uint64_t>(*data);
}

Result<MigrationState> Client::migration_state() {
  const auto data =
      feature(wire::kFeatureGet | wire::kFeatureMigDeviceState, sizeof(wire::MigDeviceState), {});
  if (!data) return Failure(data.error());
  return static_cast<MigrationState>(read<wire::MigDeviceState>(*data).device_state);
}

Result<void> Client::set_migration_state(MigrationState state) {
  const wire::MigDeviceState wanted{.device_state = static_cast<std::uint32_t>(state)};
  const auto data = feature(wire::kFeatureSet | wire::kFeatureMigDeviceState, sizeof(wanted),
                            std::as_bytes(std::span(&wanted, 1)));
  if (!data) return Failure(data.error());
  return {};
}

Result<std::size_t> Client::migration_read(std::span<std::byte> out) {
  if (auto usable = ready(); !usable) return Failure(std::move(usable).error());
  if (out.size() > max_transfer_bytes_)
    return fail(EMSGSIZE, fmt::format("{}: {} bytes of migration data at once", path_, out.size()));
  const auto size = static_cast<std::uint32_t>(out.size());
  const auto argsz = static_cast<std::uint32_t>(sizeof(wire::MigData) + size);
  write(request_payload(), 0, wire::MigData{argsz, size});
  const auto reply = call(Command::kMigDataRead, sizeof(wire::MigData));
  if (!reply) return Failure(reply.error());
  if (reply->payload.size() < sizeof(wire::MigData))
    return give_up(Command::kMigDataRead, EPROTO, "the reply is malformed");
  const auto head = read<wire::MigData>(reply->payload);
  const auto data = reply->payload.subspan(sizeof(head));
  if (head.size != data.size() || data.size() > out.size())
    return give_up(Command::kMigDataRead, EPROTO, "the reply is malformed");
  std::ranges::copy(data, out.begin());
  return data.size();
}

Result<void> Client::migration_write(std::span<const std::byte> data) {
  if (auto usable = ready(); !usable) return usable;
  if (data.size() > max_transfer_bytes_)
    return fail(EMSGSIZE, fmt::format("{}: {} bytes of migration data at once", path_, data.size()));
  write(request_payload(), 0, wire::MigData{sizeof(wire::MigData), static_cast<std::uint32_t>(data.size())});
  std::ranges::copy(data, request_payload().begin() + sizeof(wire::MigData));
  return call_without_answer(Command::kMigDataWrite, sizeof(wire::MigData) + data.size());
}

Result<std::uint64_t> Client::start_log(std::uint64_t page_size, std::span<const LogRange> ranges) {
  if (ranges.size() > kMaxLogRanges) return fail(E2BIG, fmt::format("{}: too many ranges to log", path_));
  std::vector<std::byte> data(sizeof(wire::DmaLoggingControl) +
                              ranges.size() * sizeof(wire::DmaLoggingRange));
  write(std::span(data), 0, wire::DmaLoggingControl{page_size, static_cast<std::uint32_t>(ranges.size())});
  std::size_t at = sizeof(wire::DmaLoggingControl);
  for (const LogRange& range : ranges) {
    write(std::span(data), at, wire::DmaLoggingRange{range.iova, range.length});
    at += sizeof(wire::DmaLoggingRange);
  }
  const auto reply = feature(wire::kFeatureSet | wire::kFeatureDmaLoggingStart, data.size(), data);
  if (!reply) return Failure(reply.error());
  return read<wire::DmaLoggingControl>(*reply).page_size;
}

Result<void> Client::stop_log() {
  const auto data = feature(wire::kFeatureSet | wire::kFeatureDmaLoggingStop, 0, {});
  if (!data) return Failure(data.error());
  return {};
}

Result<std::vector<std::byte>> Client::log_report(const LogRange& range, std::uint64_t page_size) {
  if (page_size == 0) return fail(EINVAL, fmt::format("{}: a report of pages without size", path_));
  const wire::DmaLoggingReport asked{range.iova, range.length, page_size};
  const std::uint64_t bitmap_bytes = log_bitmap_bytes(range.length, page_size);
  if (bitmap_bytes > max_transfer_bytes_)
    return fail(E2BIG, fmt::format("{}: a report of {} bytes", path_, bitmap_bytes));
  const auto data = feature(wire::kFeatureGet | wire::kFeatureDmaLoggingReport, sizeof(asked) + bitmap_bytes,
                            std::as_bytes(std::span(&asked, 1)));
  if (!data) return Failure(data.error());
  const auto bitmap = data->subspan(sizeof(asked));
  return std::vector<std::byte>(bitmap.begin(), bitmap.end());
}

}  // namespace pvrdma::vfio_user
