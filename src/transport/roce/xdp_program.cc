#include "transport/roce/xdp_program.h"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstddef>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <netinet/in.h>
#include <optional>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/check.h"
#include "roce/frame.h"

namespace pvrdma::transport::roce {
namespace {

constexpr std::int32_t kEthernetBytes = 14;
constexpr std::int32_t kTagBytes = 4;
constexpr std::int32_t kIpv4Bytes = 20;
constexpr std::int32_t kIpv6Bytes = 40;
constexpr std::int32_t kUdpBytes = 8;
constexpr std::int32_t kRoceV1 = 0x8915;

// A program under construction. Its jumps lead forward, to labels.
class Assembly {
 public:
  enum Label : std::uint8_t { kUntagged, kIpv6, kUdp, kTake, kPass, kLabels };

  void move(std::uint8_t to, std::uint8_t from) { put(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0); }
  void set(std::uint8_t to, std::int32_t value) { put(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value); }
  void add(std::uint8_t to, std::int32_t value) { put(BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, value); }
  void load(std::uint8_t size, std::uint8_t to, std::uint8_t from, std::int32_t offset) {
    put(static_cast<std::uint8_t>(BPF_LDX | BPF_MEM | size), to, from, static_cast<std::int16_t>(offset), 0);
  }
  void load_map(std::uint8_t to, int map) {
    put(BPF_LD | BPF_DW | BPF_IMM, to, BPF_PSEUDO_MAP_FD, 0, map);
    put(0, 0, 0, 0, 0);
  }
  void call(std::int32_t function) { put(BPF_JMP | BPF_CALL, 0, 0, 0, function); }
  void exit() { put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }
  void go(Label label) { jump(BPF_JMP | BPF_JA, 0, 0, 0, label); }
  void go_if_beyond(std::uint8_t one, std::uint8_t other, Label label) {
    jump(BPF_JMP | BPF_JGT | BPF_X, one, other, 0, label);
  }
  void go_if(std::uint8_t one, std::int32_t value, Label label) {
    jump(BPF_JMP | BPF_JEQ | BPF_K, one, 0, value, label);
  }
  void go_unless(std::uint8_t one, std::int32_t value, Label label) {
    jump(BPF_JMP | BPF_JNE | BPF_K, one, 0, value, label);
  }
  void here(Label label) { places_[label] = code_.size(); }

  std::vector<bpf_insn> finish() {
    for (const auto& [at, label] : jumps_) {
      PVRDMA_CHECK(places_[label] > at, "each jump leads forward");
      code_[at].off = static_cast<std::int16_t>(places_[label] - at - 1);
    }
    return std::move(code_);
  }

 private:
  void put(std::uint8_t code, std::uint8_t to, std::uint8_t from, std::int16_t offset, std::int32_t value) {
    bpf_insn instruction{};
    instruction.code = code;
    instruction.dst_reg = to & 0xf;
    instruction.src_reg = from & 0xf;
    instruction.off = offset;
    instruction.imm = value;
    code_.push_back(instruction);
  }
  void jump(std::uint8_t code, std::uint8_t one, std::uint8_t other, std::int32_t value, Label label) {
    jumps_.emplace_back(code_.size(), label);
    put(code, one, other, 0, value);
  }

  std::vector<bpf_insn> code_;
  std::vector<std::pair<std::size_t, Label>> jumps_;
  std::array<std::size_t, kLabels> places_{};
};

// The value as the kernel loads it from the frame.
std::int32_t on_wire(std::int32_t value) {
  return ::htons(static_cast<std::uint16_t>(value));
}

std::vector<bpf_insn> instructions(int map) {
  constexpr auto kContext = BPF_REG_6, kAt = BPF_REG_2, kEnd = BPF_REG_3, kNeeds = BPF_REG_4,
                 kWhat = BPF_REG_5, kPort = BPF_REG_4;
  const auto needs = [&](Assembly& code, std::int32_t bytes) {
    code.move(kNeeds, kAt);
    code.add(kNeeds, bytes);
    code.go_if_beyond(kNeeds, kEnd, Assembly::kPass);
  };
  Assembly code;
  code.move(kContext, BPF_REG_1);
  code.load(BPF_W, kAt, kContext, offsetof(xdp_md, data));
  code.load(BPF_W, kEnd, kContext, offsetof(xdp_md, data_end));
  needs(code, kEthernetBytes + kTagBytes);
  code.load(BPF_H, kWhat, kAt, 12);
  code.go_unless(kWhat, on_wire(ETH_P_8021Q), Assembly::kUntagged);
  code.load(BPF_H, kWhat, kAt, 12 + kTagBytes);
  code.add(kAt, kTagBytes);
  code.here(Assembly::kUntagged);
  code.go_if(kWhat, on_wire(kRoceV1), Assembly::kTake);
  code.go_if(kWhat, on_wire(ETH_P_IPV6), Assembly::kIpv6);
  code.go_unless(kWhat, on_wire(ETH_P_IP), Assembly::kPass);
  needs(code, kEthernetBytes + kIpv4Bytes + kUdpBytes);
  code.load(BPF_B, kWhat, kAt, kEthernetBytes);
  code.go_unless(kWhat, 0x45, Assembly::kPass);
  code.load(BPF_B, kWhat, kAt, kEthernetBytes + 9);
  code.load(BPF_H, kPort, kAt, kEthernetBytes + kIpv4Bytes + 2);
  code.go(Assembly::kUdp);
  code.here(Assembly::kIpv6);
  needs(code, kEthernetBytes + kIpv6Bytes + kUdpBytes);
  code.load(BPF_B, kWhat, kAt, kEthernetBytes + 6);
  code.load(BPF_H, kPort, kAt, kEthernetBytes + kIpv6Bytes + 2);
  code.here(Assembly::kUdp);
  code.go_unless(kWhat, IPPROTO_UDP, Assembly::kPass);
  code.go_unless(kPort, on_wire(pvrdma::roce::kUdpPort), Assembly::kPass);
  code.here(Assembly::kTake);
  code.load_map(BPF_REG_1, map);
  code.load(BPF_W, BPF_REG_2, kContext, offsetof(xdp_md, rx_queue_index));
  code.set(BPF_REG_3, XDP_PASS);  // if no socket is bound to that queue
  code.call(BPF_FUNC_redirect_map);
  code.exit();
  code.here(Assembly::kPass);
  code.set(BPF_REG_0, XDP_PASS);
  code.exit();
  return code.finish();
}

int bpf(bpf_cmd command, bpf_attr& attributes) {
  return static_cast<int>(::syscall(SYS_bpf, command, &attributes, sizeof(attributes)));
}

Fd make_map() {
  bpf_attr attributes{};
  attributes.map_type = BPF_MAP_TYPE_XSKMAP;
  attributes.key_size = sizeof(std::uint32_t);
  attributes.value_size = sizeof(std::uint32_t);
  attributes.max_entries = 1;
  return Fd(bpf(BPF_MAP_CREATE, attributes));
}

bool put_socket(const Fd& map, int socket) {
  const std::uint32_t queue = 0;
  const auto value = static_cast<std::uint32_t>(socket);
  bpf_attr attributes{};
  attributes.map_fd = static_cast<std::uint32_t>(map.get());
  attributes.key = reinterpret_cast<std::uintptr_t>(&queue);
  attributes.value = reinterpret_cast<std::uintptr_t>(&value);
  return bpf(BPF_MAP_UPDATE_ELEM, attributes) == 0;
}

Fd load(const Fd& map, XdpProgram::Frames frames) {
  const std::vector<bpf_insn> code = instructions(map.get());
  static constexpr char kLicense[] = "BSD";
  bpf_attr attributes{};
  attributes.prog_type = BPF_PROG_TYPE_XDP;
  attributes.expected_attach_type = BPF_XDP;
  attributes.insns = reinterpret_cast<std::uintptr_t>(code.data());
  attributes.insn_cnt = static_cast<std::uint32_t>(code.size());
  attributes.license = reinterpret_cast<std::uintptr_t>(kLicense);
  if (frames == XdpProgram::Frames::kSeveralBuffers) attributes.prog_flags = BPF_F_XDP_HAS_FRAGS;
  return Fd(bpf(BPF_PROG_LOAD, attributes));
}

Fd put_at(const Fd& program, unsigned device_index, std::uint32_t flags) {
  bpf_attr attributes{};
  attributes.link_create.prog_fd = static_cast<std::uint32_t>(program.get());
  attributes.link_create.target_ifindex = device_index;
  attributes.link_create.attach_type = BPF_XDP;
  attributes.link_create.flags = flags;
  return Fd(bpf(BPF_LINK_CREATE, attributes));
}

Failure refusal(std::string_view doing) {
  if (errno == EPERM) {
    return fail(EPERM, std::string(doing) + ": not permitted: give the daemon CAP_NET_ADMIN and CAP_BPF");
  }
  if (errno == EBUSY) {
    return fail(EBUSY, std::string(doing) + ": another one is attached: remove it, or name another device");
  }
  return fail_errno(errno, doing);
}

}  // namespace

Result<XdpProgram> XdpProgram::attach(unsigned device_index, int socket, Frames frames) {
  Fd map = make_map();
  if (!map || !put_socket(map, socket)) return refusal("cannot make the map of an XDP program");
  const Fd program = load(map, frames);
  if (!program) return refusal("cannot load an XDP program");
  Mode mode = Mode::kDriver;
  Fd at = put_at(program, device_index, XDP_FLAGS_DRV_MODE);
  if (!at && errno != EPERM && errno != EBUSY) {
    mode = Mode::kGeneric;
    at = put_at(program, device_index, XDP_FLAGS_SKB_MODE);
  }
  if (!at) return refusal("cannot attach an XDP program to the device");
  return XdpProgram(std::move(map), std::move(at), mode);
}

}  // namespace pvrdma::transport::roce
