#include "capture/filter.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "base/ip_address.h"
#include "base/whole_number.h"
#include "base/words.h"
#include "fabric/gid_address.h"

namespace pvrdma {

// The words of conditions.
template <>
inline constexpr std::array kWords<capture::Filter::Test>{
    Word{"qp", capture::Filter::Test::kQp},           Word{"peer", capture::Filter::Test::kPeer},
    Word{"op", capture::Filter::Test::kOperation},    Word{"path", capture::Filter::Test::kPath},
    Word{"in", capture::Filter::Test::kIn},           Word{"out", capture::Filter::Test::kOut},
    Word{"request", capture::Filter::Test::kRequest}, Word{"answer", capture::Filter::Test::kAnswer},
    Word{"error", capture::Filter::Test::kError}};

template <>
inline constexpr std::array kWords<capture::Filter::Operation>{
    Word{"send", capture::Filter::Operation::kSend}, Word{"write", capture::Filter::Operation::kWrite},
    Word{"read", capture::Filter::Operation::kRead}, Word{"atomic", capture::Filter::Operation::kAtomic},
    Word{"datagram", capture::Filter::Operation::kDatagram}};

namespace capture {
namespace {

// For example "send, write or read".
template <Worded Enum>
std::string any_word_of() {
  constexpr auto kTexts = texts_of<Enum>();
  return fmt::format("{} or {}", fmt::join(kTexts.begin(), kTexts.end() - 1, ", "), kTexts.back());
}

}  // namespace

class FilterParser {
 public:
  explicit FilterParser(std::string_view text) : text_(text) { advance(); }

  Result<Filter> parse() {
    if (word_.empty()) return Filter();
    expression(0);
    if (!trouble_ && !word_.empty()) complain("\"and\", \"or\" or the end");
    if (trouble_) return fail(ErrorKind::kInvalid, *std::move(trouble_), "filter");
    return std::move(filter_);
  }

 private:
  using Test = Filter::Test;
  using Operation = Filter::Operation;

  void expression(int depth) {
    term(depth);
    while (!trouble_ && word_ == "or") {
      advance();
      term(depth);
      add({.test = Test::kOr});
    }
  }

  void term(int depth) {
    factor(depth);
    while (!trouble_ && word_ == "and") {
      advance();
      factor(depth);
      add({.test = Test::kAnd});
    }
  }

  void factor(int depth) {
    if (trouble_) return;
    if (depth == Filter::kDepthMax) return complain(fmt::format("at most {} levels", Filter::kDepthMax));
    if (word_ == "not") {
      advance();
      factor(depth + 1);
      return add({.test = Test::kNot});
    }
    if (word_ == "(") {
      advance();
      expression(depth + 1);
      if (trouble_) return;
      return word_ == ")" ? advance() : complain("\")\"");
    }
    condition();
  }

  void condition() {
    constexpr auto kTexts = texts_of<Test>();
    const auto test = from_text<Test>(word_);
    if (!test) return complain(fmt::format("a condition: {}, not or \"(\"", fmt::join(kTexts, ", ")));
    advance();
    if (*test == Test::kQp) return qp();
    if (*test == Test::kPeer) return peer();
    if (*test == Test::kOperation) return word_of<Operation>(*test);
    if (*test == Test::kPath) return word_of<transport::PathKind>(*test);
    add({.test = *test});
  }

  void qp() {
    const auto number = whole_number<std::uint32_t>(word_);
    if (!number || *number > verbs::kQpnMax)
      return complain(fmt::format("the number of a QP, 0 to {}", verbs::kQpnMax));
    add({.test = Test::kQp, .number = *number});
    advance();
  }

  void peer() {
    const auto address = IpAddress::parse(word_);
    if (!address) return complain("the peer's GID, an IPv6 or IPv4 address");
    add({.test = Test::kPeer, .gid = fabric::to_gid(*address)});
    advance();
  }

  template <Worded Enum>
  void word_of(Test test) {
    const auto value = from_text<Enum>(word_);
    if (!value) return complain(any_word_of<Enum>());
    add({.test = test, .number = static_cast<std::uint32_t>(*value)});
    advance();
  }

  void add(const Filter::Step& step) {
    if (!trouble_) filter_.steps_.push_back(step);
  }

  void complain(const std::string& expected) {
    if (trouble_) return;
    trouble_ =
        fmt::format("the filter, character {}: {}, expected {}", at_ + 1,
                    word_.empty() ? std::string("it ends here") : fmt::format("\"{}\"", word_), expected);
  }

  // Reads the next word: a parenthesis, or everything up to a blank or a parenthesis.
  void advance() {
    at_ = std::min(text_.find_first_not_of(" \t", at_ + word_.size()), text_.size());
    const std::string_view rest = text_.substr(at_);
    const bool is_parenthesis = rest.starts_with('(') || rest.starts_with(')');
    word_ = rest.substr(0, is_parenthesis ? 1 : rest.find_first_of(" \t()"));
  }

  const std::string_view text_;
  std::size_t at_ = 0;  // where word_ begins
  std::string_view word_;
  Filter filter_;
  std::optional<std::string> trouble_;  // the first mistake
};

Result<Filter> Filter::parse(std::string_view text) {
  if (text.size() > kCharsMax) {
    return fail(ErrorKind::kInvalid,
                fmt::format("the filter has {} characters: it may have {}", text.size(), kCharsMax),
                "filter");
  }
  return FilterParser(text).parse();
}

bool Filter::matches(const Record& record) const {
  if (steps_.empty()) return true;
  // Bounded by the nesting: at most one pending operand for each level, and one more.
  std::vector<bool> results;
  for (const Step& step : steps_) {
    if (step.test == Test::kNot) {
      results.back() = !results.back();
    } else if (step.test == Test::kAnd || step.test == Test::kOr) {
      const bool right = results.back();
      results.pop_back();
      results.back() = step.test == Test::kAnd ? results.back() && right : results.back() || right;
    } else {
      results.push_back(holds(step, record));
    }
  }
  return results.back();
}

bool Filter::holds(const Step& step, const Record& record) {
  switch (step.test) {
    case Test::kQp:
      return record.from().qpn.value == step.number || record.to().qpn.value == step.number;
    case Test::kPeer:
      return record.peer().gid == step.gid;
    case Test::kOperation:
      return static_cast<std::uint32_t>(operation_of(record)) == step.number;
    case Test::kPath:
      return static_cast<std::uint32_t>(record.path) == step.number;
    case Test::kIn:
      return record.direction == verbs::Direction::kInbound;
    case Test::kOut:
      return record.direction == verbs::Direction::kOutbound;
    case Test::kRequest:
      return record.kind == Kind::kRequest;
    case Test::kAnswer:
      return record.kind == Kind::kResponse;
    case Test::kError:
      return record.kind == Kind::kResponse && record.response.syndrome >= verbs::Syndrome::kRnrNak;
    case Test::kNot:
    case Test::kAnd:
    case Test::kOr:
      break;
  }
  return false;
}

Filter::Operation Filter::operation_of(const Record& record) {
  if (record.kind == Kind::kDatagram) return Operation::kDatagram;
  const verbs::RequestOp op = record.kind == Kind::kRequest ? record.request.op : record.response.op;
  switch (op) {
    case verbs::RequestOp::kSend:
      return Operation::kSend;
    case verbs::RequestOp::kWrite:
      return Operation::kWrite;
    case verbs::RequestOp::kRead:
      return Operation::kRead;
    case verbs::RequestOp::kCompareSwap:
    case verbs::RequestOp::kFetchAdd:
      break;
  }
  return Operation::kAtomic;
}

}  // namespace capture
}  // namespace pvrdma
