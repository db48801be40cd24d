#include "device/capabilities.h"

#include <algorithm>
#include <bit>
#include <fmt/core.h>

#include "abi/eui64.h"
#include "abi/registers.h"

namespace pvrdma::device {
namespace {

constexpr std::uint64_t kFirmwareVersion = 3ULL << 32;  // 3.0.000
constexpr std::uint32_t kHwVer = 1;                     // any value; shown by query_device
constexpr std::uint32_t kFastRegisterPagesMax = 128;    // what the driver allows at most
constexpr std::uint32_t kEsxiUdQpsMax = 3;

struct Range {
  const char* name;
  std::uint64_t value;
  std::uint64_t min;
  std::uint64_t max;
  bool power_of_two;
};

}  // namespace

verbs::Limits limits_of(HardwareVersion version, Profile profile) {
  verbs::Limits limits;
  limits.max_qp = 32768;
  limits.max_qp_wr = 1024;
  limits.max_sge = 16;
  limits.max_cq = 4096;
  limits.max_cqe = 262144;
  limits.max_mr = 262144;
  limits.max_context = 1024;
  if (!offers_srq(version)) limits.max_srq = 0;
  if (profile == Profile::kEsxi) limits.max_ud_qp = kEsxiUdQpsMax;
  return limits;
}

verbs::Limits within(const Budgets& budgets, verbs::Limits limits) {
  const auto lesser = [](std::uint32_t limit, std::uint64_t budget) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(limit, budget));
  };
  limits.max_qp = lesser(limits.max_qp, budgets.qps);
  limits.max_cq = lesser(limits.max_cq, budgets.cqs);
  limits.max_srq = lesser(limits.max_srq, budgets.srqs);
  limits.max_mr = lesser(limits.max_mr, budgets.mrs);
  return limits;
}

Budgets within(const verbs::Limits& limits, Budgets budgets) {
  budgets.qps = std::min<std::uint64_t>(budgets.qps, limits.max_qp);
  budgets.cqs = std::min<std::uint64_t>(budgets.cqs, limits.max_cq);
  budgets.srqs = std::min<std::uint64_t>(budgets.srqs, limits.max_srq);
  budgets.mrs = std::min<std::uint64_t>(budgets.mrs, limits.max_mr);
  return budgets;
}

verbs::Rules rules_of(HardwareVersion version, RoceVersion roce, Profile profile) {
  verbs::Rules rules;
  rules.qp_handle_is_qpn = !separates_qp_handle(version);
  rules.atomics = profile == Profile::kOpen;
  rules.roce = roce;
  return rules;
}

Result<> check_doorbells(DoorbellMode mode, bool host_is_x86) {
  if (mode == DoorbellMode::kTrapped || host_is_x86) return {};
  return fail(fmt::format("doorbells = \"{}\" needs an x86-64 host, which this is not; choose {}",
                          to_text(mode), to_text(DoorbellMode::kTrapped)));
}

Result<> check_limits(const verbs::Limits& l) {
  // Upper bounds: 16-bit QP handles in completions (reference 2.3), 24-bit handles in doorbells and address
  // vectors, and the size of our tables.
  const Range ranges[] = {
      {"max_context", l.max_context, 2, 32768, true},
      {"max_pd", l.max_pd, 1, 1u << 20, false},
      {"max_mr", l.max_mr, 1, 1u << 22, false},
      {"max_cq", l.max_cq, 2, 65535, false},
      {"max_cqe", l.max_cqe, 1024, 1u << 22, true},
      {"max_qp", l.max_qp, 4, 65535, false},
      {"max_qp_wr", l.max_qp_wr, 512, 32768, false},
      {"max_user_qp_wr", l.max_user_qp_wr, 1, 32768, false},
      {"max_sge", l.max_sge, 1, verbs::kSgeMax, true},
      {"max_srq", l.max_srq, 0, 65535, false},
      {"max_srq_wr", l.max_srq_wr, 1, 32768, false},
      {"max_rd_atomic", l.max_rd_atomic, 1, verbs::kRdAtomicMax, false},
      {"max_ah", l.max_ah, 1, 1u << 20, false},
      {"gid_table_length", l.gid_table_length, 2, 256, false},
      {"max_mr_bytes", l.max_mr_bytes, 4096, 1ULL << 30, false},
  };
  for (const Range& range : ranges) {
    if (range.value >= range.min && range.value <= range.max &&
        (!range.power_of_two || std::has_single_bit(range.value)))
      continue;
    return fail(fmt::format("limit {} = {} is not {} from {} to {}", range.name, range.value,
                            range.power_of_two ? "a power of two" : "a number", range.min, range.max));
  }
  return {};
}

abi::Mtu port_mtu(NetworkMtu network) {
  for (const abi::Mtu mtu : {abi::Mtu::k4096, abi::Mtu::k2048, abi::Mtu::k1024, abi::Mtu::k512}) {
    if (abi::mtu_bytes(mtu) + kRoceHeaderBytesMax <= network) return mtu;
  }
  return abi::Mtu::k256;
}

abi::Be64 node_guid(const abi::Mac& mac) {
  std::uint64_t guid = 0;
  for (const std::uint8_t byte : abi::eui64(mac)) guid = guid << 8 | byte;
  return abi::Be64::from_host(guid);
}

abi::Caps caps_of(const verbs::Limits& limits, const verbs::Rules& rules, const abi::Mac& mac) {
  abi::Caps caps{};
  caps.fw_ver = kFirmwareVersion;
  caps.node_guid = node_guid(mac);
  caps.sys_image_guid = caps.node_guid;
  caps.max_mr_size = limits.max_mr_bytes;
  caps.page_size_cap = abi::kPageBytes;
  caps.vendor_id = abi::kPciVendorId;
  caps.vendor_part_id = abi::kPciDeviceId;
  caps.hw_ver = kHwVer;
  caps.max_qp = limits.max_qp;
  caps.max_qp_wr = limits.max_qp_wr;
  caps.max_sge = limits.max_sge;
  caps.max_sge_rd = limits.max_sge;
  caps.max_cq = limits.max_cq;
  caps.max_cqe = limits.max_cqe;
  caps.max_mr = limits.max_mr;
  caps.max_pd = limits.max_pd;
  caps.max_qp_rd_atom = limits.max_rd_atomic;
  caps.max_qp_init_rd_atom = limits.max_rd_atomic;
  caps.max_ah = limits.max_ah;
  caps.max_srq = limits.max_srq;
  if (limits.max_srq != 0) {
    caps.max_srq_wr = limits.max_srq_wr;
    caps.max_srq_sge = limits.max_sge;
  }
  caps.max_uar = limits.max_context;
  caps.gid_tbl_len = limits.gid_table_length;
  caps.max_pkeys = 1;
  caps.local_ca_ack_delay = 15;
  caps.phys_port_cnt = 1;
  caps.mode = static_cast<std::uint8_t>(abi::Mode::kRoce);
  caps.atomic_ops = rules.atomics ? abi::kAtomicCompareSwap | abi::kAtomicFetchAdd : 0;
  caps.bmme_flags = abi::kBmmeLocalInv | abi::kBmmeRemoteInv | abi::kBmmeFastReg;
  caps.gid_types = rules.roce == RoceVersion::kV1 ? abi::kGidTypeRocev1 : abi::kGidTypeRocev2;
  caps.max_fast_reg_page_list_len = kFastRegisterPagesMax;
  return caps;
}

}  // namespace pvrdma::device
