// What tests give an Hca instead of threads and other daemons: a worker that runs jobs in the loop's turns,
// and an introducer that calls the Hcas of the same test's other hosts. Thread: one.
#pragma once

#include <cerrno>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "shard/loop.h"
#include "transport/hca/hca.h"
#include "transport/hca/worker.h"

namespace pvrdma::transport::hca {

class LaterWorker final : public Worker, public shard::Pollable {
 public:
  void post(shard::Task job) override { jobs_.push_back(std::move(job)); }
  void bury(std::unique_ptr<Buried> dead) override {
    dead->next = std::move(dead_);
    dead_ = std::move(dead);
  }

  // Whether a job is in progress, or an object is being destroyed.
  static bool works() { return works_; }

  bool run(Instant) override {
    const Working working;
    const bool works = dead_ != nullptr || !jobs_.empty();
    while (dead_ != nullptr) dead_ = std::move(dead_->next);
    if (!jobs_.empty()) {
      shard::Task job = std::move(jobs_.front());
      jobs_.pop_front();
      job();
    }
    return works;
  }
  void on_time(Instant) override {}
  Instant next_deadline() const override {
    return dead_ != nullptr || !jobs_.empty() ? Instant{} : Instant::never();
  }
  bool polls() const override { return false; }
  std::string what() const override { return "the worker"; }

 private:
  static inline bool works_ = false;
  struct Working {
    Working() { works_ = true; }
    ~Working() { works_ = false; }
  };

  std::deque<shard::Task> jobs_;
  std::unique_ptr<Buried> dead_;
};

// The Hcas of all shards of all hosts of a test. Borrowed: a test removes an Hca before it destroys it.
class HostBook {
 public:
  std::map<std::pair<std::string, ShardNumber>, Hca*> hosts;
};

class DirectIntroducer final : public Introducer {
 public:
  DirectIntroducer(HostBook& book, std::string self) : book_(book), self_(std::move(self)) {}
  Result<void> check(const std::string&) override {
    return is_too_early ? Result<void>(fail(EAGAIN, "it is asked again soon")) : Result<void>();
  }
  Result<PipeAnswer> introduce(const std::string& host, const PipeOffer& offer) override {
    const auto found = book_.hosts.find({host, offer.shard});
    if (found == book_.hosts.end()) return fail("nobody is there");
    return found->second->answer(self_, offer);
  }

  bool is_too_early = false;  // what check() says

 private:
  HostBook& book_;
  const std::string self_;
};

}  // namespace pvrdma::transport::hca
