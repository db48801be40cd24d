#include "fuzz/liar.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pvrdma::fuzz {
namespace {

using namespace transport::wire;

constexpr std::uint32_t kBytesMax = 32 * 1024;  // of an invented payload; a victim gets messages in pieces
constexpr std::size_t kHeldMax = 16;

enum class Lie : std::uint8_t {
  kNone,
  kDrop,
  kRepeat,
  kField,    // field@0:1 and its value
  kFields,   // as kField, twice
  kSplit,    // bytes@0:2: size of the first of two pieces
  kHold,     // held back until kRelease
  kRelease,  // this frame, then the held ones
  kBreak,
  kGarble,    // byte@0:1, what@1:1: one byte of the head is changed
  kSequence,  // delta@0:1: the sequence number is too high by delta
  kInvent,    // an invented frame, then this one
  kCount
};

std::uint32_t payload_of(const Body& body) {
  if (const auto* request = std::get_if<verbs::Request>(&body)) return payload_bytes(*request);
  if (const auto* response = std::get_if<verbs::Response>(&body)) return payload_bytes(*response);
  if (const auto* datagram = std::get_if<verbs::Datagram>(&body)) return payload_bytes(*datagram);
  return 0;
}

}  // namespace

void Liar::begin() {
  next_ = 0;
  held_.clear();
}

void Liar::pass(Bytes& in, Bytes& out) {
  std::size_t used = 0;
  while (true) {
    Spoken spoken;
    const std::span<const std::byte> rest(in.data() + used, in.size() - used);
    const Decoded decoded = decode(rest, spoken.frame);
    if (decoded.state == Decoded::State::kNeedMore) break;
    PVRDMA_CHECK(decoded.state == Decoded::State::kComplete, "engines say what can be said");
    const std::size_t size = decoded.head_bytes + decoded.payload_bytes;
    if (rest.size() < size) break;
    const auto payload = rest.subspan(decoded.head_bytes, decoded.payload_bytes);
    spoken.payload.assign(payload.begin(), payload.end());
    used += size;
    const Body& body = spoken.frame.body;
    if (std::holds_alternative<Hello>(body) || std::holds_alternative<Welcome>(body)) {
      say(std::move(spoken), out);  // without a greeting, no other frame is read
    } else {
      lie(std::move(spoken), out);
    }
  }
  in.erase(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(used));
  if (next_ == 0) return;  // not greeted yet
  for (; inventions_ != 0; --inventions_) lie(invented(), out);
}

void Liar::lie(Spoken spoken, Bytes& out) {
  const auto change_one = [this](Body& body) {
    const std::uint8_t field = script().byte();
    if (auto* request = std::get_if<verbs::Request>(&body)) change(*request, field);
    if (auto* response = std::get_if<verbs::Response>(&body)) change(*response, field);
    if (auto* datagram = std::get_if<verbs::Datagram>(&body)) change(*datagram, field);
  };
  switch (static_cast<Lie>(script().byte() % static_cast<std::uint8_t>(Lie::kCount))) {
    case Lie::kCount:
    case Lie::kNone:
      return say(std::move(spoken), out);
    case Lie::kDrop:
      return;
    case Lie::kRepeat:
      say(spoken, out);
      return say(std::move(spoken), out);
    case Lie::kFields:
      change_one(spoken.frame.body);
      [[fallthrough]];
    case Lie::kField:
      change_one(spoken.frame.body);
      return say(std::move(spoken), out);
    case Lie::kSplit:
      return split(spoken, out);
    case Lie::kHold:
      if (held_.size() < kHeldMax) held_.push_back(std::move(spoken));
      return;
    case Lie::kRelease:
      say(std::move(spoken), out);
      for (; !held_.empty(); held_.pop_front()) say(std::move(held_.front()), out);
      return;
    case Lie::kBreak:
      breaks_ = true;
      return say(std::move(spoken), out);
    case Lie::kGarble: {
      const std::size_t start = out.size();
      say(std::move(spoken), out);
      const std::size_t at = start + script().byte();
      if (at < out.size()) out[at] ^= static_cast<std::byte>(script().byte());
      return;
    }
    case Lie::kSequence:
      next_ += script().byte();
      return say(std::move(spoken), out);
    case Lie::kInvent:
      say(invented(), out);
      return say(std::move(spoken), out);
  }
}

// 24 bits, near `value` or arbitrary.
std::uint32_t Liar::near(std::uint32_t value) {
  const std::uint8_t how = script().byte();
  const std::uint32_t out =
      how == 0 ? script().u32() : value + static_cast<std::uint32_t>(static_cast<std::int8_t>(how));
  return out & 0xff'ffff;
}

std::uint32_t Liar::bytes() {
  return script().u16() % kBytesMax;
}

void Liar::change(verbs::Request& request, std::uint8_t field) {
  const Victim& victim = lies_.victim;
  switch (field % 14) {
    case 0:
      request.number = verbs::MessageNumber(near(request.number.value));
      return;
    case 1:
      request.psn = verbs::Psn(near(request.psn.value));
      return;
    case 2:
      request.offset = script().u32();
      return;
    case 3:
      request.bytes = bytes();
      return;
    case 4:
      request.message_bytes = script().u32();
      return;
    case 5: {
      const Victim::Place& place = victim.places[script().byte() % victim.places.size()];
      request.remote_addr =
          place.address + static_cast<std::uint64_t>(std::int64_t{static_cast<std::int16_t>(script().u16())});
      request.rkey = place.rkey;
      return;
    }
    case 6:
      request.rkey = script().u32();
      return;
    case 7:
      request.remote_addr = script().u64();
      return;
    case 8:
      request.op = static_cast<verbs::RequestOp>(script().byte() % 5);
      return;
    case 9:
      request.extra = static_cast<verbs::Extra>(script().byte() % 3);
      request.extra_value = victim.places[script().byte() % victim.places.size()].rkey;
      return;
    case 10:
      request.to.qpn = verbs::Qpn(near(request.to.qpn.value));
      return;
    case 11:
      request.from.qpn = verbs::Qpn(near(request.from.qpn.value));
      return;
    case 12:  // a whole small message, which an engine takes at once
      request.offset = 0;
      request.bytes = request.message_bytes = bytes();
      return;
    default:
      request.compare_add = script().u64();
      return;
  }
}

void Liar::change(verbs::Response& response, std::uint8_t field) {
  switch (field % 9) {
    case 0:
      response.number = verbs::MessageNumber(near(response.number.value));
      return;
    case 1:
      response.syndrome = static_cast<verbs::Syndrome>(script().byte() % 7);
      return;
    case 2:
      response.op = static_cast<verbs::RequestOp>(script().byte() % 5);
      return;
    case 3:
      response.offset = script().u32();
      return;
    case 4:
      response.bytes = bytes();
      return;
    case 5:
      response.rnr_timer = script().byte() % 32;
      return;
    case 6:
      response.atomic_original = script().u64();
      return;
    case 7:
      response.to.qpn = verbs::Qpn(near(response.to.qpn.value));
      return;
    default:
      response.from.qpn = verbs::Qpn(near(response.from.qpn.value));
      return;
  }
}

void Liar::change(verbs::Datagram& datagram, std::uint8_t field) {
  switch (field % 4) {
    case 0:
      datagram.to.qpn = verbs::Qpn(near(datagram.to.qpn.value));
      return;
    case 1:
      datagram.qkey = script().u32();
      return;
    case 2:
      datagram.bytes = bytes() % (kDatagramBytesMax + 1);
      return;
    default:
      datagram.extra = static_cast<verbs::Extra>(script().byte() % 2);
      return;
  }
}

// A frame that the liar's engine has never sent. It has the direction's kind and is for the victim's QP; the
// script decides the rest.
Liar::Spoken Liar::invented() {
  const Victim& victim = lies_.victim;
  Spoken spoken{.frame = {.segment = victim.segment, .body = Body{}}, .payload = {}};
  if (says_ == Says::kResponses) {
    verbs::Response response{.from = victim.liar, .to = victim.victim};
    response.number = verbs::MessageNumber(near(victim.next_number));
    for (int i = 0; i < 3; ++i) change(response, script().byte());
    spoken.frame.body = response;
  } else if (script().byte() % 8 == 0) {
    verbs::Datagram datagram{.from = victim.liar, .to = victim.victim};
    datagram.roce = RoceVersion::kV2;
    for (int i = 0; i < 2; ++i) change(datagram, script().byte());
    spoken.frame.body = datagram;
  } else {
    verbs::Request request{.from = victim.liar, .to = victim.victim};
    request.number = verbs::MessageNumber(near(victim.next_number));
    request.psn = verbs::Psn(request.number.value);
    for (int i = 0; i < 5; ++i) change(request, script().byte());
    spoken.frame.body = request;
  }
  return spoken;
}

// Sends a request that came in one piece as two pieces.
void Liar::split(const Spoken& spoken, Bytes& out) {
  const auto* request = std::get_if<verbs::Request>(&spoken.frame.body);
  if (request == nullptr || request->bytes < 2 || request->is_atomic()) return say(spoken, out);
  const std::uint32_t first = 1 + script().u16() % (request->bytes - 1);
  for (const bool rest : {false, true}) {
    Spoken piece = spoken;
    auto& half = std::get<verbs::Request>(piece.frame.body);
    half.offset += rest ? first : 0;
    half.bytes = rest ? request->bytes - first : first;
    if (rest && !piece.payload.empty()) {
      piece.payload.erase(piece.payload.begin(), piece.payload.begin() + static_cast<std::ptrdiff_t>(first));
    }
    say(std::move(piece), out);
  }
}

// Writes the frame, if it can be encoded, with as many payload bytes as it claims.
void Liar::say(Spoken spoken, Bytes& out) {
  spoken.frame.sequence = next_;
  Head head;
  const auto written = encode(spoken.frame, head);
  if (written.empty()) return;
  ++next_;
  spoken.payload.resize(payload_of(spoken.frame.body), std::byte{0x5a});
  out.insert(out.end(), written.begin(), written.end());
  out.insert(out.end(), spoken.payload.begin(), spoken.payload.end());
}

}  // namespace pvrdma::fuzz
