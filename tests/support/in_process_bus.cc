#include "support/in_process_bus.h"

#include <cerrno>
#include <fcntl.h>

#include "support/must.h"

namespace pvrdma::test {
namespace {

constexpr std::uint32_t kMsixIrqIndex = 2;

constexpr std::uint32_t number(driver::Region region) {
  return static_cast<std::uint32_t>(region);
}

Result<> outcome(int code, const char* doing) {
  if (code == 0) return {};
  return fail_errno(code, doing);
}

Fd duplicate(int fd) {
  return fd < 0 ? Fd() : Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

}  // namespace

InProcessBus::InProcessBus(vfio_user::Handler& device, driver::AreaUse doorbells)
    : device_(&device), doorbell_use_(doorbells) {
  connect();
}

void InProcessBus::connect() {
  device_->connected();
  for (std::uint32_t region = 0; region < region_bytes_.size(); ++region) {
    region_bytes_[region] = device_->region_info(region).size;
  }
  map_doorbells();
}

void InProcessBus::map_doorbells() {
  if (doorbell_use_ == driver::AreaUse::kMapped) {
    const vfio_user::RegionInfo info = device_->region_info(number(driver::Region::kUar));
    doorbells_ = must(driver::MappedAreas::create(info, info.fd));
  }
}

void InProcessBus::leave() {
  must(outcome(device_->region_read(number(driver::Region::kConfig), 0, config_),
               "reading the configuration"));
  doorbells_.reset();
  device_ = nullptr;
}

void InProcessBus::join(vfio_user::Handler& device) {
  device_ = &device;
  connect();
  must(outcome(device_->region_write(number(driver::Region::kConfig), 0, config_, /*posted=*/false),
               "writing the configuration"));
  for (const DmaMap& map : maps_)
    must(outcome(device_->dma_map(map.request, duplicate(map.fd.get())), "mapping guest memory"));
  for (std::uint32_t vector = 0; vector < eventfds_.size(); ++vector) {
    must(outcome(device_->set_irq_eventfd(kMsixIrqIndex, vector, duplicate(eventfds_[vector].get())),
                 "setting an interrupt"));
  }
}

void InProcessBus::go_back(vfio_user::Handler& device) {
  device_ = &device;
  map_doorbells();
}

InProcessBus::~InProcessBus() {
  kill();
}

void InProcessBus::kill() {
  if (!alive_) return;
  alive_ = false;
  doorbells_.reset();
  device_->disconnected("the test ended the connection");
}

Result<> InProcessBus::begin_call() {
  if (!alive_) return fail(ENOTCONN, "the connection to the device was ended");
  if (before_call_) before_call_();
  return {};
}

Result<> InProcessBus::check(driver::Region region, std::uint64_t offset, std::size_t bytes) {
  if (auto good = begin_call(); !good) return good;
  const std::uint64_t size = region_bytes_[number(region)];
  if (bytes == 0 || offset > size || bytes > size - offset)
    return fail(EINVAL, "an access outside its region");
  return {};
}

Result<std::uint32_t> InProcessBus::region_read32(driver::Region region, std::uint64_t offset) {
  std::uint32_t value = 0;
  auto done = region_read(region, offset, std::as_writable_bytes(std::span(&value, 1)));
  if (!done) return Failure(std::move(done.error()));
  return value;
}

Result<> InProcessBus::region_write32(driver::Region region, std::uint64_t offset, std::uint32_t value) {
  return region_write(region, offset, std::as_bytes(std::span(&value, 1)));
}

Result<> InProcessBus::region_read(driver::Region region, std::uint64_t offset, std::span<std::byte> out) {
  if (auto good = check(region, offset, out.size()); !good) return good;
  if (is_mapped(region) && doorbells_->read(offset, out)) return {};
  return outcome(device_->region_read(number(region), offset, out), "reading a region");
}

Result<> InProcessBus::region_write(driver::Region region, std::uint64_t offset,
                                    std::span<const std::byte> data) {
  if (auto good = check(region, offset, data.size()); !good) return good;
  if (is_mapped(region) && doorbells_->write(offset, data)) return {};
  ++writes_;
  if (watcher_ != nullptr) watcher_->before_call();
  const int error = device_->region_write(number(region), offset, data, /*posted=*/false);
  if (watcher_ != nullptr) watcher_->after_call();
  return outcome(error, "writing a region");
}

Result<std::uint64_t> InProcessBus::region_bytes(driver::Region region) {
  return region_bytes_[number(region)];
}

Result<> InProcessBus::dma_map(std::uint64_t iova, std::uint64_t bytes, int fd, std::uint64_t fd_offset) {
  if (auto good = begin_call(); !good) return good;
  const vfio_user::DmaMapRequest request{
      .iova = iova, .size = bytes, .fd_offset = fd_offset, .readable = true, .writable = true};
  auto mapped = outcome(device_->dma_map(request, duplicate(fd)), "mapping guest memory");
  if (mapped) maps_.push_back({request, duplicate(fd)});
  return mapped;
}

Result<> InProcessBus::dma_unmap(std::uint64_t iova, std::uint64_t bytes) {
  if (auto good = begin_call(); !good) return good;
  auto unmapped = outcome(device_->dma_unmap(iova, bytes), "unmapping guest memory");
  if (unmapped) std::erase_if(maps_, [iova](const DmaMap& map) { return map.request.iova == iova; });
  return unmapped;
}

Result<> InProcessBus::set_vector_eventfd(std::uint32_t vector, int eventfd) {
  if (auto good = begin_call(); !good) return good;
  auto set =
      outcome(device_->set_irq_eventfd(kMsixIrqIndex, vector, duplicate(eventfd)), "setting an interrupt");
  if (set && vector < eventfds_.size()) eventfds_[vector] = duplicate(eventfd);
  return set;
}

Result<> InProcessBus::disable_vectors() {
  if (auto good = begin_call(); !good) return good;
  for (Fd& fd : eventfds_) fd.reset();
  return outcome(device_->disable_irqs(kMsixIrqIndex), "disabling interrupts");
}

Result<> InProcessBus::reset() {
  if (auto good = begin_call(); !good) return good;
  if (watcher_ != nullptr) watcher_->before_call();
  device_->reset();
  if (watcher_ != nullptr) watcher_->after_call();
  return {};
}

}  // namespace pvrdma::test
