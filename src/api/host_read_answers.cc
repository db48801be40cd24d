#include "api/host_read_answers.h"

#include <exception>
#include <fmt/core.h>
#include <span>
#include <string>

#include "api/relay_routes.h"
#include "base/log.h"

namespace pvrdma::api {
namespace {

// One of the few answers at the same time.
class Place {
 public:
  explicit Place(std::atomic<int>& count) : count_(count), is_free_(count_.fetch_add(1) < kMost) {}
  ~Place() { count_.fetch_sub(1); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  bool is_free() const { return is_free_; }

 private:
  static constexpr int kMost = HostReadAnswers::kAtOnceMax;
  std::atomic<int>& count_;
  const bool is_free_;
};

}  // namespace

void HostReadAnswers::answer(calls::IncomingCall& call, const calls::Said& first) {
  const auto refuse_call = [&call](const std::string& why) { static_cast<void>(call.there().refuse(why)); };
  if (proof_ == HostProof::kNone)
    return refuse_call("hosts prove nothing to it, because it has no certificates in [tcp]");
  const Place place(running_);
  if (!place.is_free()) {
    static_cast<void>(
        call.there().end(fmt::format("it answers {} reads of other hosts already", kAtOnceMax)));
    return;
  }
  ReadWish wish;
  if (const auto read = first.read("the read", wish); !read) return refuse_call(read.error().message);
  if (!is_relayed(wish.path)) return refuse_call("it does not answer this read for other hosts");
  const Reply reply = reply_to(call.peer(), wish);
  if (reply.text.size() > kRelayedBytesMax) {
    return refuse_call(
        fmt::format("the answer has {} bytes, and at most {} are relayed: ask for less, or ask "
                    "the pvrdmad of that host itself",
                    reply.text.size(), kRelayedBytesMax));
  }
  static_cast<void>(call.there().say(kReadAnswerWord,
                                     ReadAnswer{.status = static_cast<std::uint32_t>(reply.status)},
                                     std::as_bytes(std::span(reply.text))));
}

Reply HostReadAnswers::reply_to(const std::string& peer, const ReadWish& wish) const {
  try {
    return router_->answer({.role = Role::kReadOnly,
                            .client = "host " + peer,
                            .method = "GET",
                            .path = wish.path,
                            .query = {wish.query.begin(), wish.query.end()},
                            .body = {},
                            .names = {}});
  } catch (const std::exception& problem) {
    log::error("API: a read of host {} made it fail: {}", peer, problem.what());
    return refuse(ErrorKind::kInternal, "the request made the API fail: see the daemon's log");
  }
}

}  // namespace pvrdma::api
