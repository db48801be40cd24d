#include "api/host_reads.h"

#include <cerrno>
#include <fmt/core.h>
#include <string_view>

#include "api/answers.h"
#include "schema/reader.h"

namespace pvrdma::api {
namespace {

constexpr int kDepthMax = 64;
constexpr std::size_t kRefusalBytesMax = 64u << 10;

// True if `text` is JSON that a client can read without deep recursion.
bool is_flat_json(std::string_view text) {
  bool is_flat = true;
  const auto look = [&is_flat](int depth, schema::ParsedJson::parse_event_t, schema::ParsedJson&) {
    is_flat = is_flat && depth <= kDepthMax;
    return false;  // nothing is kept
  };
  if (!schema::ParsedJson::accept(text)) return false;
  [[maybe_unused]] const auto nothing = schema::ParsedJson::parse(text, look, /*allow_exceptions=*/false);
  return is_flat;
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
  if (answer.status < 400 || text.size() > kRefusalBytesMax) return invalid_answer(host);
  const std::string why = error_from(text).error;
  if (why.empty()) return invalid_answer(host);
  return refuse(static_cast<int>(answer.status), fmt::format("host {}: {}", host, why));
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

// A place among the reads that run at once.
class HostReads::Turn {
 public:
  Turn(HostReads& reads, const std::string& host) : reads_(reads), host_(host) {
    const std::lock_guard lock(reads_.mutex_);
    std::size_t& of_host = reads_.running_[host_];
    has_place_ = of_host < kOfHostMax && reads_.running_count_ < kAtOnceMax;
    if (has_place_) {
      ++of_host;
      ++reads_.running_count_;
    } else if (of_host == 0) {
      reads_.running_.erase(host_);
    }
  }
  ~Turn() {
    if (!has_place_) return;
    const std::lock_guard lock(reads_.mutex_);
    --reads_.running_count_;
    if (--reads_.running_.at(host_) == 0) reads_.running_.erase(host_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool has_place() const { return has_place_; }

 private:
  HostReads& reads_;
  const std::string& host_;
  bool has_place_ = false;
};

Reply HostReads::read(const std::string& host, const ReadWish& wish) {
  if (proof_ == HostProof::kNone) return refuse(needs_certificates(host));
  const Turn turn(*this, host);
  if (!turn.has_place()) {
    return refuse(ErrorKind::kUnavailable,
                  fmt::format("host {} is not asked, because too many reads of other hosts wait for their "
                              "answers, at most {} of one host and {} of all: try again in a moment",
                              host, kOfHostMax, kAtOnceMax));
  }
  auto reply = ask(host, wish);
  return reply ? *std::move(reply) : refuse(reply.error());
}

Result<Reply> HostReads::ask(const std::string& host, const ReadWish& wish) {
  const Instant until = Instant::now() + patience_;
  const auto call = call_host_(host);
  if (!call) return Failure(call.error());
  calls::Conversation& there = **call;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return fail(ErrorKind::kUnavailable, ECANCELED, "this pvrdmad stops");
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
  if (!said) return Failure(said.error());
  return reply_of(host, *said);
}

Result<calls::Said> HostReads::converse(calls::Conversation& there, const std::string& host,
                                        const ReadWish& wish, Instant until) {
  there.allow_bytes(kRelayedBytesMax);
  if (auto asked = there.say(kReadWord, wish); !asked)
    return Failure(std::move(asked).error().as(ErrorKind::kUnavailable));
  auto said = there.expect(kReadAnswerWord, until);
  if (said) return said;
  Error why = std::move(said).error();
  if (why.code == ETIMEDOUT) {
    why.message = fmt::format("host {} did not answer within {} s", host,
                              std::chrono::duration_cast<std::chrono::seconds>(patience_).count());
  } else if (why.code == EPIPE) {
    why.message +=
        ": its pvrdmad is an older one that answers no reads of other hosts, stops, or answers "
        "too many calls";
  } else if (why.code == ECANCELED && why.kind == ErrorKind::kConflict) {
    why.message.insert(0, fmt::format("host {} refuses: ", host));
  } else {
    why.kind = ErrorKind::kUnavailable;
  }
  return Failure(std::move(why));
}

void HostReads::interrupt() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  for (calls::Conversation* const there : conversations_) there->interrupt();
}

}  // namespace pvrdma::api
