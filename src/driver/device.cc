#include "driver/device.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fmt/core.h>
#include <linux/pci_regs.h>

#include "driver/completion_queue.h"
#include "driver/context.h"

namespace pvrdma::driver {
namespace {

constexpr std::uint32_t kBindMtuBytes = 1024;  // what Linux always says
constexpr std::uint32_t kNoVlan = 0xfff;
constexpr std::size_t kWindowsMax = 511;  // the daemon's limit, without guest RAM

constexpr std::uint64_t offset_of(abi::Register reg) {
  return static_cast<std::uint64_t>(reg);
}

}  // namespace

Result<std::unique_ptr<Device>> Device::open(std::unique_ptr<Bus> bus, const DeviceOptions& options) {
  std::unique_ptr<Device> device(new Device(std::move(bus), options));
  if (auto probed = device->probe(options); !probed) {
    return Failure(std::move(probed.error()).in("opening a PVRDMA adapter"));
  }
  return device;
}

Device::Device(std::unique_ptr<Bus> bus, const DeviceOptions& options)
    : bus_(std::move(bus)), uar_bar_address_(options.uar_bar_address) {}

Device::~Device() {
  (void)close();
}

Result<> enable_bus_master(Bus& bus) {
  std::uint16_t command = 0;
  const auto bytes = std::as_writable_bytes(std::span(&command, 1));
  if (auto read = bus.region_read(Region::kConfig, PCI_COMMAND, bytes); !read) return read;
  command |= PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
  return bus.region_write(Region::kConfig, PCI_COMMAND, bytes);
}

// The steps of Linux's probe, in its order (1.5).
Result<> Device::probe(const DeviceOptions& options) {
  auto ram = GuestRam::create(options.ram);
  if (!ram) return Failure(std::move(ram.error()));
  ram_ = std::move(*ram);
  if (auto mapped = bus_->dma_map(ram_->base().value, ram_->size_bytes(), ram_->fd(), 0); !mapped)
    return mapped;
  ram_mapped_ = true;

  if (auto enabled = enable_bus_master(*bus_); !enabled) return enabled;
  auto version = read_register(abi::Register::kVersion);
  if (!version) return Failure(std::move(version.error()));
  version_ = *version;
  if (version_ < abi::kVersionRocev1)
    return fail(EFAULT, fmt::format("device version {} is below 17", version_));

  auto region = SharedRegion::create(*ram_, version_, uar_pfn(0));
  if (!region) return Failure(std::move(region.error()));
  region_ = std::move(*region);
  const std::uint64_t dsr = region_->gpa().value;
  announced_ = true;
  if (auto low = write_register(abi::Register::kDsrLow, static_cast<std::uint32_t>(dsr)); !low) return low;
  if (auto high = write_register(abi::Register::kDsrHigh, static_cast<std::uint32_t>(dsr >> 32)); !high)
    return high;
  caps_ = region_->caps();
  if (auto good = check_caps(); !good) return good;

  auto interrupts = Interrupts::enable(*bus_);
  if (!interrupts) return Failure(std::move(interrupts.error()));
  interrupts_ = std::move(*interrupts);
  commands_ = std::make_unique<CommandChannel>(*bus_, region_->command_slot(), region_->response_slot(),
                                               event_fd(abi::Vector::kResponse), options.command_timeout);
  qps_.assign(caps_.max_qp, nullptr);
  cqs_.assign(caps_.max_cq, nullptr);
  uars_.assign(caps_.max_uar, false);
  uars_[0] = true;
  windows_.assign(kWindowsMax, false);
  kernel_ = Context::kernel(*this);

  if (auto unmasked = write_register(abi::Register::kImr, abi::kImrAllEnabled); !unmasked) return unmasked;
  if (auto active = control(abi::Ctl::kActivate); !active) return active;
  return control(abi::Ctl::kUnquiesce);
}

Result<> Device::check_caps() const {
  if (caps_.mode != static_cast<std::uint8_t>(abi::Mode::kRoce)) {
    return fail(EFAULT, fmt::format("the device's mode is {}, not RoCE", caps_.mode));
  }
  const bool v1 = caps_.gid_types == abi::kGidTypeRocev1;
  const bool v2 = caps_.gid_types == abi::kGidTypeRocev2;
  if (!v1 && !(v2 && version_ >= abi::kVersionRocev2)) {
    return fail(EFAULT,
                fmt::format("GID types {:#x} do not match device version {}", caps_.gid_types, version_));
  }
  if (!std::has_single_bit(caps_.max_uar)) {
    return fail(ENOMEM, fmt::format("max_uar {} is not a power of two", caps_.max_uar));
  }
  if (caps_.max_qp == 0 || caps_.max_qp > 65535 || caps_.max_cq == 0 || caps_.gid_tbl_len == 0) {
    return fail(EFAULT, fmt::format("max_qp {}, max_cq {}, gid_tbl_len {}: out of range", caps_.max_qp,
                                    caps_.max_cq, caps_.gid_tbl_len));
  }
  return {};
}

Result<> Device::close() {
  if (closed_) return {};
  closed_ = true;
  Result<> first;
  const auto keep = [&first](Result<> result) {
    if (first && !result) first = std::move(result);
  };
  if (announced_) {
    keep(write_register(abi::Register::kImr, abi::kImrAllMasked));
    keep(bus_->disable_vectors());
    keep(write_register(abi::Register::kCtl, static_cast<std::uint32_t>(abi::Ctl::kReset)));
  }
  if (ram_mapped_) keep(bus_->dma_unmap(ram_->base().value, ram_->size_bytes()));
  return first;
}

Result<> Device::control(abi::Ctl action) {
  if (auto written = write_register(abi::Register::kCtl, static_cast<std::uint32_t>(action)); !written)
    return written;
  auto error = read_register(abi::Register::kErr);
  if (!error) return Failure(std::move(error.error()));
  if (*error != 0) {
    return fail(EFAULT,
                fmt::format("CTL {} ended with error {}", static_cast<std::uint32_t>(action), *error));
  }
  return {};
}

Result<> Device::write_register(abi::Register reg, std::uint32_t value) {
  return bus_->region_write32(Region::kRegisters, offset_of(reg), value);
}

Result<std::uint32_t> Device::read_register(abi::Register reg) {
  return bus_->region_read32(Region::kRegisters, offset_of(reg));
}

Result<abi::PortAttr> Device::query_port(std::uint8_t port_num) {
  auto answer = commands_->call<abi::QueryPortResponse>(abi::Command::kQueryPort,
                                                        abi::QueryPortRequest{.port_num = port_num});
  if (!answer) return Failure(std::move(answer.error()));
  return answer->attrs;
}

Result<std::uint16_t> Device::query_pkey(std::uint8_t index, std::uint8_t port_num) {
  auto answer = commands_->call<abi::QueryPkeyResponse>(
      abi::Command::kQueryPkey, abi::QueryPkeyRequest{.port_num = port_num, .index = index});
  if (!answer) return Failure(std::move(answer.error()));
  return answer->pkey;
}

Result<> Device::bind_gid(std::uint32_t index, const abi::Gid& gid) {
  return commands_->run(abi::Command::kCreateBind, abi::CreateBindRequest{.mtu = kBindMtuBytes,
                                                                          .vlan = kNoVlan,
                                                                          .index = index,
                                                                          .new_gid = gid,
                                                                          .gid_type = caps_.gid_types});
}

Result<> Device::unbind_gid(std::uint32_t index, const abi::Gid& gid) {
  return commands_->run(abi::Command::kDestroyBind, abi::DestroyBindRequest{.index = index, .dest_gid = gid});
}

std::optional<AsyncEvent> Device::poll_async_event() {
  const ConsumerRing& ring = region_->async_events();
  while (true) {
    const std::byte* element = nullptr;
    const RingStatus status = ring.front(element);
    if (status == RingStatus::kBroken) ++oddities_.broken_rings;
    if (status != RingStatus::kReady) return std::nullopt;
    abi::AsyncEvent raw;
    std::memcpy(&raw, element, sizeof(raw));
    ring.consume();
    if (const auto type = abi::parse_event_type(raw.type)) return AsyncEvent{*type, raw.info};
  }
}

std::optional<AsyncEvent> Device::wait_async_event(Duration timeout) {
  const Instant deadline = Instant::now() + timeout;
  while (true) {
    if (auto event = poll_async_event()) return event;
    const Duration left = deadline - Instant::now();
    if (wait_interrupt(event_fd(abi::Vector::kAsyncEvent), left) == 0) return poll_async_event();
  }
}

std::optional<std::uint32_t> Device::poll_notification() {
  const ConsumerRing& ring = region_->notifications();
  const std::byte* element = nullptr;
  const RingStatus status = ring.front(element);
  if (status == RingStatus::kBroken) ++oddities_.broken_rings;
  if (status != RingStatus::kReady) return std::nullopt;
  abi::Notification raw;
  std::memcpy(&raw, element, sizeof(raw));
  ring.consume();
  return raw.info;
}

std::uint32_t Device::dispatch_notifications() {
  take_interrupts(event_fd(abi::Vector::kNotification));
  std::uint32_t count = 0;
  while (const auto handle = poll_notification()) {
    ++count;
    CompletionQueue* cq = cqs_[*handle % cqs_.size()];
    if (cq != nullptr) {
      cq->notified();
    } else {
      ++oddities_.unknown_notifications;
    }
  }
  return count;
}

std::uint32_t Device::wait_notifications(Duration timeout) {
  if (const std::uint32_t count = dispatch_notifications(); count != 0) return count;
  wait_interrupt(event_fd(abi::Vector::kNotification), timeout);
  return dispatch_notifications();
}

Device::Oddities Device::oddities() const {
  Oddities all = oddities_;
  if (commands_) all.unexpected_responses = commands_->unexpected_responses();
  return all;
}

Result<std::size_t> Device::take_window() {
  const auto free = std::find(windows_.begin(), windows_.end(), false);
  if (free == windows_.end()) return fail(ENOMEM, fmt::format("all {} DMA windows are taken", kWindowsMax));
  *free = true;
  return static_cast<std::size_t>(free - windows_.begin());
}

Result<std::uint32_t> Device::take_uar() {
  for (std::uint32_t uar = 1; uar < uars_.size(); ++uar) {
    if (uars_[uar]) continue;
    uars_[uar] = true;
    return uar;
  }
  return fail(ENOMEM, fmt::format("all {} doorbell pages of the device are taken", uars_.size()));
}

}  // namespace pvrdma::driver
