// Conversation: messages between the daemons of two hosts. Each message is a text, a JSON object with a
// member "say", and may have bytes behind it.
//
//     length of the text u32 | length of the bytes u32 | text | bytes      little endian
//
// The other host is not trusted: lengths have bounds, and memory is taken as bytes come. After an error
// nothing more is heard.
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

// For the first message of a call, and for the answer to it.
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

  // For an answer that needs nothing but the other daemon and its QEMU's monitor.
  static constexpr Duration kAnswerPatience = std::chrono::seconds(20);

  // `host` is the other host's name, for error messages.
  Conversation(std::unique_ptr<ByteChannel> channel, std::string host)
      : channel_(std::move(channel)), host_(std::move(host)) {}

  // Errors: the channel's; E2BIG.
  Result<void> say(const Json& text, std::span<const std::byte> bytes = {});
  // Nothing: `until` came first. Errors: the channel's; EPIPE: the other host has ended it; EPROTO.
  Result<std::optional<Said>> listen(Instant until);
  // The next message, which must be `what`. Errors, besides: ETIMEDOUT; ECANCELED: the other host refuses, in
  // its own words.
  Result<Said> expect(const char* what, Instant until);
  void interrupt() { channel_->interrupt(); }
  // From now on messages may have bytes, kBytesMax at most. Before, a message with bytes is an error.
  void allow_bytes() { bytes_max_ = kBytesMax; }
  // The error for a message that came where none was due.
  Failure given_up(const Said& said) const;
  // The channel, if nothing was received behind the last message; otherwise null. Once, and nothing after it.
  std::unique_ptr<ByteChannel> give_channel();

 private:
  Result<std::optional<Said>> take();

  std::unique_ptr<ByteChannel> channel_;
  const std::string host_;
  std::size_t bytes_max_ = 0;  // of what is heard
  std::vector<std::byte> received_;
};

// "say": "refused", with a sentence.
Json refusal(const std::string& why);
// "say": "over", with a sentence.
Json over(const std::string& why);
// The text of that member. Nothing: it has none.
std::optional<std::string> text_of(const Json& object, const char* member);

}  // namespace pvrdma::calls
