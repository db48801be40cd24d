#include "vfio_user/protocol.h"

#include <cerrno>
#include <limits>

namespace pvrdma::vfio_user {
namespace {

constexpr std::uint64_t kMaxU64 = std::numeric_limits<std::uint64_t>::max();

tl::unexpected<Refusal> answer(int code) {
  return tl::unexpected(Refusal{code, {}});
}
tl::unexpected<Refusal> malformed(std::string_view why) {
  return tl::unexpected(Refusal{0, why});
}

// Reads a request that starts with argsz. It may be longer than the known structure (this is what argsz is
// for), but not shorter.
template <typename Wire>
Decoded<Wire> read_argsz_struct(std::span<const std::byte> payload) {
  if (payload.size() < sizeof(Wire)) return malformed("is shorter than its command's structure");
  const auto value = read<Wire>(payload);
  if (value.argsz < sizeof(Wire)) return answer(EINVAL);
  return value;
}

Decoded<RegionAccess> checked_access(const wire::RegionAccess& access) {
  if (access.count == 0 || access.count > kMaxDataTransferBytes) return answer(EINVAL);
  if (access.offset > kMaxU64 - access.count) return answer(EINVAL);
  return RegionAccess{access.offset, access.region, access.count};
}

bool page_aligned(std::uint64_t value) {
  return value % kPageBytes == 0;
}

// Every range of the DMA address space must be not empty, consist of whole pages, and not wrap.
bool is_dma_range(std::uint64_t iova, std::uint64_t size) {
  return size != 0 && page_aligned(iova) && page_aligned(size) && iova <= kMaxU64 - size;
}

}  // namespace

std::string_view name_of(Command command) {
  switch (command) {
    case Command::kVersion:
      return "VERSION";
    case Command::kDmaMap:
      return "DMA_MAP";
    case Command::kDmaUnmap:
      return "DMA_UNMAP";
    case Command::kGetInfo:
      return "DEVICE_GET_INFO";
    case Command::kGetRegionInfo:
      return "DEVICE_GET_REGION_INFO";
    case Command::kGetRegionIoFds:
      return "DEVICE_GET_REGION_IO_FDS";
    case Command::kGetIrqInfo:
      return "DEVICE_GET_IRQ_INFO";
    case Command::kSetIrqs:
      return "DEVICE_SET_IRQS";
    case Command::kRegionRead:
      return "REGION_READ";
    case Command::kRegionWrite:
      return "REGION_WRITE";
    case Command::kDmaRead:
      return "DMA_READ";
    case Command::kDmaWrite:
      return "DMA_WRITE";
    case Command::kReset:
      return "DEVICE_RESET";
    case Command::kRegionWriteMulti:
      return "REGION_WRITE_MULTI";
    case Command::kDeviceFeature:
      return "DEVICE_FEATURE";
    case Command::kMigDataRead:
      return "MIG_DATA_READ";
    case Command::kMigDataWrite:
      return "MIG_DATA_WRITE";
  }
  return "UNKNOWN";
}

Decoded<VersionMessage> decode_version(std::span<const std::byte> payload) {
  if (payload.size() < sizeof(wire::Version)) return malformed("is shorter than its command's structure");
  if (payload.size() > kMaxVersionPayloadBytes)
    return malformed("is longer than any sensible list of capabilities");
  const auto version = read<wire::Version>(payload);
  VersionMessage message{version.major, version.minor, {}};

  const auto text = payload.subspan(sizeof(wire::Version));
  if (text.empty()) return message;
  if (text.back() != std::byte{0}) return malformed("has capabilities that do not end in NUL");
  auto capabilities = decode_capabilities({reinterpret_cast<const char*>(text.data()), text.size() - 1});
  if (!capabilities) return tl::unexpected(capabilities.error());
  message.capabilities = *capabilities;
  return message;
}

Decoded<DmaMapRequest> decode_dma_map(std::span<const std::byte> payload, std::size_t fd_count) {
  const auto map = read_argsz_struct<wire::DmaMap>(payload);
  if (!map) return tl::unexpected(map.error());
  if ((map->flags & ~(wire::kDmaMapReadable | wire::kDmaMapWritable)) != 0) return answer(EINVAL);
  if (!is_dma_range(map->iova, map->size)) return answer(EINVAL);
  // The offset has no meaning without an fd, so it is not checked then.
  const std::uint64_t fd_offset = fd_count == 0 ? 0 : map->fd_offset;
  if (!page_aligned(fd_offset) || fd_offset > kMaxU64 - map->size) return answer(EINVAL);
  return DmaMapRequest{map->iova, map->size, fd_offset, (map->flags & wire::kDmaMapReadable) != 0,
                       (map->flags & wire::kDmaMapWritable) != 0};
}

Decoded<DmaUnmapRequest> decode_dma_unmap(std::span<const std::byte> payload) {
  const auto unmap = read_argsz_struct<wire::DmaUnmap>(payload);
  if (!unmap) return tl::unexpected(unmap.error());
  if (unmap->flags == wire::kDmaUnmapAll && unmap->iova == 0 && unmap->size == 0)
    return DmaUnmapRequest{true, 0, 0};
  if (unmap->flags != 0 || !is_dma_range(unmap->iova, unmap->size)) return answer(EINVAL);
  return DmaUnmapRequest{false, unmap->iova, unmap->size};
}

Decoded<void> decode_get_info(std::span<const std::byte> payload) {
  const auto info = read_argsz_struct<wire::DeviceInfo>(payload);
  if (!info) return tl::unexpected(info.error());
  return {};
}

Decoded<RegionInfoRequest> decode_get_region_info(std::span<const std::byte> payload) {
  const auto info = read_argsz_struct<wire::RegionInfo>(payload);
  if (!info) return tl::unexpected(info.error());
  return RegionInfoRequest{info->index, info->argsz};
}

Decoded<std::uint32_t> decode_get_irq_info(std::span<const std::byte> payload) {
  const auto info = read_argsz_struct<wire::IrqInfo>(payload);
  if (!info) return tl::unexpected(info.error());
  return info->index;
}

Decoded<SetIrqsRequest> decode_set_irqs(std::span<const std::byte> payload, std::size_t fd_count) {
  const auto set = read_argsz_struct<wire::SetIrqs>(payload);
  if (!set) return tl::unexpected(set.error());
  const std::uint32_t data = set->flags & wire::kIrqDataMask;
  const std::uint32_t action = set->flags & ~wire::kIrqDataMask;
  const bool trigger = action == wire::kIrqActionTrigger;
  if (!trigger && action != wire::kIrqActionMask && action != wire::kIrqActionUnmask) return answer(EINVAL);

  SetIrqsRequest request{IrqOperation::kUnsupported, set->index, set->start, set->count};
  switch (data) {
    case wire::kIrqDataNone:
      if (fd_count != 0) return answer(EINVAL);
      if (trigger && set->count == 0) request.operation = IrqOperation::kDisable;
      return request;
    case wire::kIrqDataBool:
      if (fd_count != 0) return answer(EINVAL);
      if (payload.size() - sizeof(wire::SetIrqs) < set->count)
        return malformed("has fewer bools than vectors");
      return request;
    case wire::kIrqDataEventfd:
      if (set->count == 0 || (fd_count != 0 && fd_count != set->count)) return answer(EINVAL);
      if (trigger) request.operation = IrqOperation::kAssign;
      return request;
    default:
      return answer(EINVAL);
  }
}

Decoded<RegionAccess> decode_region_read(std::span<const std::byte> payload) {
  if (payload.size() != sizeof(wire::RegionAccess)) return malformed("does not have its command's size");
  return checked_access(read<wire::RegionAccess>(payload));
}

Decoded<RegionWriteRequest> decode_region_write(std::span<const std::byte> payload) {
  if (payload.size() < sizeof(wire::RegionAccess))
    return malformed("is shorter than its command's structure");
  const auto head = read<wire::RegionAccess>(payload);
  const auto data = payload.subspan(sizeof(wire::RegionAccess));
  if (data.size() != head.count) return malformed("announces more or fewer bytes than it carries");
  const auto access = checked_access(head);
  if (!access) return tl::unexpected(access.error());
  return RegionWriteRequest{*access, data};
}

Decoded<void> decode_reset(std::span<const std::byte> payload) {
  if (!payload.empty()) return malformed("does not have its command's size");
  return {};
}

std::size_t write_version(std::span<std::byte> payload, const Capabilities& capabilities) {
  write(payload, 0, wire::Version{});
  const std::string json = encode_capabilities(capabilities);
  const std::size_t bytes = sizeof(wire::Version) + json.size() + 1;
  if (payload.size() < bytes) return sizeof(wire::Version);
  std::memcpy(payload.data() + sizeof(wire::Version), json.c_str(), json.size() + 1);
  return bytes;
}

std::size_t region_info_bytes(const RegionInfo& info) {
  if (info.mmap_areas.empty()) return sizeof(wire::RegionInfo);
  return sizeof(wire::RegionInfo) + sizeof(wire::SparseMmap) +
         info.mmap_areas.size() * sizeof(wire::SparseMmapArea);
}

std::size_t write_region_info(std::span<std::byte> payload, const RegionInfo& info,
                              const RegionInfoRequest& request) {
  const std::size_t bytes = region_info_bytes(info);
  wire::RegionInfo head{.argsz = static_cast<std::uint32_t>(bytes),
                        .flags = (info.readable ? wire::kRegionReadable : 0) |
                                 (info.writable ? wire::kRegionWritable : 0) |
                                 (info.mmap_areas.empty() ? 0 : wire::kRegionMmap),
                        .index = request.region,
                        .size = info.size,
                        .fd_offset = info.fd_offset};
  if (info.mmap_areas.empty() || request.argsz < bytes) {
    write(payload, 0, head);
    return sizeof(head);
  }
  head.flags |= wire::kRegionCapabilities;
  head.cap_offset = sizeof(head);
  write(payload, 0, head);
  write(payload, sizeof(head),
        wire::SparseMmap{.area_count = static_cast<std::uint32_t>(info.mmap_areas.size())});
  std::size_t at = sizeof(head) + sizeof(wire::SparseMmap);
  for (const MmapArea& area : info.mmap_areas) {
    write(payload, at, wire::SparseMmapArea{area.offset, area.size});
    at += sizeof(wire::SparseMmapArea);
  }
  return bytes;
}

namespace {

// The list of areas of the first sparse-mmap capability; empty if there is no such capability.
Decoded<std::vector<MmapArea>> decode_mmap_areas(std::span<const std::byte> payload,
                                                 std::uint32_t cap_offset) {
  // Each capability must lie behind the previous one, so a circular chain ends here.
  std::size_t at = cap_offset;
  std::size_t floor = sizeof(wire::RegionInfo);
  while (at != 0) {
    if (at < floor || at + sizeof(wire::SparseMmap) > payload.size()) {
      return malformed("has a capability outside of its payload");
    }
    const auto capability = read<wire::SparseMmap>(payload, at);
    floor = at + 1;
    if (capability.id != wire::kCapabilitySparseMmap) {
      at = capability.next;
      continue;
    }
    at += sizeof(capability);
    if (capability.area_count > (payload.size() - at) / sizeof(wire::SparseMmapArea)) {
      return malformed("announces more areas than it carries");
    }
    std::vector<MmapArea> areas;
    for (std::uint32_t i = 0; i < capability.area_count; ++i, at += sizeof(wire::SparseMmapArea)) {
      const auto area = read<wire::SparseMmapArea>(payload, at);
      areas.push_back({area.offset, area.size});
    }
    return areas;
  }
  return {};
}

}  // namespace

Decoded<RegionInfoReply> decode_region_info_reply(std::span<const std::byte> payload) {
  const auto head = read_argsz_struct<wire::RegionInfo>(payload);
  if (!head) return malformed("is shorter than its command's structure");
  RegionInfoReply reply;
  reply.argsz = head->argsz;
  reply.info.size = head->size;
  reply.info.readable = (head->flags & wire::kRegionReadable) != 0;
  reply.info.writable = (head->flags & wire::kRegionWritable) != 0;
  reply.info.fd_offset = head->fd_offset;
  if ((head->flags & wire::kRegionCapabilities) != 0) {
    auto areas = decode_mmap_areas(payload, head->cap_offset);
    if (!areas) return tl::unexpected(areas.error());
    reply.info.mmap_areas = std::move(*areas);
  } else if ((head->flags & wire::kRegionMmap) != 0 && head->argsz == sizeof(wire::RegionInfo)) {
    reply.info.mmap_areas.push_back({0, head->size});  // without a list, all of it is mappable
  }
  return reply;
}

}  // namespace pvrdma::vfio_user
