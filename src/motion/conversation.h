// Conversation: what the daemons of two hosts say to each other while a VM goes from one to the other. Each
// message is a text, a JSON object with a member "say", and may have bytes behind it.
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
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_channel.h"
#include "base/result.h"
#include "base/time.h"
#include "motion/standing_side.h"
#include "vmm/monitor.h"
#include "vmm/pci.h"

namespace pvrdma::motion {

// Until the first word of who calls, and the answer to it.
inline constexpr Duration kFirstWordPatience = std::chrono::seconds(5);

struct Said {
  vmm::Json text;  // an object with a text "say"
  std::vector<std::byte> bytes;
  bool is(const char* what) const { return text.at("say") == what; }
};

class Conversation {
 public:
  static constexpr std::size_t kTextBytesMax = 64u << 10;
  static constexpr std::size_t kBytesMax = StandingSide::kStateBytesMax;
  static constexpr Duration kSendPatience = std::chrono::seconds(10);

  // Until an answer that needs nothing but the other daemon and its QEMU's monitor.
  static constexpr Duration kAnswerPatience = std::chrono::seconds(20);

  // `host`: who is there, for sentences.
  Conversation(std::unique_ptr<ByteChannel> channel, std::string host)
      : channel_(std::move(channel)), host_(std::move(host)) {}

  // Errors: the channel's; E2BIG.
  Result<void> say(const vmm::Json& text, std::span<const std::byte> bytes = {});
  // Nothing: `until` came first. Errors: the channel's; EPIPE: the other one has ended it; EPROTO.
  Result<std::optional<Said>> listen(Instant until);
  // What is to come next. Errors, besides: ETIMEDOUT; ECANCELED: the other one refuses, in its own words.
  Result<Said> expect(const char* what, Instant until);
  void interrupt() { channel_->interrupt(); }
  // From now on messages may have bytes, kBytesMax at most. Before, one that has some is none.
  void allow_bytes() { bytes_max_ = kBytesMax; }
  // The other one has said something where it was to wait: what that means.
  Failure given_up(const Said& said) const;
  // What comes from now on is no message. Once, and nothing else after it. Null: something came already.
  std::unique_ptr<ByteChannel> give_channel();

 private:
  Result<std::optional<Said>> take();

  std::unique_ptr<ByteChannel> channel_;
  const std::string host_;
  std::size_t bytes_max_ = 0;  // of what is heard
  std::vector<std::byte> received_;
};

// "say": "accepted"; that the saved adapter may be sent beforehand, to be tried, is said with it.
vmm::Json acceptance();
// "say": "refused", with a sentence.
vmm::Json refusal(const std::string& why);
// "say": "over", with a sentence.
vmm::Json over(const std::string& why);
// The member "why" of what was said, as far as it is fit for a line of a log.
std::string why_of(const Said& said);

vmm::Json to_json(const vmm::PciImage& image);
// Errors: EPROTO.
Result<vmm::PciImage> pci_image_of(const vmm::Json& json);

}  // namespace pvrdma::motion
