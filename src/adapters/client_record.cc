#include "adapters/client_record.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <utility>

#include "base/descriptor_limit.h"

namespace pvrdma::adapters {

ClientRecord::ClientRecord(device::Adapter& adapter, Keeping& keeping, std::shared_ptr<ReaperQueue> queue,
                           KeptId doorbells, std::function<void()> changed)
    : adapter_(adapter),
      keeping_(keeping),
      queue_(std::move(queue)),
      changed_(std::move(changed)),
      doorbells_(doorbells != 0 ? doorbells : keeping.next_id()) {}

std::vector<KeptMap> ClientRecord::maps() const {
  std::vector<KeptMap> maps;
  maps.reserve(maps_.size());
  for (const auto& [iova, map] : maps_) maps.push_back({map.request, map.file != nullptr ? map.file->id : 0});
  return maps;
}

std::vector<KeptVector> ClientRecord::vectors() const {
  std::vector<KeptVector> vectors;
  for (const auto& [vector, eventfd] : vectors_) vectors.push_back({vector, eventfd.id});
  return vectors;
}

std::string ClientRecord::trouble() const {
  if (lacks_descriptors_) return "there were no file descriptors left (raise RLIMIT_NOFILE)";
  if (maps_.size() > kKeptMapsMax)
    return fmt::format("it has {} DMA maps, more than {}", maps_.size(), kKeptMapsMax);
  return {};
}

ClientRecord::Own ClientRecord::copy_of(const ClientFd& fd, KeptId id) {
  Own own{id != 0 ? id : keeping_.next_id(), ClientFd(Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)), queue_), {}};
  if (!own.fd || is_of_descriptor_reserve(own.fd.get())) {
    own.fd.reset();
    lacks_descriptors_ = true;
  }
  return own;
}

// The adapter has mapped this memory, so fstat() on it does not block.
std::shared_ptr<const ClientRecord::Own> ClientRecord::file_of(Own own) {
  struct stat status {};
  if (!own.fd || ::fstat(own.fd.get(), &status) != 0) {
    lacks_descriptors_ = true;
    return std::make_shared<const Own>(std::move(own));
  }
  own.identity = {status.st_dev, status.st_ino, ::fcntl(own.fd.get(), F_GETFL) & O_ACCMODE};
  std::weak_ptr<const Own>& known = files_[own.identity];
  if (auto file = known.lock()) return file;
  auto file = std::make_shared<const Own>(std::move(own));
  known = file;
  return file;
}

int ClientRecord::region_write(std::uint32_t region, std::uint64_t offset, std::span<const std::byte> data,
                               bool posted) {
  const int result = adapter_.region_write(region, offset, data, posted);
  if (device::Adapter::may_change_device(region, offset)) changed_();
  return result;
}

// Copies the descriptor first, because the adapter takes it even if the call fails.
int ClientRecord::set_irq_eventfd(std::uint32_t index, std::uint32_t vector, ClientFd eventfd) {
  if (index == kIrqMsix) return assign(vector, std::move(eventfd), 0);
  return adapter_.set_irq_eventfd(index, vector, std::move(eventfd));
}

int ClientRecord::assign(std::uint32_t vector, ClientFd eventfd, KeptId id) {
  const bool assigns = bool{eventfd};
  Own own = assigns ? copy_of(eventfd, id) : Own();
  const int result = adapter_.set_irq_eventfd(kIrqMsix, vector, std::move(eventfd));
  if (result != 0) return result;
  if (assigns)
    vectors_[vector] = std::move(own);
  else
    vectors_.erase(vector);
  changed_();
  return result;
}

int ClientRecord::take_back(const KeptVector& vector, ClientFd eventfd) {
  return assign(vector.vector, std::move(eventfd), vector.eventfd);
}

int ClientRecord::disable_irqs(std::uint32_t index) {
  const int result = adapter_.disable_irqs(index);
  if (index == kIrqMsix) vectors_.clear();
  changed_();
  return result;
}

int ClientRecord::dma_map(const vfio_user::DmaMapRequest& request, ClientFd fd) {
  return map(request, std::move(fd), 0);
}

int ClientRecord::map(const vfio_user::DmaMapRequest& request, ClientFd fd, KeptId id) {
  const bool is_ram = bool{fd};
  Own own = is_ram ? copy_of(fd, id) : Own();
  const int result = adapter_.dma_map(request, std::move(fd));
  if (result != 0) return result;
  maps_[request.iova] = {request, is_ram ? file_of(std::move(own)) : nullptr};
  changed_();
  return result;
}

int ClientRecord::take_back(const KeptMap& kept, ClientFd fd) {
  return map(kept.request, std::move(fd), kept.fd);
}

int ClientRecord::dma_unmap(std::uint64_t iova, std::uint64_t size) {
  const int result = adapter_.dma_unmap(iova, size);
  if (result != 0) return result;
  // The adapter has forgotten whole maps only.
  for (auto map = maps_.lower_bound(iova); map != maps_.end() && map->first - iova < size;) {
    const auto file = std::move(map->second.file);
    map = maps_.erase(map);
    if (file != nullptr && file.use_count() == 1) files_.erase(file->identity);
  }
  changed_();
  return result;
}

void ClientRecord::dma_unmap_all() {
  adapter_.dma_unmap_all();
  maps_.clear();
  files_.clear();
  changed_();
}

void ClientRecord::reset() {
  adapter_.reset();
  changed_();
}

vfio_user::StateChange ClientRecord::set_migration_state(vfio_user::MigrationState next) {
  const vfio_user::StateChange change = adapter_.set_migration_state(next);
  changed_();
  return change;
}

void ClientRecord::connected() {
  adapter_.connected();
  socket_ = keeping_.next_id();
  changed_();
}

void ClientRecord::disconnected(std::string_view reason) {
  adapter_.disconnected(reason);
  forget();
  changed_();
}

void ClientRecord::forget() {
  socket_ = 0;
  maps_.clear();
  files_.clear();
  vectors_.clear();
  lacks_descriptors_ = false;
}

}  // namespace pvrdma::adapters
