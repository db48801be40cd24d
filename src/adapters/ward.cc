#include "adapters/ward.h"

#include <fmt/core.h>
#include <new>

#include "base/control_thread.h"

namespace pvrdma::adapters {

void Ward::start(ShardPlacement& placement) {
  thread_ = std::jthread([this, &placement](const std::stop_token& stop) { run(stop, placement); });
}

void Ward::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void Ward::on_offence(const std::string& adapter, Duration took) {
  try {
    const std::lock_guard lock(mutex_);
    if (news_.size() >= kNewsMax) return;
    news_.push_back({{adapter, took}, clock_.now()});
  } catch (const std::bad_alloc&) {  // the adapter's next offence counts
    return;
  }
  wake_.notify_one();
}

void Ward::run(const std::stop_token& stop, ShardPlacement& placement) {
  begin_control_thread("ward");
  const auto has_news = [this] { return !news_.empty(); };
  while (!stop.stop_requested()) {
    std::vector<News> news;
    {
      const Instant due = offences_.next_due();
      std::unique_lock lock(mutex_);
      if (due == Instant::never())
        wake_.wait(lock, stop, has_news);
      else
        wake_.wait_for(lock, stop, due - clock_.now(), has_news);
      news.swap(news_);
    }
    for (const News& each : news) offences_.note(each.offence, each.at);
    take_in_all(placement);
  }
}

void Ward::take_in_all(ShardPlacement& placement) {
  for (const Offence& each : offences_.due(clock_.now())) {
    if (take_in(each, placement))
      offences_.forget(each.adapter);
    else
      offences_.put_off(each.adapter, clock_.now());
  }
}

bool Ward::take_in(const Offence& offender, ShardPlacement& placement) {
  const auto placed = placement.put_into_ward(
      offender.adapter, fmt::format("twice within a minute it kept the other adapters waiting, for {} ms",
                                    microseconds_of(offender.took) / 1000));
  if (placed || placed.error().kind == ErrorKind::kNotFound) return true;
  if (refused_log_.allow(clock_.now()))
    log::warn("adapter {}: keeps other adapters waiting and does not move to the ward: {}{}",
              offender.adapter, placed.error().message, log::held_back(refused_log_));
  return false;
}

}  // namespace pvrdma::adapters
