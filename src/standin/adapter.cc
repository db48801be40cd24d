#include "standin/adapter.h"

#include <cerrno>
#include <fmt/core.h>

#include "driver/interrupts.h"
#include "driver/mapped_areas.h"
#include "standin/gid_list.h"
#include "standin/open_file.h"

namespace pvrdma::standin {
namespace {

// A daemon that restarts with kept adapters answers late.
constexpr Duration kReplyTimeout = std::chrono::seconds(20);

// Page directories: 8 bytes per registered page, and a few pages per queue.
constexpr std::uint64_t kOwnRamBytes = 256ULL << 20;

std::uint64_t key(abi::EventObject object, std::uint32_t handle) {
  return static_cast<std::uint64_t>(object) << 32 | handle;
}

Result<abi::Mac> read_mac(driver::Device& device) {
  const auto low = device.read_register(abi::Register::kMacLow);
  if (!low) return Failure(low.error());
  const auto high = device.read_register(abi::Register::kMacHigh);
  if (!high) return Failure(high.error());
  abi::Mac mac;
  for (unsigned i = 0; i < 4; ++i) mac.raw[i] = static_cast<std::uint8_t>(*low >> 8 * i);
  for (unsigned i = 0; i < 2; ++i) mac.raw[4 + i] = static_cast<std::uint8_t>(*high >> 8 * i);
  return mac;
}

}  // namespace

Result<std::unique_ptr<Adapter>> Adapter::open(const std::string& socket,
                                               const std::vector<IpAddress>& addresses,
                                               std::optional<abi::Mac> gateway) {
  auto client = vfio_user::Client::connect(socket, kReplyTimeout);
  if (!client) return Failure(std::move(client.error()));
  auto doorbells = (*client)->region_info(static_cast<std::uint32_t>(driver::Region::kUar));
  if (!doorbells) return Failure(std::move(doorbells.error()));
  // Programs map what the daemon offers: MappedAreas checks it.
  if (auto areas = driver::MappedAreas::create(doorbells->info, doorbells->fd.get()); !areas)
    return Failure(std::move(areas.error()));
  auto bus = driver::VfioUserBus::create(std::move(*client), driver::AreaUse::kTrapped);
  if (!bus) return Failure(std::move(bus.error()));
  driver::VfioUserBus* const raw_bus = bus->get();
  auto device = driver::Device::open(std::move(*bus), {.ram = {.size_bytes = kOwnRamBytes}});
  if (!device) return Failure(std::move(device.error()));
  std::unique_ptr<Adapter> adapter(new Adapter(std::move(*device), raw_bus, std::move(*doorbells), gateway));
  if (auto bound = adapter->bind(addresses); !bound) return Failure(std::move(bound.error()));
  return adapter;
}

Result<> Adapter::bind(const std::vector<IpAddress>& addresses) {
  const auto mac = read_mac(*device_);
  if (!mac) return Failure(mac.error());
  gids_.push_back(link_local_gid(*mac));
  for (const IpAddress& address : addresses) gids_.push_back(gid_of(address));
  const std::uint32_t room = device_->caps().gid_tbl_len;
  if (gids_.size() > room)
    return fail(EINVAL,
                fmt::format("{} addresses are given; the adapter takes {}", addresses.size(), room - 1));
  for (std::uint32_t index = 0; index < gids_.size(); ++index) {
    if (auto bound = device_->bind_gid(index, gids_[index]); !bound) {
      const std::string what = index == 0 ? mac->to_string() : addresses[index - 1].to_string();
      return Failure(std::move(bound.error()).in("giving the adapter the address " + what));
    }
  }
  return {};
}

std::optional<std::uint64_t> Adapter::doorbell_offset(std::uint32_t uar) const {
  const std::uint64_t offset = uar * abi::kUarPageBytes;
  for (const vfio_user::MmapArea& area : doorbells_.info.mmap_areas) {
    if (offset >= area.offset && offset - area.offset < area.size) return doorbells_.info.fd_offset + offset;
  }
  return std::nullopt;
}

Result<> Adapter::ring(std::uint32_t uar, abi::UarWord word, std::uint32_t value) {
  return device_->bus().region_write32(driver::Region::kUar,
                                       uar * abi::kUarPageBytes + static_cast<std::uint32_t>(word), value);
}

void Adapter::set_owner(abi::EventObject object, std::uint32_t handle, OpenFile* file) {
  if (file == nullptr) {
    owners_.erase(key(object, handle));
  } else {
    owners_[key(object, handle)] = file;
  }
}

OpenFile* Adapter::owner(abi::EventObject object, std::uint32_t handle) const {
  const auto found = owners_.find(key(object, handle));
  return found == owners_.end() ? nullptr : found->second;
}

void Adapter::dispatch_events() {
  driver::take_interrupts(device_->event_fd(abi::Vector::kNotification));
  driver::take_interrupts(device_->event_fd(abi::Vector::kAsyncEvent));
  while (const auto handle = device_->poll_notification()) {
    if (OpenFile* file = owner(abi::EventObject::kCq, *handle)) {
      file->notify_cq(*handle);
    } else {
      own_was_notified_ = true;
    }
  }
  while (const auto event = device_->poll_async_event()) {
    if (const auto object = abi::object_of(event->type); object == abi::EventObject::kNone) {
      for (const OpenFile* file : files_) file->notify(*event);
    } else if (const OpenFile* file = owner(object, event->info)) {
      file->notify(*event);
    }
  }
}

void Adapter::set_lost() {
  if (lost_) return;
  lost_ = true;
  for (const OpenFile* file : files_) file->notify({.type = abi::EventType::kDeviceFatal, .info = 0});
}

int Adapter::errno_of(const Error& error) {
  switch (error.code) {
    case 0:    // the daemon has ended the connection
    case EIO:  // the daemon has stopped the adapter
    case ENOTCONN:
    case EPIPE:
    case ECONNRESET:
    case ETIMEDOUT:
    case EPROTO:
      set_lost();
      return EIO;
    default:
      return lost_ ? EIO : error.code;
  }
}

}  // namespace pvrdma::standin
