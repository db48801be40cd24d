// Registers: the register file of BAR 1 (reference 1.4).
//
// 32-bit accesses to existing registers only; other accesses read as all ones, change nothing and are
// counted. Writes that trigger an action go to RegisterActions, which completes before the write is
// acknowledged. Each such write sets ERR to its own result, so that no earlier failure is read again. Thread:
// shard-owned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/endian.h"
#include "abi/registers.h"
#include "device/interrupts.h"

namespace pvrdma::device {

// The actions of three registers. Each returns the new value of ERR: 0, or an errno-like reason.
class RegisterActions {
 public:
  virtual ~RegisterActions() = default;

  // DSRHIGH was written: `address` is the guest-physical address of the shared region.
  virtual std::uint32_t load_shared_region(std::uint64_t address) = 0;
  virtual std::uint32_t activate() = 0;
  virtual std::uint32_t unquiesce() = 0;
  virtual std::uint32_t reset_by_driver() = 0;
  // REQUEST was written: a command is in the command slot.
  virtual std::uint32_t execute_command() = 0;
};

struct SavedRegisters;

class Registers {
 public:
  // `interrupts` and `actions` are borrowed and outlive this object.
  Registers(std::uint32_t device_version, const abi::Mac& mac, Interrupts& interrupts,
            RegisterActions& actions);

  // False: no register answers the access. A read fills `out` in any case.
  [[nodiscard]] bool read(std::uint64_t offset, std::span<std::byte> out);
  [[nodiscard]] bool write(std::uint64_t offset, std::span<const std::byte> data);

  // Returns to the power-on state. IMR and ICR belong to Interrupts.
  void reset();

  SavedRegisters save() const;
  void restore(const SavedRegisters& saved);

 private:
  std::uint32_t read_register(abi::Register which);
  bool write_register(abi::Register which, std::uint32_t value);
  std::uint32_t control(std::uint32_t value);

  const std::uint32_t device_version_;
  const abi::Mac mac_;
  Interrupts& interrupts_;
  RegisterActions& actions_;
  std::uint32_t dsr_low_ = 0;
  std::uint32_t err_ = 0;
  std::uint32_t mac_low_ = 0;
  std::uint32_t mac_high_ = 0;
};

}  // namespace pvrdma::device
