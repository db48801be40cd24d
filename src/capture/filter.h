// Filter: which messages a capture shows.
//
//   expression := term { "or" term }
//   term       := factor { "and" factor }
//   factor     := "not" factor | "(" expression ")" | condition
//   condition  := "qp" NUMBER      of either end
//               | "peer" ADDRESS   the other end's GID: IPv6, or IPv4
//               | "op" OPERATION   send, write, read, atomic or datagram; its answers, too
//               | "path" KIND      local, tcp, hca, roce or none
//               | "in" | "out"     as the adapter sees it
//               | "request" | "answer" | "error"   (an error is a NAK or a receiver that is not ready)
//
// Words are lower case. Thread: immutable once parsed; any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "capture/record.h"

namespace pvrdma::capture {

class Filter {
 public:
  static constexpr std::size_t kCharsMax = 1024;
  static constexpr int kDepthMax = 16;  // of parentheses and negations

  // Empty or blank: all messages. Error (kInvalid): one sentence with the position of the mistake, counted
  // from 1.
  static Result<Filter> parse(std::string_view text);

  bool matches(const Record& record) const;

  // What a step tests, and the names of operations. The grammar above has their words.
  enum class Test : std::uint8_t {
    kQp,
    kPeer,
    kOperation,
    kPath,
    kIn,
    kOut,
    kRequest,
    kAnswer,
    kError,
    kNot,
    kAnd,
    kOr,
  };
  enum class Operation : std::uint8_t { kSend, kWrite, kRead, kAtomic, kDatagram };

 private:
  friend class FilterParser;

  // A step comes after its operands, so a stack of bits evaluates the steps.
  struct Step {
    Test test{};
    std::uint32_t number = 0;  // for kQp, kOperation, kPath
    verbs::Gid gid;            // for kPeer
  };
  static bool holds(const Step& step, const Record& record);
  static Operation operation_of(const Record& record);

  std::vector<Step> steps_;
};

}  // namespace pvrdma::capture
