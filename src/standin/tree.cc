#include "standin/tree.h"

#include <cerrno>
#include <filesystem>
#include <fmt/core.h>
#include <fstream>
#include <string_view>
#include <system_error>
#include <thread>

#include "abi/registers.h"

namespace pvrdma::standin {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDevice = "vmw_pvrdma0";
constexpr std::string_view kNetwork = "lo";  // exists in every network namespace

// Writes files below a root and keeps the first error.
class Writer {
 public:
  explicit Writer(fs::path root) : root_(std::move(root)) {}

  void file(const fs::path& path, std::string_view text) {
    if (!make_parent(path)) return;
    std::ofstream out(root_ / path, std::ios::trunc);
    out << text << '\n';
    out.close();
    if (!out) keep(fail(EIO, fmt::format("{}: cannot be written", (root_ / path).string())));
  }

  void link(const fs::path& path, const fs::path& target) {
    if (!make_parent(path)) return;
    std::error_code error;
    fs::remove(root_ / path, error);
    fs::create_symlink(target, root_ / path, error);
    if (error) keep(fail_errno(error.value(), "making the link " + (root_ / path).string()));
  }

  const Result<>& outcome() const { return outcome_; }

 private:
  bool make_parent(const fs::path& path) {
    std::error_code error;
    fs::create_directories((root_ / path).parent_path(), error);
    if (error) keep(fail_errno(error.value(), "making the folder " + (root_ / path).parent_path().string()));
    return !error;
  }
  void keep(Failure failure) {
    if (outcome_) outcome_ = std::move(failure);
  }

  fs::path root_;
  Result<> outcome_;
};

std::string text_of(const abi::Gid& gid) {
  std::string text;
  for (std::size_t i = 0; i < gid.raw.size(); i += 2)
    text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid.raw[i], gid.raw[i + 1]);
  return text;
}

std::string text_of(const abi::Be64& guid) {
  const std::uint64_t value = guid.to_host();
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", value >> 48, value >> 32 & 0xffff, value >> 16 & 0xffff,
                     value & 0xffff);
}

std::string_view state_name(std::uint32_t state) {
  switch (state) {
    case 1:
      return "DOWN";
    case 2:
      return "INIT";
    case 3:
      return "ARMED";
    default:
      return "ACTIVE";
  }
}

std::string rate_of(const abi::PortAttr& port) {
  const int lanes = port.active_width == 8 ? 12 : port.active_width == 4 ? 8 : port.active_width == 2 ? 4 : 1;
  const int gbps = port.active_speed == 32 ? 25 : port.active_speed == 16 ? 14 : 10;
  const std::string_view name = gbps == 25 ? " EDR" : gbps == 14 ? " FDR" : " QDR";
  return fmt::format("{} Gb/sec ({}X{})", lanes * gbps, lanes, name);
}

void write_pci(Writer& out, const fs::path& device) {
  out.file(device / "vendor", fmt::format("{:#06x}", abi::kPciVendorId));
  out.file(device / "device", fmt::format("{:#06x}", abi::kPciDeviceId));
  out.file(device / "subsystem_vendor", fmt::format("{:#06x}", abi::kPciVendorId));
  out.file(device / "subsystem_device", fmt::format("{:#06x}", abi::kPciDeviceId));
  out.file(device / "class", fmt::format("{:#08x}", abi::kPciClassNetworkOther << 8));
  out.file(device / "revision", "0x00");
  // rdma-core chooses the provider by this.
  out.file(device / "modalias", fmt::format("pci:v{0:08X}d{1:08X}sv{0:08X}sd{1:08X}bc02sc80i00",
                                            abi::kPciVendorId, abi::kPciDeviceId));
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  out.file(device / "numa_node", "-1");
  out.file(device / "local_cpulist", cores == 1 ? "0" : fmt::format("0-{}", cores - 1));
  std::string mask = fmt::format("{:x}", (1U << cores % 32) - 1);
  if (cores % 32 == 0) mask.clear();
  for (unsigned words = cores / 32; words > 0; --words) mask += mask.empty() ? "ffffffff" : ",ffffffff";
  out.file(device / "local_cpus", mask);
  out.file(device / "net" / kNetwork / "ifindex", "1");
}

void write_port(Writer& out, const fs::path& port, const TreeFacts& facts) {
  out.file(port / "state", fmt::format("{}: {}", facts.port.state, state_name(facts.port.state)));
  const bool up = facts.port.phys_state == static_cast<std::uint8_t>(abi::PhysState::kLinkUp);
  out.file(port / "phys_state", fmt::format("{}: {}", facts.port.phys_state, up ? "LinkUp" : "Disabled"));
  out.file(port / "rate", rate_of(facts.port));
  out.file(port / "link_layer", "Ethernet");
  out.file(port / "lid", "0x0");
  out.file(port / "sm_lid", "0x0");
  out.file(port / "sm_sl", "0");
  out.file(port / "lid_mask_count", "0");
  out.file(port / "cap_mask", "0x04010000");
  out.file(port / "pkeys" / "0", "0xffff");
  const std::string_view type = facts.caps.gid_types == abi::kGidTypeRocev2 ? "RoCE v2" : "IB/RoCE v1";
  for (std::uint32_t i = 0; i < facts.caps.gid_tbl_len; ++i) {
    const bool is_set = i < facts.gids.size();
    const std::string index = std::to_string(i);
    out.file(port / "gids" / index, text_of(is_set ? facts.gids[i] : abi::Gid{}));
    if (!is_set) continue;  // as in sysfs, where reading the attributes of an empty entry fails
    out.file(port / "gid_attrs" / "types" / index, type);
    out.file(port / "gid_attrs" / "ndevs" / index, kNetwork);
  }
}

}  // namespace

Result<> write_tree(const std::string& folder, const TreeFacts& facts) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) return fail_errno(error.value(), "removing an earlier stand-in's " + folder);
  Writer out{fs::path(folder)};
  const fs::path device = fs::path("sys/class/infiniband") / kDevice;
  const std::uint64_t firmware = facts.caps.fw_ver;
  out.file(device / "node_guid", text_of(facts.caps.node_guid));
  out.file(device / "sys_image_guid", text_of(facts.caps.sys_image_guid));
  out.file(device / "node_type", "1: CA");
  out.file(device / "node_desc", "pvrdma process adapter");
  out.file(device / "fw_ver",
           fmt::format("{}.{}.{}", firmware >> 32, firmware >> 16 & 0xffff, firmware & 0xffff));
  out.file(device / "hca_type", fmt::format("VMW_PVRDMA-{}", facts.device_version));
  out.file(device / "hw_rev", "1");
  out.file(device / "board_id", "1");
  write_pci(out, device / "device");
  write_port(out, device / "ports" / "1", facts);

  const fs::path verbs = "sys/class/infiniband_verbs";
  out.file(verbs / "abi_version", "6");
  out.file(verbs / "uverbs0" / "ibdev", kDevice);
  out.file(verbs / "uverbs0" / "dev", "231:192");
  out.file(verbs / "uverbs0" / "abi_version", "3");
  out.link(verbs / "uverbs0" / "device", fs::path("../../infiniband") / kDevice / "device");
  out.file("sys/class/misc/rdma_cm/dev", "10:120");
  out.file("sys/class/misc/rdma_cm/abi_version", "4");
  // UCX wants a character device.
  out.link("dev/infiniband/uverbs0", "/dev/zero");
  out.link("dev/infiniband/rdma_cm", "/dev/zero");
  return out.outcome();
}

}  // namespace pvrdma::standin
