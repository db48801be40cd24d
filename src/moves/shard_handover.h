// ShardHandover: what a motion asks of the adapters, carried to the shard. Thread: any but the shard's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "adapters/adapter_set.h"
#include "device/pci_state.h"
#include "motion/adapter_side.h"
#include "motion/moving_side.h"
#include "moves/page_marks.h"
#include "shard/loop.h"

namespace pvrdma::moves {

class ShardHandover final : public motion::AdapterSide, public motion::MovingSide {
 public:
  // All borrowed; they outlive this and every call. `adapters` is used on the shard only.
  ShardHandover(shard::Loop& loop, const Clock& clock, const adapters::AdapterSet& adapters)
      : loop_(loop), clock_(clock), adapters_(adapters) {}

  // The path of the adapter's vfio-user socket.
  Result<std::string> socket(const std::string& adapter);

  Result<void> expect_successor(const std::string& adapter) override;
  Result<bool> successor_is_here(const std::string& adapter) override;
  Result<vmm::PciImage> pci_image(const std::string& adapter) override;
  Result<void> write_msix_table(const std::string& adapter, const vmm::PciImage& image) override;
  Result<void> check_successor(const std::string& adapter, const vmm::PciImage& image) override;
  Result<SwitchedOver> switch_over(const std::string& adapter) override;
  Result<void> resume(const std::string& adapter) override;
  Result<void> end_successor(const std::string& adapter) override;

  Result<void> stop(const std::string& adapter) override;
  Result<void> go_on(const std::string& adapter) override;
  Result<std::vector<std::byte>> save(const std::string& adapter, const vmm::PciImage& image) override;
  Result<vmm::PciImage> load(const std::string& adapter, std::vector<std::byte> state) override;
  Result<void> write_own_msix_table(const std::string& adapter, const vmm::PciImage& image) override;
  Result<void> check_own(const std::string& adapter, const vmm::PciImage& image) override;

  Result<void> begin_log(const std::string& adapter) override;
  Result<void> end_log(const std::string& adapter) override;
  Result<std::uint64_t> logged_bytes(const std::string& adapter) override;
  Result<void> mark_pages(const std::string& adapter) override;
  Result<void> give_pages(const std::string& adapter, const TakePages& take) override;
  Result<void> outlive_vmm(const std::string& adapter) override;
  Result<void> end_with_vmm(const std::string& adapter) override;
  Result<bool> has_vmm(const std::string& adapter) override;
  Result<std::vector<std::byte>> draft(const std::string& adapter, const vmm::PciImage& image) override;
  Result<void> depart(const std::string& adapter) override;
  Result<bool> is_expected(const std::string& adapter) override;
  Result<void> unload(const std::string& adapter) override;
  Result<void> put_pages(const std::string& adapter, std::uint64_t address,
                         std::vector<std::byte> bytes) override;
  Result<void> arrive(const std::string& adapter) override;
  Result<void> nudge(const std::string& adapter) override;

 private:
  enum class Works : bool { kStands, kMay };
  Result<std::vector<std::byte>> saved(const std::string& adapter, const vmm::PciImage& image, Works works);
  Result<void> send_marks(const std::string& adapter, const std::shared_ptr<PageMarks>& marks);
  enum class Who : std::uint8_t { kAdapter, kSuccessor };

  // What the shard made of the adapter; each returns a Result.
  template <typename Work>
  auto on_adapter(const std::string& adapter, Work work);
  Result<device::PciState> pci_state(const std::string& adapter, Who who);
  Result<void> check(const std::string& adapter, Who who, const vmm::PciImage& image);
  // A message to the VMM about its MSI-X table. What it answered; empty for a write.
  Result<device::MsixTable> exchange_table(const std::string& adapter, Who who,
                                           const device::MsixTable* written);

  shard::Loop& loop_;
  const Clock& clock_;
  const adapters::AdapterSet& adapters_;
};

}  // namespace pvrdma::moves
