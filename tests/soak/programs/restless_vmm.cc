#include "restless_vmm.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "support/must.h"
#include "support/rc_endpoint.h"

namespace pvrdma::test {
namespace {

constexpr Duration kPatience = std::chrono::seconds(20);
constexpr std::uint64_t kRamBytes = 16u << 20;
constexpr std::uint64_t kSlotPagesMax = 2048;
constexpr std::uint64_t kWindowAt = 1ULL << 40;

// The connection's bus, for one driver after the other.
class LentBus final : public driver::Bus {
 public:
  explicit LentBus(driver::Bus& bus) : bus_(bus) {}
  Result<std::uint32_t> region_read32(driver::Region region, std::uint64_t offset) override {
    return bus_.region_read32(region, offset);
  }
  Result<> region_write32(driver::Region region, std::uint64_t offset, std::uint32_t value) override {
    return bus_.region_write32(region, offset, value);
  }
  Result<> region_read(driver::Region region, std::uint64_t offset, std::span<std::byte> out) override {
    return bus_.region_read(region, offset, out);
  }
  Result<> region_write(driver::Region region, std::uint64_t offset,
                        std::span<const std::byte> data) override {
    return bus_.region_write(region, offset, data);
  }
  Result<std::uint64_t> region_bytes(driver::Region region) override { return bus_.region_bytes(region); }
  Result<> dma_map(std::uint64_t iova, std::uint64_t bytes, int fd, std::uint64_t fd_offset) override {
    return bus_.dma_map(iova, bytes, fd, fd_offset);
  }
  Result<> dma_unmap(std::uint64_t iova, std::uint64_t bytes) override { return bus_.dma_unmap(iova, bytes); }
  Result<> set_vector_eventfd(std::uint32_t vector, int eventfd) override {
    return bus_.set_vector_eventfd(vector, eventfd);
  }
  Result<> disable_vectors() override { return bus_.disable_vectors(); }
  Result<> reset() override { return bus_.reset(); }

 private:
  driver::Bus& bus_;
};

void require(bool done, const char* what) {
  if (!done) throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

void punch_file(int file, std::uint64_t at, std::uint64_t bytes) {
  require(::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
                      static_cast<off_t>(bytes)) == 0,
          "punching a hole");
}

}  // namespace

RestlessVmm::RestlessVmm(std::string socket, std::uint32_t index, std::mt19937_64& random)
    : socket_(std::move(socket)), index_(index), random_(random) {
  connect();
}

std::uint64_t RestlessVmm::address_of(std::size_t slot) {
  return kWindowAt + slot * kSlotPagesMax * abi::kPageBytes;
}

void RestlessVmm::connect() {
  auto client = must(vfio_user::Client::connect(socket_, kPatience));
  client_ = client.get();
  bus_ = must(driver::VfioUserBus::create(std::move(client)));
  logs_ = may_fail_ = false;
  load_driver();
}

void RestlessVmm::load_driver() {
  device_ = must(driver::Device::open(std::make_unique<LentBus>(*bus_),
                                      {.ram = {.size_bytes = kRamBytes},
                                       .command_timeout = may_fail_ ? std::chrono::seconds(1) : kPatience}));
  must(device_->bind_gid(0, gid_of(index_)));
}

void RestlessVmm::forget_slots() {
  for (Slot& slot : slots_) slot = {};
}

void RestlessVmm::expect_answer() const {
  const auto answer =
      bus_->region_read32(driver::Region::kRegisters, static_cast<std::uint64_t>(abi::Register::kVersion));
  if (answer || (may_fail_ && answer.error().code == EIO)) return;
  throw std::runtime_error(answer.error().message);
}

std::size_t RestlessVmm::any_plugged() {
  std::vector<std::size_t> plugged;
  for (std::size_t number = 0; number < kSlots; ++number) {
    if (slots_[number].file) plugged.push_back(number);
  }
  return plugged.empty() ? kSlots : plugged[up_to(plugged.size() - 1)];
}

bool RestlessVmm::plug() {
  const std::size_t number = up_to(kSlots - 1);
  Slot& slot = slots_[number];
  if (slot.file) return false;
  Slot next{.file = Fd(::memfd_create("pvrdma-soak", MFD_CLOEXEC)),
            .bytes = (1 + up_to(kSlotPagesMax - 1)) * abi::kPageBytes};
  require(next.file && ::ftruncate(next.file.get(), static_cast<off_t>(next.bytes)) == 0, "a memory file");
  if (up_to(1) == 0)
    require(::posix_fallocate(next.file.get(), 0, static_cast<off_t>(next.bytes)) == 0, "memory for a slot");
  must(bus_->dma_map(address_of(number), next.bytes, next.file.get(), 0));
  slot = std::move(next);
  return true;
}

bool RestlessVmm::unplug() {
  const std::size_t number = any_plugged();
  if (number == kSlots) return false;
  must(bus_->dma_unmap(address_of(number), slots_[number].bytes));
  slots_[number] = {};
  return true;
}

bool RestlessVmm::unplug_several() {
  const std::size_t first = up_to(kSlots - 2);
  const std::size_t last = first + 1 + up_to(kSlots - 2 - first);
  const auto range = std::span(slots_).subspan(first, last - first + 1);
  if (std::ranges::none_of(range, [](const Slot& slot) { return static_cast<bool>(slot.file); }))
    return false;
  must(bus_->dma_unmap(address_of(first), address_of(last + 1) - address_of(first)));
  for (Slot& slot : range) slot = {};
  return true;
}

bool RestlessVmm::cut() {
  const std::size_t number = any_plugged();
  if (number == kSlots || slots_[number].bytes == abi::kPageBytes) return false;
  const std::uint64_t kept = (1 + up_to(slots_[number].bytes / abi::kPageBytes - 2)) * abi::kPageBytes;
  if (bus_->dma_unmap(address_of(number) + kept, slots_[number].bytes - kept))
    throw std::runtime_error("an unmapping that cuts a map was not refused");
  return true;
}

bool RestlessVmm::punch() {
  const std::size_t number = any_plugged();
  if (number == kSlots) return false;
  const std::uint64_t pages = slots_[number].bytes / abi::kPageBytes;
  const std::uint64_t first = up_to(pages - 1);
  punch_file(slots_[number].file.get(), first * abi::kPageBytes,
             (1 + up_to(pages - 1 - first)) * abi::kPageBytes);
  return true;
}

bool RestlessVmm::punch_ram() {
  may_fail_ = true;
  punch_file(device_->ram().fd(), up_to(kRamBytes / abi::kPageBytes - 1) * abi::kPageBytes,
             (1 + up_to(15)) * abi::kPageBytes);
  return true;
}

bool RestlessVmm::shrink() {
  const std::size_t number = any_plugged();
  if (number == kSlots) return false;
  slots_[number].shrunk = may_fail_ = true;
  const std::uint64_t kept = up_to(slots_[number].bytes / abi::kPageBytes - 1) * abi::kPageBytes;
  require(::ftruncate(slots_[number].file.get(), static_cast<off_t>(kept)) == 0, "shrinking a slot");
  return true;
}

bool RestlessVmm::grow() {
  const std::size_t number = any_plugged();
  if (number == kSlots || !slots_[number].shrunk) return false;
  require(::ftruncate(slots_[number].file.get(), static_cast<off_t>(slots_[number].bytes)) == 0,
          "growing a slot");
  return true;
}

bool RestlessVmm::toggle_log() {
  if (logs_)
    must(client_->stop_log());
  else
    must(client_->start_log(abi::kPageBytes));
  logs_ = !logs_;
  return true;
}

void RestlessVmm::reset() {
  must(bus_->reset());
  device_.reset();
  load_driver();
}

void RestlessVmm::leave() {
  device_.reset();
  bus_->disconnect();
  forget_slots();
  connect();
}

void RestlessVmm::die() {
  bus_->disconnect();
  device_.reset();
  forget_slots();
  connect();
}

}  // namespace pvrdma::test
