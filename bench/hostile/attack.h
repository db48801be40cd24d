// Attack: what a hostile VMM, or bad luck, does to the daemon while its neighbour is measured.
//
// An attack runs in a process of its own, on adapters of its own, until its deadline, and returns what became
// of it: a refusal by the daemon is as good an end as any. It throws std::runtime_error where it cannot go
// on.
//
// Thread: the process's only one.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pvrdma::bench {

// What an attack is told by the bench and tells it.
class Field {
 public:
  Field(std::vector<std::string> sockets_, std::chrono::steady_clock::duration time, std::uint64_t touch)
      : sockets(std::move(sockets_)), touch_bytes(touch), time_(time) {}

  // Its preparations are done: what the neighbour notices counts from now on, and so does the time.
  void begin();
  bool over() const { return std::chrono::steady_clock::now() >= deadline_; }

  const std::vector<std::string> sockets;  // of adapters A0 ..., and of the Ethernet where there is one
  const std::uint64_t touch_bytes;         // how much memory a VM that dies has touched

 private:
  std::chrono::steady_clock::duration time_;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
};

// The line by which begin() tells the bench.
inline constexpr std::string_view kBegun = "begun";

struct Attack {
  std::string_view name;
  std::string_view what;
  std::string (*run)(Field& field) = nullptr;  // calls begin() first of all, or when it is prepared
  std::uint32_t adapters = 1;
  bool cluster = false;   // needs a daemon that is a member of one
  bool ethernet = false;  // the attacker is what the daemon's RoCE link dials
};

// By what they abuse; each in its own file.
std::span<const Attack> memory_attacks();
std::span<const Attack> session_attacks();
std::span<const Attack> object_attacks();
std::span<const Attack> traffic_attacks();
std::span<const Attack> ethernet_attacks();

}  // namespace pvrdma::bench
