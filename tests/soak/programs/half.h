// Half: one end of an RC connection whose other end belongs to another process. It makes those checks of
// exactly-once delivery that this end can make.
//
// In each round the asker
//   writes a block that is filled with the round's number,
//   adds 1 to a counter at the answerer and checks that the counter was the round's number,
//   reads the block back and checks each word,
//   sends the round's number. The answerer checks that it is the next one, that the block has that number and
//   that the counter has counted once, and sends it back. Then the next round begins.
// A connection may end because its peer died, but everything until then must have been correct. So a failed
// work request is reported as "lost", and every other error as "wrong".
//
// Thread: the Device's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "driver/driver.h"
#include "support/rc_endpoint.h"

namespace pvrdma::test {

enum class Role { kAsker, kAnswerer };

// What a half has found out about its connection. Each is set at most once.
struct Findings {
  std::optional<std::string> lost;   // a work request failed
  std::optional<std::string> wrong;  // a request was executed twice, late, or not at all
};

// The address of the other half.
struct Peer {
  abi::Gid gid;
  std::uint32_t qpn = 0;
  driver::Remote buffer;
};

class Half {
 public:
  // A half in RESET. `device` is borrowed and outlives it.
  Half(driver::Device& device, const abi::Gid& gid, std::uint32_t block_bytes);

  // Connects to RTS. The asker also begins the first round, for which the answerer should be ready.
  Result<> join(Role role, const Peer& peer, std::uint8_t timeout);

  // Polls for completions. If an asker's round has ended and `may_begin` is true, begins the next one.
  // Returns true if anything has happened.
  bool poll(bool may_begin);

  bool joined() const { return role_.has_value(); }
  Role role() const { return *role_; }
  std::uint64_t rounds() const { return round_; }
  const Findings& findings() const { return findings_; }
  bool ended() const { return findings_.lost || findings_.wrong; }
  const RcEndpoint& endpoint() const { return end_; }

 private:
  // Both ends have the same layout: block | block read back | counter or its old value | number to send |
  // number received.
  std::size_t read_back_at() const { return block_bytes_; }
  std::size_t counter_at() const { return 2 * std::size_t{block_bytes_}; }
  std::size_t number_at() const { return counter_at() + 8; }
  std::size_t received_at() const { return number_at() + 8; }

  void lose(std::string what);
  void complain(std::string what);
  void check_block(std::size_t at, const char* whose);
  void post_receive();
  void begin_round();
  bool poll_receives();
  bool poll_sends();
  void asked();
  void answered();
  void sent(const driver::WorkCompletion& done);

  const std::uint32_t block_bytes_;
  RcEndpoint end_;
  Peer peer_;
  std::optional<Role> role_;
  Findings findings_;
  std::uint64_t round_ = 0;  // the current round; answerer: the next round to arrive
  std::uint64_t next_ = 0;   // asker: the work request that completes next; answerer: echoes under way
  bool echoed_ = false;      // asker: this round's number has come back
  bool between_rounds_ = false;
};

}  // namespace pvrdma::test
