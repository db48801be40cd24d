// What the tests of Loop have it run.
#pragma once

#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>
#include <utility>

#include "shard/loop.h"

namespace pvrdma::shard {

struct Scripted final : Pollable {
  std::function<bool(Instant)> on_run = [](Instant) { return false; };
  std::function<void(Instant)> on_due = [](Instant) {};
  std::function<bool()> on_sleep;  // what may_sleep() answers; empty: true
  Instant deadline = Instant::never();
  int runs = 0;

  bool run(Instant now) override {
    ++runs;
    return on_run(now);
  }
  void on_time(Instant now) override {
    deadline = Instant::never();
    on_due(now);
  }
  Instant next_deadline() const override { return deadline; }
  bool polls() const override { return polling; }
  bool may_sleep() override { return !on_sleep || on_sleep(); }
  std::string what() const override { return name; }
  std::string name = "a pollable";
  bool polling = false;
};

struct Counter final : FdHandler {
  explicit Counter(std::function<void()> call) : then(std::move(call)) {}
  std::function<void()> then;
  int calls = 0;
  std::string what() const override { return "adapter web1"; }
  void on_fd_ready(int fd, Readiness) override {
    std::uint64_t value = 0;
    EXPECT_EQ(::read(fd, &value, sizeof(value)), static_cast<ssize_t>(sizeof(value)));
    ++calls;
    then();
  }
};

}  // namespace pvrdma::shard
