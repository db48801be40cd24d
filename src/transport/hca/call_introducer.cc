#include "transport/hca/call_introducer.h"

#include <cerrno>
#include <fmt/core.h>
#include <optional>
#include <utility>

#include "schema/rules.h"
#include "vocabulary/shards.h"

namespace pvrdma::transport::hca {
namespace {

// A daemon that has one Hca omits the shards, and knows of none. So do the first shards of two hosts.
struct PipeOfferMessage : PipeEndpoint {
  std::optional<std::uint16_t> from_shard;
  std::optional<std::uint16_t> shard;
  std::vector<verbs::Gid> gids;
};

struct PipeAnswerMessage : PipeEndpoint {
  verbs::Gid dialler;
  verbs::Gid acceptor;
};

}  // namespace
}  // namespace pvrdma::transport::hca

namespace pvrdma::schema {
namespace {

struct GidRule {
  void read(Reader& reader, const ParsedJson& json, verbs::Gid& out) const {
    HexRule{}.read(reader, json, out.bytes);
  }
  Json write(const verbs::Gid& gid) const { return HexRule{}.write(gid.bytes); }
};

}  // namespace

namespace hca = transport::hca;

// A shard of a host, but not the first.
constexpr NumberRule kOtherShard{1, kShardsWithWardMax - 1};

// A daemon that does not know bulk QPs omits the last two members.
template <>
inline constexpr auto kObject<hca::PipeEndpoint> =
    record("PipeEndpoint", field("qpn", &hca::PipeEndpoint::qpn).required(),
           field("psn", &hca::PipeEndpoint::psn).required(), field("mtu", &hca::PipeEndpoint::mtu).required(),
           field("slots", &hca::PipeEndpoint::slots).required(),
           field("reads", &hca::PipeEndpoint::reads, NumberRule{0, hca::kReadsMax}),
           field("lends_answers", &hca::PipeEndpoint::lends_answers));

template <>
inline constexpr auto kObject<hca::PipeOfferMessage> =
    record("PipeOffer", kObject<hca::PipeEndpoint>,
           field("from_shard", &hca::PipeOfferMessage::from_shard, OptionalRule<NumberRule>{kOtherShard}),
           field("shard", &hca::PipeOfferMessage::shard, OptionalRule<NumberRule>{kOtherShard}),
           field("gids", &hca::PipeOfferMessage::gids, ListRule<GidRule>{{}, hca::kGidsMax}).required());

template <>
inline constexpr auto kObject<hca::PipeAnswerMessage> =
    record("PipeAnswer", kObject<hca::PipeEndpoint>,
           field("dialler", &hca::PipeAnswerMessage::dialler, GidRule{}).required(),
           field("acceptor", &hca::PipeAnswerMessage::acceptor, GidRule{}).required());

}  // namespace pvrdma::schema

namespace pvrdma::transport::hca {

Result<void> say_pipe_offer(calls::Conversation& there, const PipeOffer& offer) {
  const auto number = [](ShardNumber shard) {
    return shard == ShardNumber{} ? std::nullopt : std::optional(shard.value);
  };
  return there.say(kPipeOffer,
                   PipeOfferMessage{offer.end, number(offer.from_shard), number(offer.shard), offer.gids});
}

Result<PipeOffer> read_pipe_offer(const calls::Said& said) {
  PipeOfferMessage message;
  if (auto read = said.read("the offer", message); !read) return Failure(std::move(read).error());
  return PipeOffer{.end = message,
                   .gids = std::move(message.gids),
                   .from_shard = ShardNumber(message.from_shard.value_or(0)),
                   .shard = ShardNumber(message.shard.value_or(0))};
}

Result<void> say_pipe_answer(calls::Conversation& there, const PipeAnswer& answer) {
  return there.say(kPipeAnswer, PipeAnswerMessage{answer.end, answer.dialler, answer.acceptor});
}

Result<PipeAnswer> read_pipe_answer(const calls::Said& said) {
  PipeAnswerMessage message;
  if (auto read = said.read("the answer", message); !read) return Failure(std::move(read).error());
  return PipeAnswer{.end = message, .dialler = message.dialler, .acceptor = message.acceptor};
}

namespace {

Result<PipeAnswer> answer_to(const FindHca& find, const std::string& peer, const calls::Said& first) {
  const auto offer = read_pipe_offer(first);
  if (!offer) return Failure(offer.error());
  Hca* const hca = find(offer->shard);
  if (hca == nullptr)
    return fail(ErrorKind::kNotFound, fmt::format("this host has no shard {}", offer->shard.value));
  return hca->answer(peer, *offer);
}

}  // namespace

void answer_pipe_offer(const FindHca& find, calls::IncomingCall& call, const calls::Said& first) {
  const auto answer = answer_to(find, call.peer(), first);
  static_cast<void>(answer ? say_pipe_answer(call.there(), *answer)
                           : call.there().refuse(answer.error().message));
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

Result<void> CallIntroducer::check(const std::string& host) {
  const auto found = not_before_.find(host);
  if (found == not_before_.end()) return {};
  if (Instant::now() < found->second)
    return fail(EAGAIN,
                fmt::format("host {} took long to answer the last offer: it is asked again soon", host));
  not_before_.erase(found);
  return {};
}

Result<PipeAnswer> CallIntroducer::introduce(const std::string& host, const PipeOffer& offer) {
  const Instant began = Instant::now();
  auto answer = ask(host, offer);
  const Duration took = Instant::now() - began;
  if (took > kShort) not_before_[host] = Instant::now() + kShare * took;
  return answer;
}

Result<PipeAnswer> CallIntroducer::ask(const std::string& host, const PipeOffer& offer) {
  const auto stopped = [] { return fail(ECANCELED, "the daemon stops"); };
  if (!set_conversation(nullptr)) return stopped();
  const auto call = calls_.call(host);
  if (!call) return Failure(call.error());
  calls::Conversation& there = **call;
  if (!set_conversation(&there)) {
    set_conversation(nullptr);
    return stopped();
  }
  const auto asked = say_pipe_offer(there, offer);
  const auto said = asked ? there.expect(kPipeAnswer, Instant::now() + kPatience) : Failure(asked.error());
  set_conversation(nullptr);
  if (!said) return Failure(said.error());
  return read_pipe_answer(*said);
}

}  // namespace pvrdma::transport::hca
