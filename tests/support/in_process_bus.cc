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

InProcessBus::InProcessBus(vfio_user::Handler& device, driver::AreaUse doorbells) : device_(device) {
  device_.connected();
  for (std::uint32_t region = 0; region < region_bytes_.size(); ++region) {
    region_bytes_[region] = device_.region_info(region).size;
  }
  if (doorbells == driver::AreaUse::kMapped) {
    const vfio_user::RegionInfo info = device_.region_info(number(driver::Region::kUar));
    doorbells_ = must(driver::MappedAreas::create(info, info.fd));
  }
}

InProcessBus::~InProcessBus() {
  kill();
}

void InProcessBus::kill() {
  if (!alive_) return;
  alive_ = false;
  doorbells_.reset();
  device_.disconnected("the test ended the connection");
}

Result<> InProcessBus::check(driver::Region region, std::uint64_t offset, std::size_t bytes) const {
  if (!alive_) return fail(ENOTCONN, "the connection to the device was ended");
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
  return outcome(device_.region_read(number(region), offset, out), "reading a region");
}

Result<> InProcessBus::region_write(driver::Region region, std::uint64_t offset,
                                    std::span<const std::byte> data) {
  if (auto good = check(region, offset, data.size()); !good) return good;
  if (is_mapped(region) && doorbells_->write(offset, data)) return {};
  ++writes_;
  if (watcher_ != nullptr) watcher_->before_call();
  const int error = device_.region_write(number(region), offset, data, /*posted=*/false);
  if (watcher_ != nullptr) watcher_->after_call();
  return outcome(error, "writing a region");
}

Result<std::uint64_t> InProcessBus::region_bytes(driver::Region region) {
  return region_bytes_[number(region)];
}

Result<> InProcessBus::dma_map(std::uint64_t iova, std::uint64_t bytes, int fd, std::uint64_t fd_offset) {
  if (!alive_) return fail(ENOTCONN, "the connection to the device was ended");
  const vfio_user::DmaMapRequest request{
      .iova = iova, .size = bytes, .fd_offset = fd_offset, .readable = true, .writable = true};
  return outcome(device_.dma_map(request, duplicate(fd)), "mapping guest memory");
}

Result<> InProcessBus::dma_unmap(std::uint64_t iova, std::uint64_t bytes) {
  if (!alive_) return fail(ENOTCONN, "the connection to the device was ended");
  return outcome(device_.dma_unmap(iova, bytes), "unmapping guest memory");
}

Result<> InProcessBus::set_vector_eventfd(std::uint32_t vector, int eventfd) {
  if (!alive_) return fail(ENOTCONN, "the connection to the device was ended");
  return outcome(device_.set_irq_eventfd(kMsixIrqIndex, vector, duplicate(eventfd)), "setting an interrupt");
}

Result<> InProcessBus::disable_vectors() {
  if (!alive_) return fail(ENOTCONN, "the connection to the device was ended");
  return outcome(device_.disable_irqs(kMsixIrqIndex), "disabling interrupts");
}

Result<> InProcessBus::reset() {
  if (!alive_) return fail(ENOTCONN, "the connection to the device was ended");
  if (watcher_ != nullptr) watcher_->before_call();
  device_.reset();
  if (watcher_ != nullptr) watcher_->after_call();
  return {};
}

}  // namespace pvrdma::test
