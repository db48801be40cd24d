#include "motion/messages.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fmt/core.h>

namespace pvrdma::motion {
namespace {

struct OfferFormat {
  std::uint64_t format = 0;
};

struct OfferLeader {
  Leader leader = Leader::kDaemons;
};

struct PlainOfferMessage : OfferFormat, Motion {
  Duration patience{};
  bool is_question = false;
};

struct OfferMessage : PlainOfferMessage, OfferLeader {
  bool is_paused = false;
};

}  // namespace
}  // namespace pvrdma::motion

namespace pvrdma::schema {
namespace {

// A whole number of seconds, a day at most.
struct PatienceRule {
  void read(Reader& reader, const ParsedJson& json, Duration& out) const {
    std::uint64_t seconds = 0;
    NumberRule{}.read(reader, json, seconds);
    out = std::chrono::seconds(std::min<std::uint64_t>(seconds, 86'400));
  }
  Json write(Duration value) const { return std::chrono::duration_cast<std::chrono::seconds>(value).count(); }
};

// Left out for the daemons: older ones know no other leader.
struct OfferedLeaderRule {
  void read(Reader& reader, const ParsedJson& json, motion::Leader& out) const {
    if (json != kLibvirt) return reader.wrong(json, "\"libvirt\"", "is not a known leader");
    out = motion::Leader::kLibvirt;
  }
  Json write(motion::Leader value) const {
    return value == motion::Leader::kLibvirt ? Json(kLibvirt) : Json(nullptr);
  }

  static constexpr const char* kLibvirt = "libvirt";
};

}  // namespace

template <>
inline constexpr auto kObject<motion::OfferFormat> =
    record("OfferFormat", field("format", &motion::OfferFormat::format).required());

template <>
inline constexpr auto kObject<motion::OfferLeader> =
    record("OfferLeader", field("leader", &motion::OfferLeader::leader, OfferedLeaderRule{}));

template <>
inline constexpr auto kObject<motion::PlainOfferMessage> =
    record("PlainOffer", kObject<motion::OfferFormat>,
           field("motion", &motion::PlainOfferMessage::id, kName).required(),
           field("vm", &motion::PlainOfferMessage::vm, kName).required(),
           field("from", &motion::PlainOfferMessage::from, kName).required(),
           field("to", &motion::PlainOfferMessage::to, kName).required(),
           field("patience_s", &motion::PlainOfferMessage::patience, PatienceRule{}).required(),
           field("question", &motion::PlainOfferMessage::is_question, MentionRule{}));

template <>
inline constexpr auto kObject<motion::OfferMessage> = record("Offer", kObject<motion::PlainOfferMessage>,
                                                             kObject<motion::OfferLeader>,
                                                             field("paused", &motion::OfferMessage::is_paused,
                                                                   MentionRule{}));

}  // namespace pvrdma::schema

namespace pvrdma::motion {
namespace {

constexpr const char* kTheOffer = "the offer";

}  // namespace

Result<void> say_offer(calls::Conversation& there, const Offer& offer) {
  OfferMessage message{
      {{}, offer.motion, offer.patience, offer.is_question}, {offer.leader}, offer.is_paused};
  const bool is_plain = offer.leader == Leader::kDaemons && !offer.is_paused;
  message.format = is_plain ? kPlainMotionFormat : kMotionFormat;
  return there.say(kOfferWord, message);
}

Result<Offer> read_offer(const calls::Said& said) {
  OfferMessage message;
  if (!said.is(kOfferWord) || !said.read<OfferFormat>(kTheOffer, message))
    return fail(EPROTO, "this is not an offer");
  if (message.format != kMotionFormat && message.format != kPlainMotionFormat) {
    return fail(
        EPERM,
        fmt::format("this host's pvrdmad moves VMs in formats {} and {}, the other one's in format {}: "
                    "upgrade the older one",
                    kPlainMotionFormat, kMotionFormat, message.format));
  }
  const bool is_plain = message.format == kPlainMotionFormat;
  if (!is_plain && !said.read<OfferLeader>(kTheOffer, message)) {
    return fail(EPERM,
                "the other host's pvrdmad names a leader that this one does not know: upgrade this one");
  }
  if (auto read = is_plain ? said.read<PlainOfferMessage>(kTheOffer, message) : said.read(kTheOffer, message);
      !read)
    return Failure(std::move(read).error());
  return Offer{.motion = message,
               .patience = message.patience,
               .is_question = message.is_question,
               .leader = message.leader,
               .is_paused = message.is_paused};
}

}  // namespace pvrdma::motion
