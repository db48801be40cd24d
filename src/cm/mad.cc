#include "cm/mad.h"

#include <algorithm>

#include "base/mapped_address.h"
#include "base/network_order.h"

namespace pvrdma::cm {
namespace {

constexpr std::uint8_t kBaseVersion = 1;
constexpr std::uint8_t kClass = 7;
constexpr std::uint8_t kClassVersion = 2;
constexpr std::uint8_t kMethodSend = 3;
constexpr std::size_t kHeaderBytes = 24;

enum Attribute : std::uint16_t {
  kReq = 16,
  kMra = 17,
  kRej = 18,
  kRep = 19,
  kRtu = 20,
  kDreq = 21,
  kDrep = 22,
  kSidrReq = 23,
  kSidrRep = 24,
};

// A field of `bits` bits that ends `shift` bits above the end of its byte.
constexpr std::uint8_t field(std::uint8_t byte, unsigned shift, unsigned bits) {
  return static_cast<std::uint8_t>(byte >> shift & ((1U << bits) - 1));
}
constexpr std::uint8_t bits(std::uint8_t value, unsigned shift, unsigned width) {
  return static_cast<std::uint8_t>((value & ((1U << width) - 1)) << shift);
}

// Names are those of the structs; numbers are offsets in the MAD's data, which begins after its header.
void put(NetworkWriter& out, const Req& req) {
  out.put(req.local_id);
  out.zeros(4);
  out.put(req.service_id);  // 8
  out.put(req.ca_guid);
  out.zeros(8);
  out.put24(req.qpn);  // 32
  out.put(req.responder_resources);
  out.zeros(3);
  out.put(req.initiator_depth);  // 39
  out.zeros(3);
  out.put(static_cast<std::uint8_t>(bits(req.remote_timeout, 3, 5) | bits(req.service_type, 1, 2) |
                                    (req.flow_control ? 1 : 0)));  // 43
  out.put24(req.starting_psn);
  out.put(static_cast<std::uint8_t>(bits(req.local_timeout, 3, 5) | bits(req.retry_count, 0, 3)));  // 47
  out.put(req.pkey);
  out.put(static_cast<std::uint8_t>(bits(req.mtu, 4, 4) | bits(req.rnr_retry, 0, 3)));           // 50
  out.put(static_cast<std::uint8_t>(bits(req.max_cm_retries, 4, 4) | (req.srq ? 1U << 3 : 0)));  // 51
  out.zeros(4);                                                                                  // LIDs
  out.put_bytes(req.local_gid.data(), req.local_gid.size());                                     // 56
  out.put_bytes(req.remote_gid.data(), req.remote_gid.size());
  out.zeros(3);  // 88
  out.put(bits(req.packet_rate, 0, 6));
  out.put(req.traffic_class);
  out.put(req.hop_limit);
  out.zeros(1);
  out.put(bits(req.ack_timeout, 3, 5));  // 95
  out.zeros(44);                         // the alternate path
  out.put_bytes(req.private_data.data(), req.private_data.size());
}

Req take_req(NetworkReader& in) {
  Req req;
  req.local_id = in.take<std::uint32_t>();
  in.skip(4);
  req.service_id = in.take<std::uint64_t>();
  req.ca_guid = in.take<std::uint64_t>();
  in.skip(8);
  req.qpn = in.take24();
  req.responder_resources = in.take<std::uint8_t>();
  in.skip(3);
  req.initiator_depth = in.take<std::uint8_t>();
  in.skip(3);
  const auto answer = in.take<std::uint8_t>();
  req.remote_timeout = field(answer, 3, 5);
  req.service_type = field(answer, 1, 2);
  req.flow_control = field(answer, 0, 1) != 0;
  req.starting_psn = in.take24();
  const auto own = in.take<std::uint8_t>();
  req.local_timeout = field(own, 3, 5);
  req.retry_count = field(own, 0, 3);
  req.pkey = in.take<std::uint16_t>();
  const auto path = in.take<std::uint8_t>();
  req.mtu = field(path, 4, 4);
  req.rnr_retry = field(path, 0, 3);
  const auto retries = in.take<std::uint8_t>();
  req.max_cm_retries = field(retries, 4, 4);
  req.srq = field(retries, 3, 1) != 0;
  in.skip(4);
  in.take_bytes(req.local_gid.data(), req.local_gid.size());
  in.take_bytes(req.remote_gid.data(), req.remote_gid.size());
  in.skip(3);
  req.packet_rate = field(in.take<std::uint8_t>(), 0, 6);
  req.traffic_class = in.take<std::uint8_t>();
  req.hop_limit = in.take<std::uint8_t>();
  in.skip(1);
  req.ack_timeout = field(in.take<std::uint8_t>(), 3, 5);
  in.skip(44);
  in.take_bytes(req.private_data.data(), req.private_data.size());
  return req;
}

void put(NetworkWriter& out, const Mra& mra) {
  out.put(mra.local_id);
  out.put(mra.remote_id);
  out.put(bits(static_cast<std::uint8_t>(mra.about), 6, 2));
  out.put(bits(mra.service_timeout, 3, 5));
}

void put(NetworkWriter& out, const Rej& rej) {
  out.put(rej.local_id);
  out.put(rej.remote_id);
  out.put(bits(static_cast<std::uint8_t>(rej.about), 6, 2));
  out.put(bits(rej.ca_guid != 0 ? sizeof(rej.ca_guid) : 0, 1, 7));
  out.put(rej.reason);
  out.put(rej.ca_guid);  // 12: additional information
  out.zeros(64);
  out.put_bytes(rej.private_data.data(), rej.private_data.size());
}

void put(NetworkWriter& out, const Rep& rep) {
  out.put(rep.local_id);
  out.put(rep.remote_id);
  out.zeros(4);
  out.put24(rep.qpn);  // 12
  out.zeros(5);
  out.put24(rep.starting_psn);  // 20
  out.zeros(1);
  out.put(rep.responder_resources);
  out.put(rep.initiator_depth);
  out.put(static_cast<std::uint8_t>(bits(rep.ack_delay, 3, 5) | (rep.flow_control ? 1 : 0)));
  out.put(static_cast<std::uint8_t>(bits(rep.rnr_retry, 5, 3) | (rep.srq ? 1U << 4 : 0)));
  out.put(rep.ca_guid);
  out.put_bytes(rep.private_data.data(), rep.private_data.size());
}

Rep take_rep(NetworkReader& in) {
  Rep rep;
  rep.local_id = in.take<std::uint32_t>();
  rep.remote_id = in.take<std::uint32_t>();
  in.skip(4);
  rep.qpn = in.take24();
  in.skip(5);
  rep.starting_psn = in.take24();
  in.skip(1);
  rep.responder_resources = in.take<std::uint8_t>();
  rep.initiator_depth = in.take<std::uint8_t>();
  const auto delay = in.take<std::uint8_t>();
  rep.ack_delay = field(delay, 3, 5);
  rep.flow_control = field(delay, 0, 1) != 0;
  const auto retry = in.take<std::uint8_t>();
  rep.rnr_retry = field(retry, 5, 3);
  rep.srq = field(retry, 4, 1) != 0;
  rep.ca_guid = in.take<std::uint64_t>();
  in.take_bytes(rep.private_data.data(), rep.private_data.size());
  return rep;
}

void put(NetworkWriter& out, const Rtu& rtu) {
  out.put(rtu.local_id);
  out.put(rtu.remote_id);
}

void put(NetworkWriter& out, const Dreq& dreq) {
  out.put(dreq.local_id);
  out.put(dreq.remote_id);
  out.put24(dreq.remote_qpn);
}

void put(NetworkWriter& out, const Drep& drep) {
  out.put(drep.local_id);
  out.put(drep.remote_id);
}

void put(NetworkWriter& out, const SidrReq& req) {
  out.put(req.request_id);
  out.put(req.pkey);
  out.zeros(2);
  out.put(req.service_id);                                          // 8
  out.put_bytes(req.private_data.data(), req.private_data.size());  // 16
}

SidrReq take_sidr_req(NetworkReader& in) {
  SidrReq req;
  req.request_id = in.take<std::uint32_t>();
  req.pkey = in.take<std::uint16_t>();
  in.skip(2);
  req.service_id = in.take<std::uint64_t>();
  in.take_bytes(req.private_data.data(), req.private_data.size());
  return req;
}

void put(NetworkWriter& out, const SidrRep& rep) {
  out.put(rep.request_id);
  out.put(rep.status);
  out.zeros(3);
  out.put24(rep.qpn);  // 8
  out.zeros(1);
  out.put(rep.service_id);
  out.put(rep.qkey);  // 20
  out.zeros(72);
  out.put_bytes(rep.private_data.data(), rep.private_data.size());  // 96
}

SidrRep take_sidr_rep(NetworkReader& in) {
  SidrRep rep;
  rep.request_id = in.take<std::uint32_t>();
  rep.status = in.take<std::uint8_t>();
  in.skip(3);
  rep.qpn = in.take24();
  in.skip(1);
  rep.service_id = in.take<std::uint64_t>();
  rep.qkey = in.take<std::uint32_t>();
  in.skip(72);
  in.take_bytes(rep.private_data.data(), rep.private_data.size());
  return rep;
}

// The messages that begin with both ids.
template <typename T>
T take_ids(NetworkReader& in) {
  T message;
  message.local_id = in.take<std::uint32_t>();
  message.remote_id = in.take<std::uint32_t>();
  return message;
}

// Nothing: the message names a kind that the standard reserves.
std::optional<About> take_about(NetworkReader& in) {
  const std::uint8_t about = field(in.take<std::uint8_t>(), 6, 2);
  return about <= static_cast<std::uint8_t>(About::kOther) ? std::optional(static_cast<About>(about))
                                                           : std::nullopt;
}

std::optional<Body> take_mra(NetworkReader& in) {
  auto mra = take_ids<Mra>(in);
  const auto about = take_about(in);
  if (!about) return std::nullopt;
  mra.about = *about;
  mra.service_timeout = field(in.take<std::uint8_t>(), 3, 5);
  return mra;
}

std::optional<Body> take_rej(NetworkReader& in) {
  auto rej = take_ids<Rej>(in);
  const auto about = take_about(in);
  if (!about) return std::nullopt;
  rej.about = *about;
  const bool has_guid = field(in.take<std::uint8_t>(), 1, 7) == sizeof(rej.ca_guid);
  rej.reason = in.take<std::uint16_t>();
  const auto guid = in.take<std::uint64_t>();
  rej.ca_guid = has_guid ? guid : 0;
  in.skip(64);
  in.take_bytes(rej.private_data.data(), rej.private_data.size());
  return rej;
}

std::optional<Body> take_body(std::uint16_t attribute, NetworkReader& in) {
  switch (attribute) {
    case kReq:
      return take_req(in);
    case kMra:
      return take_mra(in);
    case kRej:
      return take_rej(in);
    case kRep:
      return take_rep(in);
    case kRtu:
      return take_ids<Rtu>(in);
    case kDreq: {
      auto dreq = take_ids<Dreq>(in);
      dreq.remote_qpn = in.take24();
      return dreq;
    }
    case kDrep:
      return take_ids<Drep>(in);
    case kSidrReq:
      return take_sidr_req(in);
    case kSidrRep:
      return take_sidr_rep(in);
    default:
      return std::nullopt;
  }
}

std::uint16_t attribute_of(const Body& body) {
  return static_cast<std::uint16_t>(kReq + body.index());
}

}  // namespace

std::optional<Message> parse(std::span<const std::byte> mad) {
  if (mad.size() != kMadBytes) return std::nullopt;
  NetworkReader in(mad);
  const bool is_cm = in.take<std::uint8_t>() == kBaseVersion && in.take<std::uint8_t>() == kClass &&
                     in.take<std::uint8_t>() == kClassVersion && in.take<std::uint8_t>() == kMethodSend;
  if (!is_cm) return std::nullopt;
  in.skip(4);
  Message message;
  message.transaction = in.take<std::uint64_t>();
  const auto attribute = in.take<std::uint16_t>();
  in.skip(6);
  auto body = take_body(attribute, in);
  if (!body) return std::nullopt;
  message.body = *body;
  return message;
}

Mad build(const Message& message) {
  static_assert(std::variant_size_v<Body> == kSidrRep - kReq + 1);
  Mad mad{};
  NetworkWriter out(mad);
  out.put(kBaseVersion);
  out.put(kClass);
  out.put(kClassVersion);
  out.put(kMethodSend);
  out.zeros(4);
  out.put(message.transaction);
  out.put(attribute_of(message.body));
  out.zeros(kHeaderBytes - 18);
  std::visit([&](const auto& body) { put(out, body); }, message.body);
  return mad;
}

namespace {

// IPv4 addresses lie in the last 4 of 16 bytes, behind zeros.
Gid take_address(NetworkReader& in, bool v4) {
  Gid gid;
  in.take_bytes(gid.data(), gid.size());
  return v4 ? mapped_ipv4(gid.data() + kMappedPrefix.size()) : gid;
}

void put_address(NetworkWriter& out, const Gid& gid, bool v4) {
  if (v4) {
    out.zeros(kMappedPrefix.size());
    out.put_bytes(gid.data() + kMappedPrefix.size(), gid.size() - kMappedPrefix.size());
  } else {
    out.put_bytes(gid.data(), gid.size());
  }
}

}  // namespace

std::optional<IpHeader> parse_ip_header(std::span<const std::byte> data) {
  NetworkReader in(data);
  if (in.take<std::uint8_t>() != 0) return std::nullopt;
  const std::uint8_t version = field(in.take<std::uint8_t>(), 4, 4);
  if (version != 4 && version != 6) return std::nullopt;
  IpHeader header;
  header.source_port = in.take<std::uint16_t>();
  header.source = take_address(in, version == 4);
  header.destination = take_address(in, version == 4);
  return header;
}

void put_ip_header(const IpHeader& header, std::span<std::byte> data) {
  const bool v4 = is_mapped(header.destination);
  NetworkWriter out(data);
  out.zeros(1);
  out.put(bits(v4 ? 4 : 6, 4, 4));
  out.put(header.source_port);
  put_address(out, header.source, v4);
  put_address(out, header.destination, v4);
}

std::uint64_t service_of_port(PortSpace space, std::uint16_t port) {
  return std::uint64_t{static_cast<std::uint16_t>(space)} << 16 | port;
}

std::optional<std::uint16_t> port_of_service(PortSpace space, std::uint64_t service_id) {
  const auto port = static_cast<std::uint16_t>(service_id);
  return service_of_port(space, port) == service_id ? std::optional(port) : std::nullopt;
}

}  // namespace pvrdma::cm
