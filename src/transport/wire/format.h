// Frames: the messages between hosts on lanes (transport/tcp) and pipes (transport/hca), and the only
// functions that encode and decode them. docs/wire_format.md has the offsets.
//
// A frame is a head (24 bytes common to all, then a body that depends on its kind) and, with requests,
// responses and datagrams, a payload. Integers are in network order. decode() accepts only what encode()
// could have written. It refuses unknown enumerators, reserved bits, values in fields that the kind does not
// use, and lengths that do not agree. So a decoded message can be used like one from a local engine, with two
// exceptions: it may lie about its sender (Inbound checks that), and the lane or pipe must check its sequence
// number.
//
// Thread: pure functions of their arguments; nothing allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "transport/transport.h"
#include "verbs/message.h"

namespace pvrdma::transport::wire {

inline constexpr std::uint16_t kProtocolVersion = 2;
// The version of a Hello that names a shard other than 0. Every other frame has kProtocolVersion.
inline constexpr std::uint16_t kShardHelloVersion = 3;
inline constexpr std::size_t kHeaderBytes = 24;  // until the body
inline constexpr std::size_t kHeadBytesMax = 240;
inline constexpr std::size_t kHostNameBytesMax = 64;
inline constexpr std::size_t kSentenceBytesMax = 200;
inline constexpr std::uint16_t kLanesMax = 16;
// In a Hello instead of a lane number: the connection is a call, not a lane (tcp/call.h). After the Welcome
// there are no more frames, only the callers' own bytes.
inline constexpr std::uint16_t kCallLane = 0xffff;
inline constexpr std::uint32_t kDatagramBytesMax = 4096;  // the longest MTU
inline constexpr std::uint32_t kPayloadBytesMax = verbs::kPieceBytesMax;

// A short text in place, fit for a log: it contains only visible ASCII and spaces. Other bytes become '?',
// and a text that is too long is cut.
template <std::size_t N>
class Text {
 public:
  Text() = default;
  explicit Text(std::string_view text) { append(text); }
  Text(std::string_view text, std::string_view more) : Text(text) { append(more); }
  std::string_view view() const { return {chars_.data(), size_}; }
  friend bool operator==(const Text& a, const Text& b) { return a.view() == b.view(); }

 private:
  void append(std::string_view text) {
    for (const char c : text.substr(0, N - size_)) chars_[size_++] = c >= ' ' && c <= '~' ? c : '?';
  }

  std::array<char, N> chars_{};  // the first size_ count
  std::size_t size_ = 0;
};
using HostName = Text<kHostNameBytesMax>;
using Sentence = Text<kSentenceBytesMax>;

// The dialler makes one at random for each connection. The acceptor's welcome repeats it, so a recorded
// stream does not fit a new connection.
using HelloId = std::array<std::uint8_t, 16>;

// The dialler's first frame.
struct Hello {
  HostName host;  // the dialler's: 1 to 64 of A-Z a-z 0-9 . _ -
  std::uint16_t lane = 0;
  std::uint16_t lanes = 1;  // 1 ... kLanesMax, more than `lane`; 1 with kCallLane
  HelloId id{};
  ShardNumber shard;       // of the acceptor's host, to which the lane shall lead; 0 with kCallLane
  ShardNumber from_shard;  // of the dialler's host, which dials; 0 with kCallLane
  friend bool operator==(const Hello&, const Hello&) = default;
};

// The acceptor's first frame if it lets the dialler in.
struct Welcome {
  HostName host;  // the acceptor's
  HelloId id{};
  friend bool operator==(const Welcome&, const Welcome&) = default;
};

enum class RejectReason : std::uint16_t {
  kWrongVersion = 1,
  kUnknownHost = 2,  // no peer has that name, or the peer has another address
  kNotAllowed = 3,   // the firewall ruleset forbids it
  kWrongName = 4,    // the certificate does not name the host
  kBadHello = 5,
  kNoRoom = 6,  // too many connections
};

// The acceptor's first and only frame if it refuses the dialler. It is the only frame that is accepted from
// any version.
struct Reject {
  RejectReason reason{};
  std::uint16_t version = kProtocolVersion;  // the acceptor's
  Sentence sentence;
  friend bool operator==(const Reject&, const Reject&) = default;
};

// Shows that the connection is alive, and acknowledges frames.
struct Ping {
  std::uint64_t frames_received = 0;  // on this connection, including the handshake's frame
  friend bool operator==(const Ping&, const Ping&) = default;
};

enum class GoodbyeReason : std::uint16_t {
  kStopping = 1,      // the daemon stops
  kReconfigured = 2,  // peers, addresses or the ruleset changed, or nothing needs the lane now
  kReplaced = 3,      // a newer connection has replaced this lane
  kBadFrame = 4,
  kBadSequence = 5,
  kSilent = 6,  // no byte came for too long
};
// Whether one of the two hosts ended the connection on purpose.
inline bool is_in_order(GoodbyeReason reason) {
  return reason == GoodbyeReason::kStopping || reason == GoodbyeReason::kReconfigured ||
         reason == GoodbyeReason::kReplaced;
}

// The last frame of a connection that is closed on purpose.
struct Goodbye {
  GoodbyeReason reason{};
  Sentence sentence;
  friend bool operator==(const Goodbye&, const Goodbye&) = default;
};

// In the order of the wire's kinds, which count from 1.
using Body =
    std::variant<Hello, Welcome, Reject, verbs::Request, verbs::Response, verbs::Datagram, Ping, Goodbye>;

struct Frame {
  std::uint64_t sequence = 0;  // of this direction of this connection; the handshake's frames have 0
  SegmentId segment;           // of requests, responses and datagrams; {} in all other frames
  Body body;
};

// The number of bytes that follow the head.
inline std::uint32_t payload_bytes(const verbs::Request& request) {
  return request.is_read_or_atomic() ? 0 : request.bytes;
}
inline std::uint32_t payload_bytes(const verbs::Response& response) {
  return response.bytes;
}
inline std::uint32_t payload_bytes(const verbs::Datagram& datagram) {
  return datagram.bytes;
}

// What is wrong with a frame.
enum class Defect : std::uint8_t {
  kNone,
  kFrameBytes,  // the length contradicts the kind or the body
  kKind,
  kReservedBits,
  kUnusedField,  // a field that this kind or operation does not use is not 0
  kSequence,     // a handshake's frame is not the first
  kSegment,
  kMagic,
  kVersion,
  kHostName,
  kLane,
  kShard,
  kReason,
  kSentence,
  kQpn,
  kNumber,
  kPsn,
  kOp,
  kExtra,
  kRange,  // bytes beyond the message's end, or more than a piece may have
  kSyndrome,
  kRnrTimer,
  kDatagramBytes,
  kFlowLabel,
  kRoce,
};
inline constexpr std::size_t kDefects = static_cast<std::size_t>(Defect::kRoce) + 1;

// A clause for a log line, in static storage: "its kind is unknown".
std::string_view describe(Defect defect);

// The buffer for a head; the result of encode() points into it.
using Head = std::array<std::byte, kHeadBytesMax>;

// The head of a frame, which the unchanged payload follows. Fields that an operation does not use are sent as
// 0, whatever they hold. Empty: the peer would refuse the frame, which only an engine's impossible message
// can cause; the sender treats the message as lost.
std::span<const std::byte> encode(std::uint64_t sequence, SegmentId segment, const verbs::Request& request,
                                  Head& out);
std::span<const std::byte> encode(std::uint64_t sequence, SegmentId segment, const verbs::Response& response,
                                  Head& out);
std::span<const std::byte> encode(std::uint64_t sequence, SegmentId segment, const verbs::Datagram& datagram,
                                  Head& out);
// The handshake's frames have the sequence 0. Empty: see above; also for an invalid host name or lane.
std::span<const std::byte> encode(const Hello& hello, Head& out);
std::span<const std::byte> encode(const Welcome& welcome, Head& out);
std::span<const std::byte> encode(const Reject& reject, Head& out);
std::span<const std::byte> encode(std::uint64_t sequence, const Ping& ping, Head& out);
std::span<const std::byte> encode(std::uint64_t sequence, const Goodbye& goodbye, Head& out);
// Encodes any kind. Kinds without sequence or segment ignore them.
std::span<const std::byte> encode(const Frame& frame, Head& out);

struct Decoded {
  enum class State : std::uint8_t { kComplete, kNeedMore, kBad };
  State state{};
  Defect defect{};                  // kBad
  std::uint16_t version = 0;        // kBad with Defect::kVersion: the peer's
  std::size_t head_bytes = 0;       // kComplete: size of the head; kNeedMore: the least to go on
  std::uint32_t payload_bytes = 0;  // kComplete: the bytes after the head
};

// Reads the head at the start of `bytes`, which may contain more and is borrowed for the call. `frame` is
// written only with kComplete. Garbage is refused as soon as its first 24 bytes show it.
Decoded decode(std::span<const std::byte> bytes, Frame& frame);

}  // namespace pvrdma::transport::wire
