// ClientRecord: stands between an adapter and its client. It records what the client has handed over, so that
// the daemon's next process can continue with the client (kept_record.h). The adapter sees the same calls as
// without it.
//
// It keeps one descriptor of its own for each file, and only of files that the adapter has accepted: memory
// and eventfds, whose closing never blocks. (One, because systemd keeps only one descriptor of an open file.)
// If it cannot record something, for want of descriptors or room, trouble() says so.
//
// Thread: the adapter's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <sys/types.h>
#include <tuple>
#include <vector>

#include "adapters/keeping.h"
#include "adapters/kept_record.h"
#include "base/client_fd.h"
#include "base/reaper.h"
#include "device/adapter.h"
#include "vfio_user/handler.h"

namespace pvrdma::adapters {

class ClientRecord final : public vfio_user::Handler {
 public:
  static constexpr std::uint32_t kIrqMsix = 2;  // the only index whose eventfds are recorded

  // `adapter` and `keeping` are borrowed. Descriptors are closed in `queue` (null: in place). `doorbells`:
  // the number that the adapter's doorbell memory already has; 0: no number. `changed` is called after each
  // change of the record, or of the adapter's state that is saved without objects.
  ClientRecord(device::Adapter& adapter, Keeping& keeping, std::shared_ptr<ReaperQueue> queue,
               KeptId doorbells, std::function<void()> changed);

  // The numbers of the adapter's doorbell memory and of the client's socket. Each new client gets a new
  // number.
  KeptId doorbells() const { return doorbells_; }
  KeptId socket() const { return socket_; }
  std::vector<KeptMap> maps() const;
  std::vector<KeptVector> vectors() const;
  // Calls visit(KeptId, const Fd&) for each recorded descriptor of the client.
  template <typename Visit>
  void for_each_fd(Visit visit) const {
    for (const auto& [identity, known] : files_) {
      if (const auto file = known.lock()) visit(file->id, file->fd.fd());
    }
    for (const auto& [vector, eventfd] : vectors_) visit(eventfd.id, eventfd.fd.fd());
  }
  // Why the client cannot be kept; empty: it can.
  std::string trouble() const;

  // Hands over again what the client had handed over, with the numbers it had. Results: the handler's.
  int take_back(const KeptMap& map, ClientFd fd);
  int take_back(const KeptVector& vector, ClientFd eventfd);
  void take_back_socket(KeptId socket) { socket_ = socket; }

  // vfio_user::Handler.
  std::uint32_t region_count() const override { return adapter_.region_count(); }
  std::uint32_t irq_index_count() const override { return adapter_.irq_index_count(); }
  vfio_user::RegionInfo region_info(std::uint32_t region) const override {
    return adapter_.region_info(region);
  }
  std::uint32_t irq_count(std::uint32_t index) const override { return adapter_.irq_count(index); }
  int region_read(std::uint32_t region, std::uint64_t offset, std::span<std::byte> out) override {
    return adapter_.region_read(region, offset, out);
  }
  int region_write(std::uint32_t region, std::uint64_t offset, std::span<const std::byte> data,
                   bool posted) override;
  int set_irq_eventfd(std::uint32_t index, std::uint32_t vector, ClientFd eventfd) override;
  int disable_irqs(std::uint32_t index) override;
  int dma_map(const vfio_user::DmaMapRequest& request, ClientFd fd) override;
  int dma_unmap(std::uint64_t iova, std::uint64_t size) override;
  void dma_unmap_all() override;
  void reset() override;
  std::uint64_t migration_flags() const override { return adapter_.migration_flags(); }
  vfio_user::StateChange set_migration_state(vfio_user::MigrationState next) override;
  tl::expected<std::size_t, int> migration_read(std::span<std::byte> out) override {
    return adapter_.migration_read(out);
  }
  int migration_write(std::span<const std::byte> data) override { return adapter_.migration_write(data); }
  bool can_log_writes() const override { return adapter_.can_log_writes(); }
  int log_start(std::uint64_t& page_size, std::span<const vfio_user::LogRange> ranges) override {
    return adapter_.log_start(page_size, ranges);
  }
  int log_stop() override { return adapter_.log_stop(); }
  int log_report(const vfio_user::LogRange& range, std::uint64_t page_size,
                 std::span<std::byte> bitmap) override {
    return adapter_.log_report(range, page_size, bitmap);
  }
  bool is_busy() const override { return adapter_.is_busy(); }
  void connected() override;
  void disconnected(std::string_view reason) override;

 private:
  // Identifies a memory file and its access mode.
  using Identity = std::tuple<dev_t, ino_t, int>;
  struct Own {
    KeptId id = 0;
    ClientFd fd;
    Identity identity;  // of a memory file
  };
  struct Map {
    vfio_user::DmaMapRequest request;
    std::shared_ptr<const Own> file;  // null: not RAM
  };

  // `id` 0: assigns a new number.
  Own copy_of(const ClientFd& fd, KeptId id);
  std::shared_ptr<const Own> file_of(Own own);
  int map(const vfio_user::DmaMapRequest& request, ClientFd fd, KeptId id);
  int assign(std::uint32_t vector, ClientFd eventfd, KeptId id);
  void forget();

  device::Adapter& adapter_;
  Keeping& keeping_;
  const std::shared_ptr<ReaperQueue> queue_;
  const std::function<void()> changed_;
  const KeptId doorbells_;
  KeptId socket_ = 0;
  std::map<std::uint64_t, Map> maps_;                   // by iova
  std::map<Identity, std::weak_ptr<const Own>> files_;  // the files of maps_
  std::map<std::uint32_t, Own> vectors_;
  bool lacks_descriptors_ = false;  // until the client leaves
};

}  // namespace pvrdma::adapters
