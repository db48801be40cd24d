// The messages of the InfiniBand connection manager, and their form on the wire: one MAD of 256 bytes (IBTA
// vol. 1, chapter 12; for services of IP addresses, annex A11).
//
// Bytes come from any machine that reaches the adapter. parse() reads only what lies inside the MAD, and
// build() of what it accepts gives a MAD that it accepts alike.
//
// Thread: values and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

namespace pvrdma::cm {

inline constexpr std::size_t kMadBytes = 256;
using Mad = std::array<std::byte, kMadBytes>;
using Gid = std::array<std::uint8_t, 16>;

// What every path of RoCE has.
inline constexpr std::uint16_t kDefaultPkey = 0xffff;
inline constexpr std::uint8_t kHopLimit = 64;
inline constexpr std::uint8_t kPacketLifetime = 16;  // ib_time()

// Which message a REJ or an MRA answers.
enum class About : std::uint8_t { kReq = 0, kRep = 1, kOther = 2 };

// Reasons of a REJ that this manager gives. A peer may give any other number.
enum class Reason : std::uint16_t {
  kNoResources = 3,
  kTimeout = 4,
  kUnsupported = 5,
  kInvalidCommId = 6,
  kInvalidServiceId = 8,
  kStaleConnection = 10,
  kConsumer = 28,
};

template <std::size_t kBytes>
using PrivateData = std::array<std::byte, kBytes>;

inline constexpr std::size_t kReqPrivateBytes = 92;
inline constexpr std::size_t kRepPrivateBytes = 196;
inline constexpr std::size_t kRejPrivateBytes = 148;
inline constexpr std::size_t kSidrReqPrivateBytes = 216;
inline constexpr std::size_t kSidrRepPrivateBytes = 136;

struct Req {
  std::uint32_t local_id = 0;
  std::uint64_t service_id = 0;
  std::uint64_t ca_guid = 0;
  std::uint32_t qpn = 0;  // 24 bits
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t remote_timeout = 0;  // 5 bits: 4.096 us * 2^n, how soon the receiver shall answer
  std::uint8_t service_type = 0;    // 2 bits: 0 is RC
  bool flow_control = false;
  std::uint32_t starting_psn = 0;  // 24 bits: the one at which the sender receives
  std::uint8_t local_timeout = 0;  // 5 bits: how soon the sender answers
  std::uint8_t retry_count = 0;    // 3 bits
  std::uint16_t pkey = 0;
  std::uint8_t mtu = 0;             // 4 bits
  std::uint8_t rnr_retry = 0;       // 3 bits
  std::uint8_t max_cm_retries = 0;  // 4 bits
  bool srq = false;
  Gid local_gid{};
  Gid remote_gid{};
  std::uint8_t packet_rate = 0;  // 6 bits
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t ack_timeout = 0;  // 5 bits
  PrivateData<kReqPrivateBytes> private_data{};
};

struct Mra {
  std::uint32_t local_id = 0;
  std::uint32_t remote_id = 0;
  About about = About::kReq;
  std::uint8_t service_timeout = 0;  // 5 bits
};

struct Rej {
  std::uint32_t local_id = 0;
  std::uint32_t remote_id = 0;
  About about = About::kReq;
  std::uint16_t reason = 0;
  std::uint64_t ca_guid =
      0;  // of the sender, with kTimeout: the receiver finds the connection by it; 0: none
  PrivateData<kRejPrivateBytes> private_data{};
};

struct Rep {
  std::uint32_t local_id = 0;
  std::uint32_t remote_id = 0;
  std::uint32_t qpn = 0;           // 24 bits
  std::uint32_t starting_psn = 0;  // 24 bits: the one at which the sender receives
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t ack_delay = 0;  // 5 bits
  bool flow_control = false;
  std::uint8_t rnr_retry = 0;  // 3 bits
  bool srq = false;
  std::uint64_t ca_guid = 0;
  PrivateData<kRepPrivateBytes> private_data{};
};

struct Rtu {
  std::uint32_t local_id = 0;
  std::uint32_t remote_id = 0;
};

struct Dreq {
  std::uint32_t local_id = 0;
  std::uint32_t remote_id = 0;
  std::uint32_t remote_qpn = 0;  // 24 bits
};

struct Drep {
  std::uint32_t local_id = 0;
  std::uint32_t remote_id = 0;
};

// Asks for the datagram QP of a service.
struct SidrReq {
  std::uint32_t request_id = 0;
  std::uint16_t pkey = 0;
  std::uint64_t service_id = 0;
  PrivateData<kSidrReqPrivateBytes> private_data{};
};

// Statuses that this manager gives. A peer may give any other number.
enum class SidrStatus : std::uint8_t { kValid = 0, kUnsupported = 1, kRejected = 2, kNoQp = 3 };

struct SidrRep {
  std::uint32_t request_id = 0;
  std::uint8_t status = 0;
  std::uint32_t qpn = 0;  // 24 bits
  std::uint64_t service_id = 0;
  std::uint32_t qkey = 0;
  PrivateData<kSidrRepPrivateBytes> private_data{};
};

using Body = std::variant<Req, Mra, Rej, Rep, Rtu, Dreq, Drep, SidrReq, SidrRep>;

struct Message {
  std::uint64_t transaction = 0;
  Body body;
};

// Nothing if the bytes are no whole MAD of the connection manager, or one of a message that is not above.
std::optional<Message> parse(std::span<const std::byte> mad);
Mad build(const Message& message);

// The private data of a REQ or SIDR_REQ for a service of an IP address begins with this header.
inline constexpr std::size_t kIpHeaderBytes = 36;
inline constexpr std::size_t kUserReqBytes = kReqPrivateBytes - kIpHeaderBytes;
inline constexpr std::size_t kUserSidrReqBytes = kSidrReqPrivateBytes - kIpHeaderBytes;

// Who connects to whom. Both addresses have the form of a GID; IPv4 is ::ffff:a.b.c.d.
struct IpHeader {
  std::uint16_t source_port = 0;
  Gid source{};
  Gid destination{};
};

// `data` has room for the header. Nothing: another version, or neither IPv4 nor IPv6.
std::optional<IpHeader> parse_ip_header(std::span<const std::byte> data);
void put_ip_header(const IpHeader& header, std::span<std::byte> data);

// The ports of connections and those of datagrams have numbers of their own, as with IP.
enum class PortSpace : std::uint16_t { kTcp = 0x0106, kUdp = 0x0111 };

// The service id of a port of an IP address, and back. Nothing: another kind of service.
std::uint64_t service_of_port(PortSpace space, std::uint16_t port);
std::optional<std::uint16_t> port_of_service(PortSpace space, std::uint64_t service_id);

}  // namespace pvrdma::cm
