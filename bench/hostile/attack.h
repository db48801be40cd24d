// Attack: what a hostile VMM, or an accident, does to the daemon while its neighbour is measured.
//
// An attack runs in a process of its own, on adapters of its own, until its deadline. It returns a sentence
// about its outcome; a refusal by the daemon is a valid outcome. It throws std::runtime_error if it cannot
// continue.
//
// Thread: one.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pvrdma::bench {

// The attack's connection to the bench.
class Field {
 public:
  Field(std::vector<std::string> sockets_, std::chrono::steady_clock::duration time, std::uint64_t touch)
      : sockets(std::move(sockets_)), touch_bytes(touch), time_(time) {}

  // The preparations are done. From now on the neighbour's measurements count, and the attack's time runs.
  void begin();
  bool over() const { return std::chrono::steady_clock::now() >= deadline_; }

  const std::vector<std::string> sockets;  // of adapters A0 ..., then of the Ethernet, then of the API
  const std::uint64_t touch_bytes;         // how much memory a dying VM has touched

 private:
  std::chrono::steady_clock::duration time_;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
};

// The line with which begin() tells the bench.
inline constexpr std::string_view kBegun = "begun";

struct Attack {
  std::string_view name;
  std::string_view what;
  std::string (*run)(Field& field) = nullptr;  // calls begin() when it is prepared
  std::uint32_t adapters = 1;
  bool cluster = false;   // needs a daemon in a cluster
  bool ethernet = false;  // the daemon's RoCE link dials the attacker
  bool api = false;       // gets the daemon's API, too
  bool natives = false;   // the neighbour connects to a native endpoint from time to time
  // Why this machine cannot run it; empty: it can. Null: each machine can.
  std::string (*lack)() = nullptr;
};

// Attacks by what they abuse. Each function is in its own file.
std::span<const Attack> memory_attacks();
std::span<const Attack> session_attacks();
std::span<const Attack> object_attacks();
std::span<const Attack> traffic_attacks();
std::span<const Attack> ethernet_attacks();
std::span<const Attack> watch_attacks();
std::span<const Attack> page_attacks();
std::span<const Attack> state_attacks();
std::span<const Attack> wakeup_attacks();

}  // namespace pvrdma::bench
