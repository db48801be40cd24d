#include "capture/filter.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fmt/core.h>
#include <optional>
#include <utility>

#include "base/ip_address.h"
#include "fabric/reservations.h"

namespace pvrdma::capture {

class FilterParser {
 public:
  explicit FilterParser(std::string_view text) : text_(text) { advance(); }

  Result<Filter> parse() {
    if (word_.empty()) return Filter();
    expression(0);
    if (!trouble_ && !word_.empty()) complain("\"and\", \"or\" or the end");
    if (trouble_) return fail(EINVAL, *std::move(trouble_));
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
    constexpr std::array<std::pair<std::string_view, Test>, 5> kPlain{{{"in", Test::kIn},
                                                                       {"out", Test::kOut},
                                                                       {"request", Test::kRequest},
                                                                       {"answer", Test::kAnswer},
                                                                       {"error", Test::kError}}};
    for (const auto& [name, test] : kPlain) {
      if (word_ != name) continue;
      add({.test = test});
      return advance();
    }
    if (word_ == "qp") return qp();
    if (word_ == "peer") return peer();
    if (word_ == "op") return operation();
    if (word_ == "path") return path();
    complain("a condition: qp, peer, op, path, in, out, request, answer, error, not or \"(\"");
  }

  void qp() {
    advance();
    std::uint32_t number = 0;
    const char* const end = word_.data() + word_.size();
    const auto read = std::from_chars(word_.data(), end, number);
    if (word_.empty() || read.ec != std::errc() || read.ptr != end || number > verbs::kQpnMax)
      return complain(fmt::format("the number of a QP, 0 to {}", verbs::kQpnMax));
    add({.test = Test::kQp, .number = number});
    advance();
  }

  void peer() {
    advance();
    const auto address = IpAddress::parse(word_);
    if (!address) return complain("the peer's GID, an IPv6 or IPv4 address");
    add({.test = Test::kPeer, .gid = fabric::to_gid(*address)});
    advance();
  }

  void operation() {
    advance();
    constexpr std::array<std::pair<std::string_view, Operation>, 5> kOperations{
        {{"send", Operation::kSend},
         {"write", Operation::kWrite},
         {"read", Operation::kRead},
         {"atomic", Operation::kAtomic},
         {"datagram", Operation::kDatagram}}};
    for (const auto& [name, value] : kOperations) {
      if (word_ != name) continue;
      add({.test = Test::kOperation, .number = static_cast<std::uint32_t>(value)});
      return advance();
    }
    complain("send, write, read, atomic or datagram");
  }

  void path() {
    advance();
    for (std::size_t i = 0; i < transport::kPathKinds; ++i) {
      if (word_ != name_of(static_cast<transport::PathKind>(i))) continue;
      add({.test = Test::kPath, .number = static_cast<std::uint32_t>(i)});
      return advance();
    }
    complain("local, tcp or none");
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

  // The next word: a parenthesis, or what stands until a blank or one.
  void advance() {
    at_ = std::min(text_.find_first_not_of(" \t", at_ + word_.size()), text_.size());
    const std::string_view rest = text_.substr(at_);
    const bool is_parenthesis = rest.starts_with('(') || rest.starts_with(')');
    word_ = rest.substr(0, is_parenthesis ? 1 : rest.find_first_of(" \t()"));
  }

  const std::string_view text_;
  std::size_t at_ = 0;  // of word_
  std::string_view word_;
  Filter filter_;
  std::optional<std::string> trouble_;  // the first
};

Result<Filter> Filter::parse(std::string_view text) {
  if (text.size() > kCharsMax) {
    return fail(EINVAL, fmt::format("the filter has {} characters: it may have {}", text.size(), kCharsMax));
  }
  return FilterParser(text).parse();
}

bool Filter::matches(const Record& record) const {
  if (steps_.empty()) return true;
  // Never deeper than there are operands at once: one for each level, and one more.
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

}  // namespace pvrdma::capture
