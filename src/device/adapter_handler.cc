// The adapter as a vfio-user device: regions, interrupts, DMA maps, connection. Reference 8.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "device/adapter.h"

namespace pvrdma::device {
namespace {

// VFIO's layout of a PCI device.
constexpr std::uint32_t kBarMsix = 0;
constexpr std::uint32_t kBarRegisters = 1;
constexpr std::uint32_t kBarUar = 2;
constexpr std::uint32_t kConfigRegion = 7;
constexpr std::uint32_t kIrqMsix = 2;
constexpr std::uint32_t kIrqErr = 3;

vfio_user::RegionInfo plain_region(std::uint64_t size) {
  vfio_user::RegionInfo info;
  info.size = size;
  info.readable = true;
  info.writable = true;
  return info;
}

}  // namespace

vfio_user::RegionInfo Adapter::region_info(std::uint32_t region) const {
  switch (region) {
    case kBarMsix:
      return plain_region(abi::kMsixBarBytes);
    case kBarRegisters: {
      auto info = plain_region(abi::kRegisterBarBytes);
      // The driver reads the result of a write from its memory (reference 8.5).
      info.writes_need_replies = true;
      return info;
    }
    case kBarUar: {
      auto info = plain_region(uar_bar_bytes(identity_.limits.max_context));
      info.mmap_areas.push_back({doorbell_memory_->offset(), doorbell_memory_->bytes()});
      info.fd = doorbell_memory_->fd();
      return info;
    }
    case kConfigRegion:
      return plain_region(kPciConfigBytes);
    default:
      return {};
  }
}

std::uint32_t Adapter::irq_count(std::uint32_t index) const {
  switch (index) {
    case kIrqMsix:
      return abi::kVectorCount;
    case kIrqErr:
      return 1;  // never raised; without it QEMU warns about missing error recovery
    default:
      return 0;
  }
}

int Adapter::region_read(std::uint32_t region, std::uint64_t offset, std::span<std::byte> out) {
  if (failed()) return EIO;
  switch (region) {
    case kBarMsix:  // the client keeps the table itself, and no interrupt is ever pending
      std::fill(out.begin(), out.end(), std::byte{0});
      return 0;
    case kBarRegisters:
      if (!registers_.read(offset, out)) ++counters_.bad_accesses;
      return 0;
    case kBarUar:  // write-only, but a user process may read its page
      std::fill(out.begin(), out.end(), std::byte{0xff});
      return 0;
    case kConfigRegion:
      return pci_config_.read(offset, out) ? 0 : EINVAL;
    default:
      return EINVAL;
  }
}

bool Adapter::may_change_device(std::uint32_t region, std::uint64_t offset) {
  if (region == kBarUar) return false;
  return region != kBarRegisters || offset != static_cast<std::uint64_t>(abi::Register::kRequest);
}

int Adapter::region_write(std::uint32_t region, std::uint64_t offset, std::span<const std::byte> data,
                          bool posted) {
  if (failed()) return EIO;
  if (work_ != Work::kWorks && (region == kBarRegisters || region == kBarUar)) [[unlikely]] {
    const bool stands_by = work_ == Work::kStandsBy;
    if (!stands_by && outlives_client()) {
      go_on();
      return region_write(region, offset, data, posted);
    }
    ignore_access(offset, data, stands_by ? "while another VMM has the VM" : "while its VMM has stopped it");
    return 0;
  }
  switch (region) {
    case kBarMsix:
      return 0;
    case kBarRegisters:
      write_register(offset, data, posted);
      return 0;
    case kBarUar: {
      const Instant now = clock_.now();
      const Doorbells::Written written = doorbells_.write(offset, data, now);
      take_doorbells(written.doorbells, now);
      counters_.bad_accesses += written.ignored;
      rings_.drain(now);
      return 0;
    }
    case kConfigRegion:
      if (!pci_config_.write(offset, data)) return EINVAL;
      if (work_ == Work::kWorks) obey_bus_master();  // otherwise a VMM restores its VM
      return 0;
    default:
      return EINVAL;
  }
}

void Adapter::write_register(std::uint64_t offset, std::span<const std::byte> data, bool posted) {
  if (posted) ++counters_.posted_register_writes;  // the server has logged it
  if (!registers_.write(offset, data)) ignore_access(offset, data, "of the registers");
}

void Adapter::ignore_access(std::uint64_t offset, std::span<const std::byte> data, std::string_view why) {
  ++counters_.bad_accesses;
  log_.access_ignored(offset, data.size(), why);
}

int Adapter::set_irq_eventfd(std::uint32_t index, std::uint32_t vector, ClientFd eventfd) {
  if (index == kIrqErr && vector == 0) return 0;  // accepted and closed
  if (index != kIrqMsix) return EINVAL;
  return interrupts_.assign(vector, std::move(eventfd));
}

int Adapter::disable_irqs(std::uint32_t index) {
  if (index == kIrqMsix) interrupts_.unassign_all();
  return 0;
}

// A change of the address space may have to wait for a page fault of another shard. So it is nobody's work,
// as the following ones.
int Adapter::dma_map(const vfio_user::DmaMapRequest& request, ClientFd fd) {
  const Blame::Piece nobodys(engine_.blame(), nullptr);
  const auto mapped = memory_.map(guestmem::GuestPhys{request.iova}, request.size, fd.fd(), request.fd_offset,
                                  request.readable, request.writable);
  account_.set_ram(memory_.ram_bytes());
  if (!mapped) {
    log_.map_refused(mapped.error().message);
    if (fd && map_trouble_.empty()) map_trouble_ = mapped.error().message;
    return mapped.error().code != 0 ? mapped.error().code : EINVAL;
  }
  return 0;
}

int Adapter::dma_unmap(std::uint64_t iova, std::uint64_t size) {
  const Blame::Piece nobodys(engine_.blame(), nullptr);
  const int error = memory_.unmap(guestmem::GuestPhys{iova}, size);
  if (error != 0) log_.unmap_refused(iova, size, error);
  account_.set_ram(memory_.ram_bytes());
  return error;
}

void Adapter::dma_unmap_all() {
  const Blame::Piece nobodys(engine_.blame(), nullptr);
  memory_.unmap_all();
  account_.set_ram(0);
}

// The VM was reset or its machine started. DMA maps and eventfds stay, because the client changes them.
void Adapter::reset() {
  const bool had_driver = region_.has_value();
  const bool was_failed = state_ == AdapterState::kFailed;
  power_on(LifeEvent::kReset);
  if (was_failed) state_ = AdapterState::kFailed;
  ++counters_.resets;
  if (had_driver) log_.client_reset_it();
}

void Adapter::connected() {
  client_.on(LifeEvent::kConnected);
  ++counters_.connections;
  log_.client_connected(work_ == Work::kStandsBy);
}

void Adapter::disconnected(std::string_view reason) {
  power_on(LifeEvent::kDisconnected);
  interrupts_.unassign_all();
  memory_.stop_log();
  dma_unmap_all();
  if (doorbell_memory_->damaged()) doorbell_memory_->repair();
  client_.on(LifeEvent::kDisconnected);
  log_.client_disconnected(work_ == Work::kStandsBy, reason);
}

}  // namespace pvrdma::device
