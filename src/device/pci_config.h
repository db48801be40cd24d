// PciConfig: the 256 bytes of PCI configuration space (region 7), with the sizing behaviour of three BARs.
//
// It consists of the bytes and a mask of the writable bits. So identity, capability list and BAR types are
// read-only by construction, and the expansion ROM BAR reads back as 0. The adapter obeys Bus Master Enable;
// the VMM obeys the other bits (reference 1.2). Reference 1.1, 1.2, 8.8. Thread: shard-owned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <linux/pci_regs.h>
#include <span>

namespace pvrdma::device {

inline constexpr std::size_t kPciConfigBytes = 256;
inline constexpr std::size_t kPciCommand = 0x04;  // offsets
inline constexpr std::size_t kPciBar0 = 0x10;
inline constexpr std::size_t kPciMsix = 0x40;  // the capability

class PciConfig {
 public:
  // `uar_bar_bytes`: size of BAR 2, a power of two.
  explicit PciConfig(std::uint64_t uar_bar_bytes);

  // Any width and offset inside the 256 bytes. Otherwise it returns false and does nothing.
  [[nodiscard]] bool read(std::uint64_t offset, std::span<std::byte> out) const;
  [[nodiscard]] bool write(std::uint64_t offset, std::span<const std::byte> data);

  const std::array<std::byte, kPciConfigBytes>& bytes() const { return bytes_; }
  // Whether the guest lets the device access its memory and raise interrupts.
  bool is_bus_master() const { return (bytes_[kPciCommand] & std::byte{PCI_COMMAND_MASTER}) != std::byte{0}; }

  // Returns to the power-on state.
  void reset() { bytes_ = power_on_; }

 private:
  void set(std::size_t offset, std::uint64_t value, std::size_t bytes);
  void allow(std::size_t offset, std::uint64_t mask, std::size_t bytes);

  std::array<std::byte, kPciConfigBytes> bytes_{};
  std::array<std::byte, kPciConfigBytes> writable_{};
  std::array<std::byte, kPciConfigBytes> power_on_{};
};

}  // namespace pvrdma::device
