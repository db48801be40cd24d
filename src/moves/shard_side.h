// ShardSide: the AdapterSide for the adapters of this host, which belong to its shards.
//
// Thread: any but a shard's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adapters/shards.h"
#include "base/time.h"
#include "motion/adapter_side.h"
#include "moves/page_marks.h"
#include "moves/vmm_pci.h"

namespace pvrdma::moves {

class ShardSide final : public motion::AdapterSide {
 public:
  // All are borrowed; they outlive this object and every call.
  ShardSide(const adapters::Shards& shards, const Clock& clock)
      : shards_(shards), clock_(clock), pci_(shards) {}

  // The path of the adapter's vfio-user socket.
  Result<std::string> socket(const std::string& adapter);
  // A FindMonitor: the path where a QEMU listens now. There are two possible paths.
  Result<std::string> monitor(const std::string& adapter);

  Result<Clients> clients(const std::string& adapter) override;
  Result<vmm::PciImage> pci_image(const std::string& adapter) override;
  Result<void> write_msix_table(const std::string& adapter, Vmm vmm, const vmm::PciImage& image) override;
  Result<void> check_pci(const std::string& adapter, Vmm vmm, const vmm::PciImage& image) override;

  Result<void> expect_successor(const std::string& adapter) override;
  Result<SwitchedOver> switch_over(const std::string& adapter) override;
  Result<void> end_successor(const std::string& adapter) override;

  Result<void> stop(const std::string& adapter) override;
  Result<void> go_on(const std::string& adapter) override;
  Result<void> resume(const std::string& adapter) override;
  Result<std::vector<std::byte>> save(const std::string& adapter, Save what,
                                      const vmm::PciImage& image) override;
  Result<vmm::PciImage> load(const std::string& adapter, std::vector<std::byte> state) override;
  Result<void> unload(const std::string& adapter) override;

  Result<void> begin_log(const std::string& adapter) override;
  Result<void> end_log(const std::string& adapter) override;
  Result<std::uint64_t> logged_bytes(const std::string& adapter) override;
  Result<void> mark_pages(const std::string& adapter) override;
  Result<void> give_pages(const std::string& adapter, const TakePages& take) override;
  Result<void> outlive_vmm(const std::string& adapter) override;
  Result<void> end_with_vmm(const std::string& adapter) override;
  Result<void> depart(const std::string& adapter) override;

  Result<void> put_pages(const std::string& adapter, Pages pages) override;
  Result<void> arrive(const std::string& adapter) override;
  Result<void> nudge(const std::string& adapter) override;

 private:
  template <typename Work>
  auto on(const std::string& adapter, Work work) {
    return shards_.on(adapter, std::move(work), kHandOver);
  }
  Result<void> send_marks(const std::string& adapter, const std::shared_ptr<PageMarks>& marks);

  const adapters::Shards& shards_;
  const Clock& clock_;
  VmmPci pci_;
};

}  // namespace pvrdma::moves
