// Conversation: messages between the daemons of two hosts. Each message is a text, which is a JSON object
// with a member "say". Bytes may follow it.
//
//     length of the text u32 | length of the bytes u32 | text | bytes      little endian
//
// The other host is not trusted: lengths are limited, and memory is allocated only as bytes arrive. After an
// error nothing more is received.
//
// Thread: one at a time, which may block; interrupt() any.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_channel.h"
#include "base/result.h"
#include "base/time.h"

namespace pvrdma::calls {

using Json = nlohmann::json;

// The time limit for the first message of a call, and for the answer to it.
inline constexpr Duration kFirstWordPatience = std::chrono::seconds(5);

struct Said {
  Json text;  // an object with a text "say"
  std::vector<std::byte> bytes;
  bool is(const char* what) const { return text.at("say") == what; }
};

class Conversation {
 public:
  static constexpr std::size_t kTextBytesMax = 64u << 10;
  static constexpr std::size_t kBytesMax = 64u << 20;
  static constexpr Duration kSendPatience = std::chrono::seconds(10);

  // The time limit for an answer that only the other daemon and its QEMU's monitor are needed for.
  static constexpr Duration kAnswerPatience = std::chrono::seconds(20);

  // `host` is the other host's name, for error messages.
  Conversation(std::unique_ptr<ByteChannel> channel, std::string host)
      : channel_(std::move(channel)), host_(std::move(host)) {}

  // Errors: those of the channel; E2BIG.
  Result<void> say(const Json& text, std::span<const std::byte> bytes = {});
  // Nothing: no message came before `until`. Errors: those of the channel; EPIPE: the other host has ended
  // the connection; EPROTO.
  Result<std::optional<Said>> listen(Instant until);
  // The next message, which must be `what`. Further errors: ETIMEDOUT (kUnavailable); ECANCELED: the other
  // host refuses or gives up, with its own text.
  Result<Said> expect(const char* what, Instant until);
  void interrupt() { channel_->interrupt(); }
  // From now on messages may have up to kBytesMax bytes. Before this call a message with bytes is an error.
  void allow_bytes() { bytes_max_ = kBytesMax; }
  // The error for a message that was not expected.
  Failure given_up(const Said& said) const;
  // Gives the channel away. Returns null if bytes were received after the last message. Call it once, and
  // nothing else after it.
  std::unique_ptr<ByteChannel> give_channel();

 private:
  Result<std::optional<Said>> take();

  std::unique_ptr<ByteChannel> channel_;
  const std::string host_;
  std::size_t bytes_max_ = 0;  // limit for received messages
  std::vector<std::byte> received_;
};

// "say": "refused", with `why`.
Json refusal(const std::string& why);
// "say": "over", with `why`.
Json over(const std::string& why);
// The text of the member `member`. Nothing if it does not exist or is not a text.
std::optional<std::string> text_of(const Json& object, const char* member);

}  // namespace pvrdma::calls
