#include "transport/roce/outage.h"

#include <algorithm>
#include <fmt/core.h>
#include <new>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace pvrdma::transport::roce {

void Outage::begin(std::string_view why, int code, Instant now) {
  // A link that goes down again soon after it came up keeps its long pause.
  if (up_since_ != Instant::never() && now - up_since_ >= kRetryMax) pause_ = kRetryFirst;
  up_since_ = Instant::never();
  retry_at_ = now + pause_;
  pause_ = std::min(2 * pause_, kRetryMax);
  try {
    std::string text(why);
    if (code != 0) text.append(": ").append(std::generic_category().message(code));
    if (text != why_) log::warn("roce: {} is down: {}; trying again", what_, text);
    why_ = std::move(text);
  } catch (const std::bad_alloc&) {
    why_ = "no memory";  // short enough that std::string does not allocate
  }
}

void Outage::end(Instant now) {
  up_since_ = now;
  retry_at_ = Instant::never();
  why_.clear();
  log::info("roce: {} is up", what_);
}

void Outage::begin_for_ever(std::string_view why) {
  retry_at_ = Instant::never();
  log::error("roce: {} is down: {}", what_, why);
  try {
    why_ = why;
  } catch (const std::bad_alloc&) {
    why_ = "no memory";
  }
}

}  // namespace pvrdma::transport::roce
