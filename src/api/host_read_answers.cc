#include "api/host_read_answers.h"

#include <exception>
#include <fmt/core.h>
#include <span>
#include <string>

#include "api/relay_routes.h"
#include "base/log.h"

namespace pvrdma::api {
void HostReadAnswers::answer(calls::IncomingCall& call, const calls::Said& first) {
  const auto refuse_call = [&call](const std::string& why) { static_cast<void>(call.there().refuse(why)); };
  if (proof_ == HostProof::kNone)
    return refuse_call("hosts prove nothing to it, because it has no certificates in [tcp]");
  const Places::Place place(places_, call.peer(), call.stop());
  if (!place.is_taken()) {
    static_cast<void>(call.there().end(
        fmt::format("it answers too many reads already, at most {} of one host and {} of all, and {} more "
                    "wait: try again in a moment",
                    kOfHostMax, kAtOnceMax, kWaitingMax)));
    return;
  }
  ReadWish wish;
  if (const auto read = first.read("the read", wish); !read) return refuse_call(read.error().message);
  if (wish.path.size() > kPathBytesMax || !is_relayed(wish.path))
    return refuse_call("it does not answer this read for other hosts");
  const Reply reply = reply_to(call.peer(), wish);
  if (reply.text.size() > kRelayedBytesMax) {
    return refuse_call(
        fmt::format("the answer has {} bytes, and at most {} are relayed: ask for less, or ask "
                    "the pvrdmad of that host itself",
                    reply.text.size(), kRelayedBytesMax));
  }
  ++counters_->served;
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
