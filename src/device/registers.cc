#include "device/registers.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace pvrdma::device {
namespace {

constexpr std::uint32_t kNothing = 0xffffffff;  // the value of a write-only register when read

std::uint32_t little_endian(const std::uint8_t* bytes, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value |= static_cast<std::uint32_t>(bytes[i]) << (8 * i);
  return value;
}

}  // namespace

Registers::Registers(std::uint32_t device_version, const abi::Mac& mac, Interrupts& interrupts,
                     RegisterActions& actions)
    : device_version_(device_version), mac_(mac), interrupts_(interrupts), actions_(actions) {
  reset();
}

void Registers::reset() {
  dsr_low_ = 0;
  err_ = 0;
  mac_low_ = little_endian(mac_.raw.data(), 4);
  mac_high_ = little_endian(mac_.raw.data() + 4, 2);
}

bool Registers::read(std::uint64_t offset, std::span<std::byte> out) {
  std::fill(out.begin(), out.end(), std::byte{0xff});
  const auto which = abi::parse_register(offset);
  if (!which || out.size() != sizeof(std::uint32_t)) return false;
  const std::uint32_t value = read_register(*which);
  std::memcpy(out.data(), &value, sizeof value);
  return true;
}

bool Registers::write(std::uint64_t offset, std::span<const std::byte> data) {
  const auto which = abi::parse_register(offset);
  if (!which || data.size() != sizeof(std::uint32_t)) return false;
  std::uint32_t value = 0;
  std::memcpy(&value, data.data(), sizeof value);
  return write_register(*which, value);
}

std::uint32_t Registers::read_register(abi::Register which) {
  switch (which) {
    case abi::Register::kVersion:
      return device_version_;
    case abi::Register::kErr:
      return err_;
    case abi::Register::kIcr:
      return interrupts_.take_causes();
    case abi::Register::kImr:
      return interrupts_.mask();
    case abi::Register::kMacLow:
      return mac_low_;
    case abi::Register::kMacHigh:
      return mac_high_;
    case abi::Register::kDsrLow:
    case abi::Register::kDsrHigh:
    case abi::Register::kCtl:
    case abi::Register::kRequest:
      return kNothing;
  }
  return kNothing;
}

bool Registers::write_register(abi::Register which, std::uint32_t value) {
  switch (which) {
    case abi::Register::kDsrLow:
      dsr_low_ = value;
      return true;
    case abi::Register::kDsrHigh:
      err_ = actions_.load_shared_region(static_cast<std::uint64_t>(value) << 32 | dsr_low_);
      return true;
    case abi::Register::kCtl:
      err_ = control(value);
      return true;
    case abi::Register::kRequest:
      err_ = actions_.execute_command();
      return true;  // the value has no meaning
    case abi::Register::kImr:
      interrupts_.set_mask(value);
      return true;
    case abi::Register::kMacLow:
      mac_low_ = value;
      return true;
    case abi::Register::kMacHigh:
      mac_high_ = value;
      return true;
    case abi::Register::kVersion:
    case abi::Register::kErr:
    case abi::Register::kIcr:
      return false;
  }
  return false;
}

std::uint32_t Registers::control(std::uint32_t value) {
  const auto ctl = abi::parse_ctl(value);
  if (!ctl) return EINVAL;
  switch (*ctl) {
    case abi::Ctl::kActivate:
      return actions_.activate();
    case abi::Ctl::kUnquiesce:
      return actions_.unquiesce();
    case abi::Ctl::kReset:
      return actions_.reset_by_driver();
  }
  return EINVAL;
}

}  // namespace pvrdma::device
