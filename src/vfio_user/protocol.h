// The vfio-user wire format: the structs on the wire, and their meaning.
//
// There are two layers. `wire::` is the view of bytes: packed structs with asserted sizes, in host byte order
// (the protocol never leaves the machine). decode_*() turns a message's bytes into their meaning and checks
// everything that does not depend on the device. write_*() and the write() template do the reverse. Nothing
// here keeps state.
//
// Thread: free functions and values, any thread. Source: QEMU docs/interop/vfio-user.rst and <linux/vfio.h>;
// docs/device.md 8.1-8.6 for what QEMU really sends.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <type_traits>

#include "base/check.h"
#include "base/result.h"
#include "vfio_user/handler.h"

namespace pvrdma::vfio_user {

static_assert(std::endian::native == std::endian::little,
              "the wire structs are in host order; only x86-64 is tried");

enum class Command : std::uint16_t {
  kVersion = 1,
  kDmaMap = 2,
  kDmaUnmap = 3,
  kGetInfo = 4,
  kGetRegionInfo = 5,
  kGetRegionIoFds = 6,
  kGetIrqInfo = 7,
  kSetIrqs = 8,
  kRegionRead = 9,
  kRegionWrite = 10,
  kDmaRead = 11,
  kDmaWrite = 12,
  kReset = 13,
  kRegionWriteMulti = 15,
  kDeviceFeature = 16,
  kMigDataRead = 17,
  kMigDataWrite = 18,
};

// For logs and errors, e.g. "REGION_WRITE"; "UNKNOWN" for other numbers.
std::string_view name_of(Command command);

inline constexpr std::uint32_t kFlagTypeMask = 0xf;
inline constexpr std::uint32_t kFlagTypeCommand = 0x0;
inline constexpr std::uint32_t kFlagTypeReply = 0x1;
inline constexpr std::uint32_t kFlagNoReply = 0x10;
inline constexpr std::uint32_t kFlagError = 0x20;

inline constexpr std::uint16_t kVersionMajor = 0;
inline constexpr std::uint16_t kVersionMinor = 0;  // QEMU rejects 1

inline constexpr std::uint32_t kMaxDataTransferBytes = 1u << 20;
inline constexpr std::uint32_t kMaxMessageFds = 8;
inline constexpr std::uint32_t kMaxVersionPayloadBytes = 4096;  // QEMU sends 198
inline constexpr std::uint32_t kMaxRegions = 100;               // QEMU accepts no more
inline constexpr std::uint32_t kMaxIrqIndices = 50;             // QEMU accepts no more
inline constexpr std::uint32_t kMaxMmapAreas = 16;
inline constexpr std::uint64_t kPageBytes = 4096;

namespace wire {

struct Header {
  std::uint16_t id = 0;
  Command command{};
  std::uint32_t size_bytes = 0;  // of the whole message
  std::uint32_t flags = 0;
  std::uint32_t error = 0;  // errno, in replies with kFlagError
};
static_assert(sizeof(Header) == 16 && offsetof(Header, command) == 2 && offsetof(Header, size_bytes) == 4 &&
              offsetof(Header, flags) == 8 && offsetof(Header, error) == 12);

// JSON and a NUL follow.
struct Version {
  std::uint16_t major = kVersionMajor;
  std::uint16_t minor = kVersionMinor;
};
static_assert(sizeof(Version) == 4);

inline constexpr std::uint32_t kDmaMapReadable = 1;
inline constexpr std::uint32_t kDmaMapWritable = 2;
struct DmaMap {
  std::uint32_t argsz = 32;
  std::uint32_t flags = 0;
  std::uint64_t fd_offset = 0;
  std::uint64_t iova = 0;
  std::uint64_t size = 0;
};
static_assert(sizeof(DmaMap) == 32 && offsetof(DmaMap, fd_offset) == 8 && offsetof(DmaMap, iova) == 16 &&
              offsetof(DmaMap, size) == 24);

inline constexpr std::uint32_t kDmaUnmapAll = 2;
struct DmaUnmap {
  std::uint32_t argsz = 24;
  std::uint32_t flags = 0;
  std::uint64_t iova = 0;
  std::uint64_t size = 0;
};
static_assert(sizeof(DmaUnmap) == 24 && offsetof(DmaUnmap, iova) == 8 && offsetof(DmaUnmap, size) == 16);

inline constexpr std::uint32_t kDeviceReset = 1;
inline constexpr std::uint32_t kDevicePci = 2;
struct DeviceInfo {
  std::uint32_t argsz = 16;
  std::uint32_t flags = 0;
  std::uint32_t region_count = 0;
  std::uint32_t irq_index_count = 0;
};
static_assert(sizeof(DeviceInfo) == 16 && offsetof(DeviceInfo, region_count) == 8 &&
              offsetof(DeviceInfo, irq_index_count) == 12);

inline constexpr std::uint32_t kRegionReadable = 1;
inline constexpr std::uint32_t kRegionWritable = 2;
inline constexpr std::uint32_t kRegionMmap = 4;
inline constexpr std::uint32_t kRegionCapabilities = 8;
struct RegionInfo {
  std::uint32_t argsz = 32;
  std::uint32_t flags = 0;
  std::uint32_t index = 0;
  std::uint32_t cap_offset = 0;
  std::uint64_t size = 0;
  std::uint64_t fd_offset = 0;
};
static_assert(sizeof(RegionInfo) == 32 && offsetof(RegionInfo, index) == 8 &&
              offsetof(RegionInfo, cap_offset) == 12 && offsetof(RegionInfo, size) == 16 &&
              offsetof(RegionInfo, fd_offset) == 24);

inline constexpr std::uint16_t kCapabilitySparseMmap = 1;
struct SparseMmap {
  std::uint16_t id = kCapabilitySparseMmap;
  std::uint16_t version = 1;
  std::uint32_t next = 0;
  std::uint32_t area_count = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(SparseMmap) == 16 && offsetof(SparseMmap, area_count) == 8);

struct SparseMmapArea {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};
static_assert(sizeof(SparseMmapArea) == 16);

inline constexpr std::uint32_t kIrqEventfd = 1;
struct IrqInfo {
  std::uint32_t argsz = 16;
  std::uint32_t flags = 0;
  std::uint32_t index = 0;
  std::uint32_t count = 0;
};
static_assert(sizeof(IrqInfo) == 16 && offsetof(IrqInfo, index) == 8 && offsetof(IrqInfo, count) == 12);

inline constexpr std::uint32_t kIrqDataNone = 1;
inline constexpr std::uint32_t kIrqDataBool = 2;
inline constexpr std::uint32_t kIrqDataEventfd = 4;
inline constexpr std::uint32_t kIrqDataMask = 7;
inline constexpr std::uint32_t kIrqActionMask = 8;
inline constexpr std::uint32_t kIrqActionUnmask = 16;
inline constexpr std::uint32_t kIrqActionTrigger = 32;
// With kIrqDataBool `count` bytes follow. Eventfds travel as ancillary data.
struct SetIrqs {
  std::uint32_t argsz = 20;
  std::uint32_t flags = 0;
  std::uint32_t index = 0;
  std::uint32_t start = 0;
  std::uint32_t count = 0;
};
static_assert(sizeof(SetIrqs) == 20 && offsetof(SetIrqs, start) == 12 && offsetof(SetIrqs, count) == 16);

// REGION_READ and REGION_WRITE, requests and replies. Data follows in write requests and read replies.
struct RegionAccess {
  std::uint64_t offset = 0;
  std::uint32_t region = 0;
  std::uint32_t count = 0;  // bytes
};
static_assert(sizeof(RegionAccess) == 16 && offsetof(RegionAccess, region) == 8 &&
              offsetof(RegionAccess, count) == 12);

// DMA_READ and DMA_WRITE, requests and replies. Data follows in write requests and read replies.
struct DmaAccess {
  std::uint64_t address = 0;
  std::uint64_t count = 0;  // bytes
};
static_assert(sizeof(DmaAccess) == 16 && offsetof(DmaAccess, count) == 8);

}  // namespace wire

inline constexpr std::size_t kHeaderBytes = sizeof(wire::Header);
inline constexpr std::size_t kMaxMessageBytes =
    kHeaderBytes + sizeof(wire::RegionAccess) + kMaxDataTransferBytes;
static_assert(sizeof(wire::DmaAccess) == sizeof(wire::RegionAccess), "kMaxMessageBytes is for both");

// Copies a struct out of `bytes`, at `offset`. `bytes` must hold all of it.
template <typename Wire>
Wire read(std::span<const std::byte> bytes, std::size_t offset = 0) {
  static_assert(std::is_trivially_copyable_v<Wire>);
  PVRDMA_CHECK(offset + sizeof(Wire) <= bytes.size(), "reading a wire struct beyond the message");
  Wire value;
  std::memcpy(&value, bytes.data() + offset, sizeof(Wire));
  return value;
}

// Copies a struct into `bytes`, at `offset`. `bytes` must have room for it.
template <typename Wire>
void write(std::span<std::byte> bytes, std::size_t offset, const Wire& value) {
  static_assert(std::is_trivially_copyable_v<Wire>);
  PVRDMA_CHECK(offset + sizeof(Wire) <= bytes.size(), "writing a wire struct beyond the buffer");
  std::memcpy(bytes.data() + offset, &value, sizeof(Wire));
}

// Why a request is not executed. Either the reply carries an errno, or the message contradicts its header and
// the stream cannot be trusted any more.
struct Refusal {
  int answer = 0;              // errno; 0 = malformed
  std::string_view malformed;  // what is wrong, in static storage; completes "COMMAND message that ..."
};

template <typename T>
using Decoded = tl::expected<T, Refusal>;

// What each side declares in VERSION. The defaults are the protocol's for absent keys.
struct Capabilities {
  std::uint32_t max_msg_fds = 1;
  std::uint32_t max_data_xfer_size = 1u << 20;  // bytes
  std::uint32_t max_dma_maps = 65535;
  std::uint64_t pgsizes = kPageBytes;  // bit mask
};

// What this code supports, as server and as client.
inline constexpr Capabilities kOwnCapabilities{kMaxMessageFds, kMaxDataTransferBytes, 65535, kPageBytes};

// The JSON text of VERSION, without NUL. The decoder ignores unknown keys; a known key of the wrong type or
// range is malformed (capabilities.cc).
std::string encode_capabilities(const Capabilities& capabilities);
Decoded<Capabilities> decode_capabilities(std::string_view json);

struct VersionMessage {
  std::uint16_t major = 0;
  std::uint16_t minor = 0;
  Capabilities capabilities;
};

struct DmaUnmapRequest {
  bool all = false;  // iova and size are 0
  std::uint64_t iova = 0;
  std::uint64_t size = 0;  // bytes, not 0 unless all
};

struct RegionInfoRequest {
  std::uint32_t region = 0;
  std::uint32_t argsz = 0;  // bytes the reply's payload may have, at least 32
};

enum class IrqOperation {
  kAssign,       // eventfds, one per vector; without eventfds, unassign these vectors
  kDisable,      // the whole index
  kUnsupported,  // valid, but no client of an MSI-X device needs it: mask, unmask, trigger by hand
};

struct SetIrqsRequest {
  IrqOperation operation{};
  std::uint32_t index = 0;
  std::uint32_t start = 0;
  std::uint32_t count = 0;
};

struct RegionAccess {
  std::uint64_t offset = 0;  // offset + count does not wrap
  std::uint32_t region = 0;
  std::uint32_t count = 0;  // bytes, 1 .. kMaxDataTransferBytes
};

struct RegionWriteRequest {
  RegionAccess access;
  std::span<const std::byte> data;  // access.count bytes, borrowed from the message
};

// Requests, as the server reads them. `payload` is the message after its header. `fd_count` is the number of
// file descriptors that came with it.
Decoded<VersionMessage> decode_version(std::span<const std::byte> payload);  // replies have the same form
Decoded<DmaMapRequest> decode_dma_map(std::span<const std::byte> payload, std::size_t fd_count);
Decoded<DmaUnmapRequest> decode_dma_unmap(std::span<const std::byte> payload);
Decoded<void> decode_get_info(std::span<const std::byte> payload);
Decoded<RegionInfoRequest> decode_get_region_info(std::span<const std::byte> payload);
Decoded<std::uint32_t> decode_get_irq_info(std::span<const std::byte> payload);  // returns the index
Decoded<SetIrqsRequest> decode_set_irqs(std::span<const std::byte> payload, std::size_t fd_count);
Decoded<RegionAccess> decode_region_read(std::span<const std::byte> payload);
Decoded<RegionWriteRequest> decode_region_write(std::span<const std::byte> payload);
Decoded<void> decode_reset(std::span<const std::byte> payload);

// Writes VERSION's payload, in either direction, and returns its size in bytes. If the JSON does not fit, it
// writes only the two numbers, which stand for the protocol's defaults.
std::size_t write_version(std::span<std::byte> payload, const Capabilities& capabilities);

// A GET_REGION_INFO reply. A complete reply has region_info_bytes(info) bytes, and its argsz always says so.
// It includes the capabilities only if they fit into the request's `argsz`; otherwise the client repeats the
// request with a larger one.
std::size_t region_info_bytes(const RegionInfo& info);
std::size_t write_region_info(std::span<std::byte> payload, const RegionInfo& info,
                              const RegionInfoRequest& request);

// A GET_REGION_INFO reply as the client reads it. `argsz` is the size that the server asks for. `info` is
// complete unless argsz > payload.size().
struct RegionInfoReply {
  RegionInfo info;  // always without an fd
  std::uint32_t argsz = 0;
};
Decoded<RegionInfoReply> decode_region_info_reply(std::span<const std::byte> payload);

}  // namespace pvrdma::vfio_user
