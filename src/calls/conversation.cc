#include "calls/conversation.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>

#include "schema/reader.h"

namespace pvrdma::calls {
namespace {

using schema::ParsedJson;

struct MessageWord {
  std::string say;
};

}  // namespace
}  // namespace pvrdma::calls

namespace pvrdma::schema {

template <>
inline constexpr auto kObject<calls::MessageWord> = record("MessageWord",
                                                           field("say", &calls::MessageWord::say).required());

}  // namespace pvrdma::schema

namespace pvrdma::calls {
namespace {

constexpr std::size_t kHeadBytes = 8;
constexpr std::size_t kReadBytes = 256u << 10;
constexpr int kDepthMax = 64;

void put(std::vector<std::byte>& out, std::size_t number) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<std::byte>(number >> shift & 0xff));
}

std::size_t number_at(std::span<const std::byte> bytes, std::size_t at) {
  std::size_t number = 0;
  for (int i = 3; i >= 0; --i)
    number = number << 8 | std::to_integer<std::size_t>(bytes[at + static_cast<std::size_t>(i)]);
  return number;
}

// Makes a text from another host fit for a line of a log.
std::string printable(std::string text) {
  text.resize(std::min<std::size_t>(text.size(), 500));
  for (char& letter : text) {
    if (letter < ' ' || letter > '~') letter = '?';
  }
  return text;
}

std::string why_of(const Said& said) {
  Reason reason;
  return said.read("the message", reason) ? printable(std::move(reason).why) : "without a reason";
}

// `json` in the order of its names, without the members that are null. An older daemon may only look whether
// a member is there.
ParsedJson without_nulls(const ParsedJson& json) {
  if (!json.is_object()) return json;
  ParsedJson object = ParsedJson::object();
  for (const auto& [name, value] : json.items()) {
    if (!value.is_null()) object[name] = without_nulls(value);
  }
  return object;
}

}  // namespace

Result<void> Said::outcome_of(const schema::Reader& reader, std::string_view name) {
  if (!reader.failed()) return {};
  const schema::Mistake& mistake = *reader.mistake();
  return fail(EPROTO, mistake.kind == schema::Mistake::Kind::kMissing
                          ? fmt::format("{} lacks \"{}\"", name, mistake.member)
                          : fmt::format("{}'s \"{}\" is not {}", name, mistake.member, mistake.wants));
}

Result<void> Conversation::say(std::string_view word, std::span<const std::byte> bytes) {
  return say_members(word, schema::Json::object(), bytes);
}

Result<void> Conversation::refuse(const std::string& why) {
  return say("refused", Reason{why});
}

Result<void> Conversation::end(const std::string& why) {
  return say("over", Reason{why});
}

Result<void> Conversation::say_members(std::string_view word, const schema::Json& members,
                                       std::span<const std::byte> bytes) {
  ParsedJson text = without_nulls(members);
  text["say"] = word;
  return say_text(text, bytes);
}

Result<void> Conversation::say_text(const ParsedJson& text, std::span<const std::byte> bytes) {
  const std::string line = text.dump(-1, ' ', false, ParsedJson::error_handler_t::replace);
  if (line.size() > kTextBytesMax || bytes.size() > kBytesMax)
    return fail(E2BIG, fmt::format("a message of {} bytes of text and {} other bytes is too long",
                                   line.size(), bytes.size()));
  std::vector<std::byte> out;
  out.reserve(kHeadBytes + line.size() + bytes.size());
  put(out, line.size());
  put(out, bytes.size());
  const auto letters = std::as_bytes(std::span(line));
  out.insert(out.end(), letters.begin(), letters.end());
  out.insert(out.end(), bytes.begin(), bytes.end());
  return channel_->send(out, Instant::now() + kSendPatience);
}

Result<std::optional<Said>> Conversation::listen(Instant until) {
  return hear(until, Limit::kSilence);
}

Result<std::optional<Said>> Conversation::hear(Instant until, Limit limit) {
  while (true) {
    auto said = take();
    if (!said || *said) return said;
    if (limit == Limit::kAll && Instant::now() >= until) return std::nullopt;
    chunk_.resize(kReadBytes);
    const auto got = channel_->receive(chunk_, until);
    if (!got && got.error().code == ETIMEDOUT) return std::nullopt;
    if (!got) return Failure(got.error());
    if (*got == 0)
      return fail(ErrorKind::kUnavailable, EPIPE, fmt::format("host {} ended the connection", host_));
    received_.insert(received_.end(), chunk_.begin(), chunk_.begin() + static_cast<std::ptrdiff_t>(*got));
  }
}

// Nothing: the message is not complete yet.
Result<std::optional<Said>> Conversation::take() {
  if (received_.size() < kHeadBytes) return std::nullopt;
  const std::size_t text_bytes = number_at(received_, 0);
  const std::size_t more_bytes = number_at(received_, 4);
  if (text_bytes > kTextBytesMax || more_bytes > bytes_max_)
    return fail(EPROTO,
                fmt::format("host {} sends a message that is too long: {} bytes of text and {} other bytes",
                            host_, text_bytes, more_bytes));
  const std::size_t all = kHeadBytes + text_bytes + more_bytes;
  if (received_.size() < all) return std::nullopt;
  auto text = schema::parse_object({reinterpret_cast<const char*>(received_.data()) + kHeadBytes, text_bytes},
                                   kDepthMax);
  Said said;
  if (text) said.text = *std::move(text);
  MessageWord word;
  if (!text || !said.read("the message", word))
    return fail(EPROTO, fmt::format("host {} sends an invalid message", host_));
  said.word = std::move(word).say;
  const auto begin = received_.begin() + static_cast<std::ptrdiff_t>(kHeadBytes + text_bytes);
  said.bytes.assign(begin, received_.begin() + static_cast<std::ptrdiff_t>(all));
  received_.erase(received_.begin(), received_.begin() + static_cast<std::ptrdiff_t>(all));
  return said;
}

Result<Said> Conversation::expect(const char* what, Instant until, Limit limit) {
  auto said = hear(until, limit);
  if (!said) return Failure(std::move(said).error());
  if (!*said)
    return fail(ErrorKind::kUnavailable, ETIMEDOUT,
                fmt::format("host {} does not say \"{}\" in time", host_, what));
  if ((*said)->is(what)) return **std::move(said);
  return given_up(**said);
}

Failure Conversation::given_up(const Said& said) const {
  if (said.is("refused")) return fail(ErrorKind::kConflict, ECANCELED, why_of(said));
  if (said.is("over"))
    return fail(ErrorKind::kUnavailable, ECANCELED, fmt::format("host {} gives up: {}", host_, why_of(said)));
  return fail(EPROTO,
              fmt::format("host {} says \"{}\", which was not expected", host_, printable(said.word)));
}

std::unique_ptr<ByteChannel> Conversation::give_channel() {
  return received_.empty() ? std::move(channel_) : nullptr;
}

}  // namespace pvrdma::calls
