// PCI identity, BARs, registers, interrupt vectors and doorbells (docs/device.md sections 1, 5 and 8.8).
//
// Thread: constants and pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "abi/layout.h"

namespace pvrdma::abi {

// --- PCI identity (1.1) ---

inline constexpr std::uint16_t kPciVendorId = 0x15ad;
inline constexpr std::uint16_t kPciDeviceId = 0x0820;
inline constexpr std::uint16_t kPciClassNetworkOther = 0x0280;

// --- BARs (1.2) ---

enum class Bar : std::uint32_t { kMsix = 0, kRegisters = 1, kUar = 2 };

inline constexpr std::uint64_t kMsixBarBytes = 16 * 1024;
inline constexpr std::uint32_t kMsixTableOffset = 0x0;
inline constexpr std::uint32_t kMsixPbaOffset = 0x2000;
inline constexpr std::uint64_t kRegisterBarBytes = 4096;
inline constexpr std::uint64_t kUarPageBytes = kPageBytes;  // one per user context; page 0 is the kernel's

// --- MSI-X vectors (1.3) ---

enum class Vector : std::uint32_t { kResponse = 0, kAsyncEvent = 1, kNotification = 2 };
inline constexpr std::uint32_t kVectorCount = 3;

// --- Registers of BAR 1, 32-bit accesses (1.4) ---

enum class Register : std::uint32_t {
  kVersion = 0x00,
  kDsrLow = 0x04,
  kDsrHigh = 0x08,
  kCtl = 0x0c,
  kRequest = 0x10,
  kErr = 0x14,
  kIcr = 0x18,
  kImr = 0x1c,
  kMacLow = 0x20,
  kMacHigh = 0x24,
};

// The register at byte `offset` of BAR 1. Nothing for an offset without a register or an unaligned offset.
constexpr std::optional<Register> parse_register(std::uint64_t offset) {
  if (offset > static_cast<std::uint64_t>(Register::kMacHigh) || offset % 4 != 0) return std::nullopt;
  return static_cast<Register>(offset);
}

// Values of CTL.
enum class Ctl : std::uint32_t { kActivate = 0, kUnquiesce = 1, kReset = 2 };

constexpr std::optional<Ctl> parse_ctl(std::uint32_t raw) {
  if (raw > static_cast<std::uint32_t>(Ctl::kReset)) return std::nullopt;
  return static_cast<Ctl>(raw);
}

// Bits of ICR. We infer that IMR has the same bits.
enum InterruptCause : std::uint32_t {
  kInterruptResponse = 1u << 0,
  kInterruptAsyncEvent = 1u << 1,
  kInterruptCq = 1u << 2,
};

// The only two values Linux writes to IMR.
inline constexpr std::uint32_t kImrAllEnabled = 0;
inline constexpr std::uint32_t kImrAllMasked = 0xffffffff;

// --- Device versions: the value of VERSION (1.7) ---

inline constexpr std::uint32_t kVersionRocev1 = 17;    // RoCE v1 only; QP handle = QP number
inline constexpr std::uint32_t kVersionRocev2 = 18;    // v1 or v2, SRQ
inline constexpr std::uint32_t kVersionPpn64 = 19;     // 64-bit page frames of UAR pages
inline constexpr std::uint32_t kVersionQpHandle = 20;  // CREATE_QP answers with number and handle

// --- Doorbells: three write-only 32-bit words per UAR page (5) ---

enum class UarWord : std::uint32_t { kQp = 0, kCq = 4, kSrq = 8 };

// The doorbell word at byte `offset` of a UAR page. Nothing for any other offset.
constexpr std::optional<UarWord> parse_uar_word(std::uint32_t offset) {
  if (offset > static_cast<std::uint32_t>(UarWord::kSrq) || offset % 4 != 0) return std::nullopt;
  return static_cast<UarWord>(offset);
}

inline constexpr std::uint32_t kDoorbellHandleMask = 0x00ffffff;

enum QpDoorbellBit : std::uint32_t { kQpDoorbellSend = 1u << 30, kQpDoorbellRecv = 1u << 31 };
enum CqDoorbellBit : std::uint32_t {
  kCqDoorbellArmSolicited = 1u << 29,
  kCqDoorbellArm = 1u << 30,
  kCqDoorbellPoll = 1u << 31,
};
enum SrqDoorbellBit : std::uint32_t { kSrqDoorbellRecv = 1u << 30 };

}  // namespace pvrdma::abi
