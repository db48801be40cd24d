#include "api/host_reads.h"

#include <cerrno>
#include <fmt/core.h>
#include <string_view>

#include "api/answers.h"
#include "base/clean_text.h"
#include "schema/reader.h"

namespace pvrdma::api {
namespace {

constexpr int kDepthMax = 64;
constexpr std::size_t kRefusalBytesMax = 64u << 10;
constexpr std::size_t kSentenceBytesMax = 500;

// Follows JSON without keeping any of it, and stops where it is too deep for a client to read by recursion.
class Depth final : public nlohmann::json_sax<schema::ParsedJson> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t) override { return ++depth_ <= kDepthMax; }
  bool start_array(std::size_t) override { return ++depth_ <= kDepthMax; }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  int depth_ = 0;
};

// True if `text` is JSON that a client can read without deep recursion. The parser itself keeps a bit for
// each level that is open.
bool is_flat_json(std::string_view text) {
  Depth depth;
  return schema::ParsedJson::sax_parse(text, &depth);
}

// Those that an API gives to a GET. Others mean something to the asking daemon's own client: 401 is a login.
bool is_refusal(std::uint32_t status) {
  return status == 400 || status == 404 || status == 409 || status == 500 || status == 503;
}

Failure invalid_answer(const std::string& host) {
  return fail(ErrorKind::kUnavailable, EPROTO, fmt::format("host {} sends an invalid answer", host));
}

Result<Reply> reply_of(const std::string& host, const calls::Said& said) {
  ReadAnswer answer;
  if (!said.read("the answer", answer)) return invalid_answer(host);
  std::string text(reinterpret_cast<const char*>(said.bytes.data()), said.bytes.size());
  if (answer.status == 200) {
    if (!is_flat_json(text)) return invalid_answer(host);
    return Reply{.text = std::move(text)};
  }
  if (!is_refusal(answer.status) || text.size() > kRefusalBytesMax) return invalid_answer(host);
  const std::string why = error_from(text).error;
  if (why.empty()) return invalid_answer(host);
  return refuse(static_cast<int>(answer.status),
                fmt::format("host {}: {}", host, clean_text(why.substr(0, kSentenceBytesMax))));
}

Error stops() {
  return {.code = ECANCELED, .message = "this pvrdmad stops", .kind = ErrorKind::kUnavailable};
}

Error no_place(const std::string& host) {
  constexpr auto kPatience = std::chrono::duration_cast<std::chrono::seconds>(HostReads::kPlacePatience);
  return {
      .code = EBUSY,
      .message = fmt::format("host {} is not asked, because too many reads of other hosts wait: at most "
                             "{} of one host and {} of all for their answers, and {} for up to {} s until "
                             "one of these ends; try again in a moment, or ask the pvrdmad of {} itself",
                             host, HostReads::kOfHostMax, HostReads::kAtOnceMax, HostReads::kWaitingMax,
                             kPatience.count(), host),
      .kind = ErrorKind::kUnavailable};
}

Error needs_certificates(const std::string& host) {
  return {.code = EACCES,
          .message = fmt::format("host {} is not asked, because hosts do not prove to each other who they "
                                 "are: give each host certificates in [tcp], see docs/cluster/setup.md, or "
                                 "ask the pvrdmad of {} itself",
                                 host, host),
          .kind = ErrorKind::kConflict};
}

}  // namespace

Reply HostReads::read(const std::string& host, const ReadWish& wish) {
  if (proof_ == HostProof::kNone) {
    ++counters_->refused;
    return refuse(needs_certificates(host));
  }
  const Places::Place place(places_, host, stop_.get_token());
  if (!place.is_taken()) {
    ++counters_->refused;
    return refuse(stop_.stop_requested() ? stops() : no_place(host));
  }
  auto reply = ask(host, wish);
  ++(reply ? counters_->answered : counters_->failed);
  return reply ? *std::move(reply) : refuse(reply.error());
}

Result<Reply> HostReads::ask(const std::string& host, const ReadWish& wish) {
  if (stop_.stop_requested()) return Failure(stops());
  const Instant until = Instant::now() + patience_;
  const auto call = call_host_(host);
  if (!call) return Failure(call.error());
  calls::Conversation& there = **call;
  {
    const std::lock_guard lock(mutex_);
    if (stop_.stop_requested()) return Failure(stops());
    conversations_.insert(&there);
  }
  // Also if the memory for the answer runs out.
  struct Forget {
    ~Forget() {
      const std::lock_guard lock(reads.mutex_);
      reads.conversations_.erase(&there);
    }
    HostReads& reads;
    calls::Conversation& there;
  } forget{*this, there};
  const auto said = converse(there, host, wish, until);
  if (!said) return Failure(stop_.stop_requested() ? stops() : said.error());
  return reply_of(host, *said);
}

Result<calls::Said> HostReads::converse(calls::Conversation& there, const std::string& host,
                                        const ReadWish& wish, Instant until) {
  there.allow_bytes(kRelayedBytesMax);
  if (auto asked = there.say(kReadWord, wish); !asked)
    return Failure(std::move(asked).error().as(ErrorKind::kUnavailable).in("host " + host));
  auto said = there.expect(kReadAnswerWord, until, calls::Conversation::Limit::kAll);
  if (said) return said;
  Error why = std::move(said).error();
  if (why.code == ETIMEDOUT) {
    why.message = fmt::format("host {} did not answer within {} s", host,
                              std::chrono::duration_cast<std::chrono::seconds>(patience_).count());
  } else if (why.code == EPIPE) {
    why.message +=
        ": its log says why if too many calls came at once; an older pvrdmad answers no reads of other hosts";
  } else if (why.code == ECANCELED && why.kind == ErrorKind::kConflict) {
    why.message.insert(0, fmt::format("host {} refuses: ", host));
  } else {
    const std::string named = "host " + host;
    const bool is_named = why.message.starts_with(named + " ");
    why.kind = ErrorKind::kUnavailable;
    if (!is_named) return Failure(std::move(why).in(named));
  }
  return Failure(std::move(why));
}

void HostReads::interrupt() {
  const std::lock_guard lock(mutex_);
  stop_.request_stop();
  for (calls::Conversation* const there : conversations_) there->interrupt();
}

}  // namespace pvrdma::api
