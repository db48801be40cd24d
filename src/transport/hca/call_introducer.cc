#include "transport/hca/call_introducer.h"

#include <cerrno>
#include <fmt/core.h>
#include <limits>
#include <utility>

#include "base/hex.h"

namespace pvrdma::transport::hca {
namespace {

using calls::Json;

constexpr const char* kPipeAnswer = "pipe-answer";

std::optional<verbs::Gid> gid_of(const Json& text) {
  verbs::Gid gid;
  if (!text.is_string() || !from_hex(text.get_ref<const std::string&>(), gid.bytes)) return std::nullopt;
  return gid;
}
std::string to_text(const verbs::Gid& gid) {
  return to_hex(gid.bytes);
}

Result<PipeEndpoint> end_of(const Json& said) {
  PipeEndpoint end;
  for (const auto& [member, value] : {std::pair("qpn", &end.qpn), std::pair("psn", &end.psn),
                                      std::pair("mtu", &end.mtu), std::pair("slots", &end.slots)}) {
    const auto found = said.find(member);
    if (found == said.end() || !found->is_number_unsigned() ||
        found->get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max())
      return fail(EPROTO, fmt::format("it has no {}", member));
    *value = found->get<std::uint32_t>();
  }
  // A daemon that does not know bulk QPs omits this member.
  if (const auto reads = said.find("reads"); reads != said.end()) {
    if (!reads->is_number_unsigned() || reads->get<std::uint64_t>() > kReadsMax)
      return fail(EPROTO, "its reads are no number, or too many");
    end.reads = reads->get<std::uint32_t>();
  }
  if (const auto lends = said.find("lends_answers"); lends != said.end()) {
    if (!lends->is_boolean()) return fail(EPROTO, "whether it lends answers is neither true nor false");
    end.lends_answers = lends->get<bool>();
  }
  return end;
}

Json to_json(const PipeEndpoint& end, const char* say) {
  return {{"say", say},
          {"qpn", end.qpn},
          {"psn", end.psn},
          {"mtu", end.mtu},
          {"slots", end.slots},
          {"reads", end.reads},
          {"lends_answers", end.lends_answers}};
}

}  // namespace

Result<PipeOffer> pipe_offer_of(const Json& said) {
  const auto end = end_of(said);
  if (!end) return Failure(end.error());
  PipeOffer offer{.end = *end, .gids = {}};
  const auto gids = said.find("gids");
  if (gids == said.end() || !gids->is_array() || gids->size() > kGidsMax)
    return fail(EPROTO, "it has no gids, or too many");
  for (const Json& each : *gids) {
    const auto gid = gid_of(each);
    if (!gid) return fail(EPROTO, "one of its gids is none");
    offer.gids.push_back(*gid);
  }
  return offer;
}

Json to_json(const PipeOffer& offer) {
  Json said = to_json(offer.end, kPipeOffer);
  Json& gids = said["gids"] = Json::array();
  for (const verbs::Gid& gid : offer.gids) gids.push_back(to_text(gid));
  return said;
}

Result<PipeAnswer> pipe_answer_of(const Json& said) {
  const auto end = end_of(said);
  if (!end) return Failure(end.error());
  const auto dialler = said.find("dialler");
  const auto acceptor = said.find("acceptor");
  const auto near = dialler == said.end() ? std::nullopt : gid_of(*dialler);
  const auto far = acceptor == said.end() ? std::nullopt : gid_of(*acceptor);
  if (!near || !far) return fail(EPROTO, "it does not say which GIDs speak to each other");
  return PipeAnswer{.end = *end, .dialler = *near, .acceptor = *far};
}

Json to_json(const PipeAnswer& answer) {
  Json said = to_json(answer.end, kPipeAnswer);
  said["dialler"] = to_text(answer.dialler);
  said["acceptor"] = to_text(answer.acceptor);
  return said;
}

void answer_pipe_offer(Hca& hca, calls::IncomingCall& call, const calls::Said& first) {
  const auto offer = pipe_offer_of(first.text);
  const auto answer = offer ? hca.answer(call.peer(), *offer) : Failure(offer.error());
  static_cast<void>(call.there().say(answer ? to_json(*answer) : calls::refusal(answer.error().message)));
}

bool CallIntroducer::set_conversation(calls::Conversation* there) {
  const std::lock_guard lock(mutex_);
  there_ = there;
  return !stopping_;
}

void CallIntroducer::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  if (there_ != nullptr) there_->interrupt();
}

Result<PipeAnswer> CallIntroducer::introduce(const std::string& host, const PipeOffer& offer) {
  const auto stopped = [] { return fail(ECANCELED, "the daemon stops"); };
  if (!set_conversation(nullptr)) return stopped();
  const auto call = calls_.call(host);
  if (!call) return Failure(call.error());
  calls::Conversation& there = **call;
  if (!set_conversation(&there)) {
    set_conversation(nullptr);
    return stopped();
  }
  const auto asked = there.say(to_json(offer));
  const auto said = asked ? there.expect(kPipeAnswer, Instant::now() + kPatience) : Failure(asked.error());
  set_conversation(nullptr);
  if (!said) return Failure(said.error());
  return pipe_answer_of(said->text);
}

}  // namespace pvrdma::transport::hca
