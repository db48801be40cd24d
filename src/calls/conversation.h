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
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_channel.h"
#include "base/result.h"
#include "base/time.h"
#include "schema/rules.h"

namespace pvrdma::calls {

// The time limit for the first message of a call, and for the answer to it.
inline constexpr Duration kFirstWordPatience = std::chrono::seconds(5);

// A message as another host sent it.
struct Said {
  std::string word;         // its "say"
  schema::ParsedJson text;  // an object
  std::vector<std::byte> bytes;

  bool is(std::string_view what) const { return word == what; }
  // Reads the members that kObject<T> lists. Error (EPROTO): a clause that begins with `name`, which says
  // what the message is, and has nothing that the other host wrote.
  template <schema::Described T>
  Result<void> read(std::string_view name, T& into) const {
    schema::Reader reader;
    schema::read(reader, text, into);
    return outcome_of(reader, name);
  }

 private:
  static Result<void> outcome_of(const schema::Reader& reader, std::string_view name);
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

  // Errors, also of the four functions that follow: those of the channel; E2BIG.
  Result<void> say(std::string_view word, std::span<const std::byte> bytes = {});
  // Sends a message with the members that kObject<T> lists, except those whose value is null.
  template <schema::Described T>
  Result<void> say(std::string_view word, const T& members, std::span<const std::byte> bytes = {}) {
    return say_members(word, schema::to_json(members), bytes);
  }
  Result<void> refuse(const std::string& why);  // "refused"
  Result<void> end(const std::string& why);     // "over"
  // Sends any text. Only tests need it.
  Result<void> say_text(const schema::ParsedJson& text, std::span<const std::byte> bytes = {});
  // Nothing: no message came before `until`. Errors: those of the channel; EPIPE (kUnavailable): the other
  // host has ended the connection; EPROTO.
  Result<std::optional<Said>> listen(Instant until);
  // What `until` limits: the silence before the next byte, or all that is received of the message.
  enum class Limit : bool { kSilence, kAll };
  // The next message, which must be `what`. Further errors: ETIMEDOUT (kUnavailable); ECANCELED: the other
  // host refuses (kConflict) or gives up (kUnavailable), with its own text.
  Result<Said> expect(const char* what, Instant until, Limit limit = Limit::kSilence);
  void interrupt() { channel_->interrupt(); }
  // From now on messages may have up to `bytes_max` bytes. Before this call a message with bytes is an error.
  void allow_bytes(std::size_t bytes_max = kBytesMax) { bytes_max_ = bytes_max; }
  // The error for a message that was not expected.
  Failure given_up(const Said& said) const;
  // Gives the channel away. Returns null if bytes were received after the last message. Call it once, and
  // nothing else after it.
  std::unique_ptr<ByteChannel> give_channel();

 private:
  Result<void> say_members(std::string_view word, const schema::Json& members,
                           std::span<const std::byte> bytes);
  Result<std::optional<Said>> hear(Instant until, Limit limit);
  Result<std::optional<Said>> take();

  std::unique_ptr<ByteChannel> channel_;
  const std::string host_;
  std::size_t bytes_max_ = 0;        // limit for received messages
  std::vector<std::byte> chunk_;     // what one call of receive() gives
  std::vector<std::byte> received_;  // not taken yet
};

// Why a message "refused" or "over" was sent: one sentence.
struct Reason {
  std::string why;
};

}  // namespace pvrdma::calls

namespace pvrdma::schema {

template <>
inline constexpr auto kObject<calls::Reason> = record("Reason", field("why", &calls::Reason::why).required());

}  // namespace pvrdma::schema
