#include "verbs/qp_attributes.h"

#include <cstring>
#include <initializer_list>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace pvrdma::verbs {
namespace {

using abi::QpState;
using abi::QpType;

constexpr QpState kStates[] = {QpState::kReset, QpState::kInit, QpState::kRtr, QpState::kRts,
                               QpState::kSqd,   QpState::kSqe,  QpState::kErr};
constexpr QpType kTypes[] = {QpType::kSmi, QpType::kGsi, QpType::kRc, QpType::kUc, QpType::kUd};
constexpr std::uint32_t kMaskBits = 32;

// Builds a mask from the bit numbers of the reference's table in 3.4.
constexpr std::uint32_t bits(std::initializer_list<std::uint32_t> numbers) {
  std::uint32_t mask = 0;
  for (const std::uint32_t number : numbers) mask |= 1u << number;
  return mask;
}

struct Rule {
  std::uint32_t required;
  std::uint32_t optional;
};

// The standard's rules, written down independently, by bit number: 1 current state, 2 SQD notify, 3 access
// flags, 4 P_Key index, 5 port, 6 Q_Key, 7 address, 8 MTU, 9 timeout, 10 retries, 11 RNR retries, 12 RQ PSN,
// 13 reads out, 14 alternate path, 15 RNR timer, 16 SQ PSN, 17 reads in, 18 migration, 20 destination.
std::optional<Rule> expected_rule(QpType type, QpState from, QpState to) {
  using enum QpState;
  if (type == QpType::kSmi || type == QpType::kUc) return std::nullopt;
  if (to == kReset || to == kErr) return Rule{0, 0};
  static const std::map<std::pair<QpState, QpState>, Rule> kRc = {
      {{kReset, kInit}, {bits({3, 4, 5}), 0}},
      {{kInit, kInit}, {0, bits({3, 4, 5})}},
      {{kInit, kRtr}, {bits({7, 8, 12, 15, 17, 20}), bits({3, 4, 14})}},
      {{kRtr, kRts}, {bits({9, 10, 11, 13, 16}), bits({1, 3, 14, 15, 18})}},
      {{kRts, kRts}, {0, bits({1, 3, 14, 15, 18})}},
      {{kRts, kSqd}, {0, bits({2})}},
      {{kSqd, kRts}, {0, bits({1, 3, 14, 15, 18})}},
      {{kSqd, kSqd}, {0, bits({3, 4, 5, 7, 9, 10, 11, 13, 14, 15, 17, 18})}},
  };
  static const std::map<std::pair<QpState, QpState>, Rule> kUd = {
      {{kReset, kInit}, {bits({4, 5, 6}), 0}}, {{kInit, kInit}, {0, bits({4, 5, 6})}},
      {{kInit, kRtr}, {0, bits({4, 6})}},      {{kRtr, kRts}, {bits({16}), bits({1, 6})}},
      {{kRts, kRts}, {0, bits({1, 6})}},       {{kRts, kSqd}, {0, bits({2})}},
      {{kSqd, kRts}, {0, bits({1, 6})}},       {{kSqd, kSqd}, {0, bits({4, 6})}},
      {{kSqe, kRts}, {0, bits({1, 6})}},
  };
  static const std::map<std::pair<QpState, QpState>, Rule> kGsi = {
      {{kReset, kInit}, {bits({4, 6}), 0}}, {{kInit, kInit}, {0, bits({4, 6})}},
      {{kInit, kRtr}, {0, bits({4, 6})}},   {{kRtr, kRts}, {bits({16}), bits({1, 6})}},
      {{kRts, kRts}, {0, bits({1, 6})}},    {{kRts, kSqd}, {0, bits({2})}},
      {{kSqd, kRts}, {0, bits({1, 6})}},    {{kSqd, kSqd}, {0, bits({4, 6})}},
      {{kSqe, kRts}, {0, bits({1, 6})}},
  };
  const auto& table = type == QpType::kRc ? kRc : type == QpType::kUd ? kUd : kGsi;
  const auto found = table.find({from, to});
  return found == table.end() ? std::nullopt : std::optional(found->second);
}

bool expected_ok(QpType type, QpState from, QpState to, std::uint32_t mask) {
  const std::optional<Rule> rule = expected_rule(type, from, to);
  const std::uint32_t named = mask & ~1u;
  return rule && (named & rule->required) == rule->required &&
         (named & ~(rule->required | rule->optional)) == 0;
}

// A valid value for every attribute, for a QP in state `from`.
abi::QpAttr good_values(QpState from, QpState to) {
  abi::QpAttr attr{};
  attr.qp_state = static_cast<std::uint32_t>(to);
  attr.cur_qp_state = static_cast<std::uint32_t>(from);
  attr.path_mtu = 3;
  attr.port_num = 1;
  attr.dest_qp_num = 0x123456;
  attr.ah_attr.ah_flags = abi::kAhGrh;
  return attr;
}

Outcome<QpAttributes> apply(QpType type, QpState from, const abi::QpAttr& attr, std::uint32_t mask) {
  QpAttributes current;
  current.state = from;
  return apply_modify(type, current, ModifyQp{.mask = mask, .attr = attr}, Limits{});
}

std::string describe(QpType type, QpState from, QpState to, std::uint32_t mask) {
  return "type " + std::to_string(static_cast<int>(type)) + " " + std::to_string(static_cast<int>(from)) +
         "->" + std::to_string(static_cast<int>(to)) + " mask " + std::to_string(mask);
}

template <typename F>
void for_each_transition(F&& visit) {
  for (const QpType type : kTypes)
    for (const QpState from : kStates)
      for (const QpState to : kStates) visit(type, from, to);
}

TEST(QpTransitions, EveryPairWithEveryMaskOneBitAwayFromWhatIsRequired) {
  int allowed = 0;
  for_each_transition([&](QpType type, QpState from, QpState to) {
    const std::optional<Rule> rule = expected_rule(type, from, to);
    if (rule) ++allowed;
    const abi::QpAttr attr = good_values(from, to);
    const std::uint32_t required = rule ? rule->required : 0;
    const std::uint32_t all = rule ? rule->required | rule->optional : 0;
    for (std::uint32_t bit = 1; bit < kMaskBits; ++bit) {
      for (const std::uint32_t mask : {required, required ^ 1u << bit, all, all ^ 1u << bit, 0u, ~0u}) {
        const Outcome<QpAttributes> next = apply(type, from, attr, mask | 1);
        ASSERT_EQ(next.has_value(), expected_ok(type, from, to, mask)) << describe(type, from, to, mask);
        if (next) {
          ASSERT_EQ(next->state, to) << describe(type, from, to, mask);
        } else {
          ASSERT_EQ(next.error(), CommandError::kInvalid);
        }
      }
    }
  });
  EXPECT_EQ(allowed, 3 * 14 + 8 + 9 + 9);  // transitions from any state to RESET and ERR, plus the tables
}

TEST(QpTransitions, EveryPairWithSeededRandomMasks) {
  std::mt19937 random(20240607);
  for_each_transition([&](QpType type, QpState from, QpState to) {
    const std::optional<Rule> rule = expected_rule(type, from, to);
    const abi::QpAttr attr = good_values(from, to);
    for (int i = 0; i < 2000; ++i) {
      // Most masks are close to the rule (a random subset of what it allows); every eighth is arbitrary.
      std::uint32_t mask = static_cast<std::uint32_t>(random());
      if (rule && i % 8 != 0) mask = rule->required | (mask & rule->optional);
      ASSERT_EQ(apply(type, from, attr, mask | 1).has_value(), expected_ok(type, from, to, mask))
          << describe(type, from, to, mask);
    }
  });
}

TEST(QpTransitions, WithoutTheStateBitTheStateStays) {
  abi::QpAttr attr = good_values(QpState::kRts, QpState::kInit);
  const auto next = apply(QpType::kRc, QpState::kRts, attr, bits({15}));
  ASSERT_TRUE(next);
  EXPECT_EQ(next->state, QpState::kRts);
  EXPECT_FALSE(apply(QpType::kRc, QpState::kRtr, attr, 0));  // RTR -> RTR does not exist
  EXPECT_TRUE(apply(QpType::kRc, QpState::kErr, attr, 0));
}

TEST(QpTransitions, UnknownStatesAreRefused) {
  for (const std::uint32_t raw : {7u, 0x100u, 0xffff'ffffu}) {
    abi::QpAttr attr = good_values(QpState::kRts, QpState::kRts);
    attr.qp_state = raw;
    EXPECT_FALSE(apply(QpType::kRc, QpState::kRts, attr, bits({0}))) << raw;
    attr = good_values(QpState::kRts, QpState::kRts);
    attr.cur_qp_state = raw;
    EXPECT_FALSE(apply(QpType::kRc, QpState::kRts, attr, bits({0, 1}))) << raw;
  }
}

TEST(QpTransitions, ANamedCurrentStateMustBeTheCurrentOne) {
  for (const QpState claimed : kStates) {
    abi::QpAttr attr = good_values(claimed, QpState::kRts);
    EXPECT_EQ(apply(QpType::kUd, QpState::kSqe, attr, bits({0, 1})).has_value(), claimed == QpState::kSqe);
    EXPECT_EQ(apply(QpType::kRc, QpState::kRts, attr, bits({0, 1})).has_value(), claimed == QpState::kRts);
  }
}

// Sequences observed on the wire (reference 3.4).
TEST(QpTransitions, SequencesOfRealGuestsPass) {
  struct Step {
    QpState to;
    std::uint32_t mask;
  };
  const std::pair<QpType, std::vector<Step>> sequences[] = {
      {QpType::kRc,
       {{QpState::kInit, 0x39}, {QpState::kRtr, 0x129181}, {QpState::kRts, 0x12e01}, {QpState::kErr, 0x1}}},
      {QpType::kGsi, {{QpState::kInit, 0x51}, {QpState::kRtr, 0x1}, {QpState::kRts, 0x10001}}},
      {QpType::kUd,
       {{QpState::kInit, 0x71}, {QpState::kRtr, 0x1}, {QpState::kRts, 0x10001}, {QpState::kErr, 0x1}}},
  };
  for (const auto& [type, steps] : sequences) {
    QpAttributes attributes;
    for (const Step& step : steps) {
      const abi::QpAttr attr = good_values(attributes.state, step.to);
      const auto next = apply_modify(type, attributes, {.mask = step.mask, .attr = attr}, Limits{});
      ASSERT_TRUE(next) << describe(type, attributes.state, step.to, step.mask);
      attributes = *next;
    }
  }
}

template <auto kField>
void set(abi::QpAttr& attr, std::uint32_t value) {
  using Field = std::remove_reference_t<decltype(attr.*kField)>;
  attr.*kField = static_cast<Field>(value);
}
void set_ah_flags(abi::QpAttr& attr, std::uint32_t value) {
  attr.ah_attr.ah_flags = static_cast<std::uint8_t>(value);
}

TEST(QpValues, RangesAreChecked) {
  struct Case {
    const char* what;
    QpState from, to;
    std::uint32_t extra_mask;
    void (*set)(abi::QpAttr&, std::uint32_t);
    std::uint32_t good;
    std::uint32_t bad;
  };
  using A = abi::QpAttr;
  constexpr auto kInit = QpState::kInit;
  constexpr auto kRtr = QpState::kRtr;
  constexpr auto kRts = QpState::kRts;
  constexpr auto kReset = QpState::kReset;
  const Case cases[] = {
      {"pkey_index", kReset, kInit, 0, set<&A::pkey_index>, 0, 1},
      {"port 0", kReset, kInit, 0, set<&A::port_num>, 1, 0},
      {"port 2", kReset, kInit, 0, set<&A::port_num>, 1, 2},
      {"mtu 0", kInit, kRtr, 0, set<&A::path_mtu>, 1, 0},
      {"mtu 6", kInit, kRtr, 0, set<&A::path_mtu>, 3, 6},
      {"mtu in bytes", kInit, kRtr, 0, set<&A::path_mtu>, 3, 1024},
      {"dest_qpn", kInit, kRtr, 0, set<&A::dest_qp_num>, 0xff'ffff, 0x100'0000},
      {"reads in", kInit, kRtr, 0, set<&A::max_dest_rd_atomic>, 16, 17},
      {"rnr timer", kInit, kRtr, 0, set<&A::min_rnr_timer>, 31, 32},
      {"GRH", kInit, kRtr, 0, set_ah_flags, 1, 0},
      {"timeout", kRtr, kRts, 0, set<&A::timeout>, 31, 32},
      {"retry_cnt", kRtr, kRts, 0, set<&A::retry_cnt>, 7, 8},
      {"rnr_retry", kRtr, kRts, 0, set<&A::rnr_retry>, 7, 8},
      {"reads out", kRtr, kRts, 0, set<&A::max_rd_atomic>, 16, 17},
      {"rnr timer at work", kRts, kRts, bits({15}), set<&A::min_rnr_timer>, 31, 255},
      {"GRH in SQD", QpState::kSqd, QpState::kSqd, bits({7}), set_ah_flags, 1, 0},
  };
  for (const Case& c : cases) {
    const std::uint32_t mask = 1 | c.extra_mask | expected_rule(QpType::kRc, c.from, c.to)->required;
    abi::QpAttr attr = good_values(c.from, c.to);
    c.set(attr, c.good);
    EXPECT_TRUE(apply(QpType::kRc, c.from, attr, mask)) << c.what;
    c.set(attr, c.bad);
    const auto refused = apply(QpType::kRc, c.from, attr, mask);
    ASSERT_FALSE(refused) << c.what;
    EXPECT_EQ(refused.error(), CommandError::kInvalid) << c.what;
  }
}

TEST(QpValues, TheOneOutOfRangeIsNamed) {
  ModifyQp request{abi::kQpAttrMaxDestRdAtomic | abi::kQpAttrTimeout, {}};
  request.attr.max_dest_rd_atomic = 16;
  EXPECT_EQ(first_out_of_range(request, Limits{}), std::nullopt);
  request.attr.max_dest_rd_atomic = 128;
  EXPECT_EQ(first_out_of_range(request, Limits{}), (OutOfRange{"max_dest_rd_atomic", 128, 0, 16}));
}

// The driver copies the caller's whole struct: attributes that the mask does not name hold garbage.
TEST(QpValues, UnnamedValuesAreNeitherCheckedNorTaken) {
  abi::QpAttr rubbish;
  std::memset(static_cast<void*>(&rubbish), 0xee, sizeof rubbish);
  rubbish.qp_state = static_cast<std::uint32_t>(QpState::kErr);
  QpAttributes current;
  current.state = QpState::kRts;
  current.qkey = 5;
  current.dest_qpn = Qpn(77);
  const auto next = apply_modify(QpType::kRc, current, {.mask = 1, .attr = rubbish}, Limits{});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->state, QpState::kErr);
  EXPECT_EQ(next->qkey, 5u);
  EXPECT_EQ(next->dest_qpn, Qpn(77));
  EXPECT_EQ(next->port_num, 1u);
}

TEST(QpValues, WhatTheMaskNamesIsTakenAndComesBackInQuery) {
  abi::QpAttr attr = good_values(QpState::kReset, QpState::kInit);
  attr.qp_access_flags = 0xffff'ff0f;  // undefined bits are dropped
  QpAttributes a = *apply_modify(QpType::kRc, QpAttributes{}, {.mask = 0x39, .attr = attr}, Limits{});
  EXPECT_EQ(a.access_flags, 0x0fu);

  attr = good_values(QpState::kInit, QpState::kRtr);
  attr.path_mtu = 2;
  attr.rq_psn = 0xab12'3456;  // only 24 bits count
  attr.min_rnr_timer = 12;
  attr.max_dest_rd_atomic = 3;
  attr.ah_attr.grh.dgid.raw[15] = 9;
  attr.ah_attr.grh.sgid_index = 2;
  attr.ah_attr.grh.hop_limit = 64;
  a = *apply_modify(QpType::kRc, a, {.mask = 0x129181, .attr = attr}, Limits{});
  EXPECT_EQ(a.rq_psn, Psn(0x12'3456));
  EXPECT_EQ(a.dgid.bytes[15], 9);
  EXPECT_EQ(a.sgid_index, 2u);

  attr = good_values(QpState::kRtr, QpState::kRts);
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.rnr_retry = 6;
  attr.sq_psn = 0x65'4321;
  attr.max_rd_atomic = 4;
  a = *apply_modify(QpType::kRc, a, {.mask = 0x12e01, .attr = attr}, Limits{});

  const abi::QpCap cap{.max_send_wr = 64, .max_recv_wr = 32, .max_send_sge = 4, .max_recv_sge = 2};
  const abi::QpAttr seen = to_abi(a, cap);
  EXPECT_EQ(seen.qp_state, 3u);
  EXPECT_EQ(seen.cur_qp_state, 3u);
  EXPECT_EQ(seen.path_mtu, 2u);
  EXPECT_EQ(seen.rq_psn, 0x12'3456u);
  EXPECT_EQ(seen.sq_psn, 0x65'4321u);
  EXPECT_EQ(seen.dest_qp_num, 0x12'3456u);
  EXPECT_EQ(seen.qp_access_flags, 0x0fu);
  EXPECT_EQ(seen.port_num, 1u);
  EXPECT_EQ(seen.min_rnr_timer, 12u);
  EXPECT_EQ(seen.max_dest_rd_atomic, 3u);
  EXPECT_EQ(seen.max_rd_atomic, 4u);
  EXPECT_EQ(seen.timeout, 14u);
  EXPECT_EQ(seen.retry_cnt, 7u);
  EXPECT_EQ(seen.rnr_retry, 6u);
  EXPECT_EQ(seen.ah_attr.grh.hop_limit, 64u);
  EXPECT_EQ(seen.ah_attr.ah_flags, abi::kAhGrh);
  EXPECT_EQ(seen.cap.max_send_wr, 64u);
  EXPECT_EQ(seen.cap.max_recv_sge, 2u);
}

TEST(QpValues, ResetClearsEverything) {
  QpAttributes current;
  current.state = QpState::kRts;
  current.qkey = 1;
  current.dest_qpn = Qpn(2);
  current.retry_cnt = 3;
  current.access_flags = 15;
  const abi::QpAttr attr = good_values(QpState::kRts, QpState::kReset);
  const auto next = apply_modify(QpType::kRc, current, {.mask = 1, .attr = attr}, Limits{});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->state, QpState::kReset);
  EXPECT_EQ(next->qkey, 0u);
  EXPECT_EQ(next->dest_qpn, Qpn(0));
  EXPECT_EQ(next->retry_cnt, 0u);
  EXPECT_EQ(next->access_flags, 0u);
}

TEST(QpValues, EachWayIntoSqdSaysAnewWhetherToNotify) {
  QpAttributes current;
  current.state = QpState::kRts;
  abi::QpAttr attr = good_values(QpState::kRts, QpState::kSqd);
  attr.en_sqd_async_notify = 1;
  current = *apply_modify(QpType::kRc, current, {.mask = bits({0, 2}), .attr = attr}, Limits{});
  EXPECT_TRUE(current.sqd_async_notify);
  attr.qp_state = static_cast<std::uint32_t>(QpState::kSqd);
  current = *apply_modify(QpType::kRc, current, {.mask = bits({0}), .attr = attr}, Limits{});
  EXPECT_TRUE(current.sqd_async_notify);  // SQD -> SQD keeps it
  attr.qp_state = static_cast<std::uint32_t>(QpState::kRts);
  current = *apply_modify(QpType::kRc, current, {.mask = bits({0}), .attr = attr}, Limits{});
  attr.qp_state = static_cast<std::uint32_t>(QpState::kSqd);
  current = *apply_modify(QpType::kRc, current, {.mask = bits({0}), .attr = attr}, Limits{});
  EXPECT_FALSE(current.sqd_async_notify);
}

TEST(QpTimes, AckTimeoutIsFourTimesTheLeastThatIsAllowed) {
  EXPECT_EQ(ack_timeout(0), std::chrono::nanoseconds(4 * 4096));
  EXPECT_EQ(ack_timeout(14), std::chrono::nanoseconds(268'435'456));
  EXPECT_EQ(ack_timeout(31), std::chrono::nanoseconds(35'184'372'088'832));
}

TEST(QpTimes, RnrDelaysFollowTheTable) {
  // In units of 10 us, from the standard's table in milliseconds.
  const std::uint32_t expected[32] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  for (std::uint8_t code = 0; code < 32; ++code)
    EXPECT_EQ(rnr_delay(code), std::chrono::microseconds(10) * expected[code]) << int{code};
  EXPECT_EQ(rnr_delay(0), std::chrono::microseconds(655'360));
  EXPECT_EQ(rnr_delay(31), std::chrono::microseconds(491'520));
  EXPECT_EQ(rnr_delay(32), rnr_delay(0));  // a peer may send garbage: only five bits count
  EXPECT_EQ(rnr_delay(255), rnr_delay(31));
}

}  // namespace
}  // namespace pvrdma::verbs
