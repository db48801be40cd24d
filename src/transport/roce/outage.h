// Outage: why a link is down, and when its owner tries to bring it up again. The pause between attempts grows
// from kRetryFirst to kRetryMax. Each new reason is logged once. Thread: shard-owned.
#pragma once

#include <string>
#include <string_view>

#include "base/time.h"

namespace pvrdma::transport::roce {

inline constexpr Duration kRetryFirst = std::chrono::milliseconds(50);
inline constexpr Duration kRetryMax = std::chrono::seconds(1);

class Outage {
 public:
  // `what` names the link. The first attempt is due at once.
  explicit Outage(std::string what) : what_(std::move(what)) {}

  // The link has gone down, or an attempt to bring it up has failed. `why`: a clause; `code`: an errno that
  // adds detail, or 0.
  void begin(std::string_view why, int code, Instant now);
  // The link is down, and trying again is useless.
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
