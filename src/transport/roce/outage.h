// Outage: why a link is down and when it tries again: soon at first, then ever more rarely. Each new reason
// is one line of the log. Thread: shard-owned.
#pragma once

#include <string>
#include <string_view>

#include "base/time.h"

namespace pvrdma::transport::roce {

inline constexpr Duration kRetryFirst = std::chrono::milliseconds(50);
inline constexpr Duration kRetryMax = std::chrono::seconds(1);

class Outage {
 public:
  // `what`: the link. Tries at once.
  explicit Outage(std::string what) : what_(std::move(what)) {}

  // It is down, or still is: a clause that says why, and errno where that tells more.
  void begin(std::string_view why, int code, Instant now);
  // It is down, and trying again is of no use.
  void begin_for_ever(std::string_view why);
  void end(Instant now);

  const std::string& why() const { return why_; }
  Instant retry_at() const { return retry_at_; }

 private:
  const std::string what_;
  std::string why_ = "not tried yet";
  Instant retry_at_{};
  Instant up_since_ = Instant::never();
  Duration pause_ = kRetryFirst;
};

}  // namespace pvrdma::transport::roce
