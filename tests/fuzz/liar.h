// Liar: sits between two hosts and lies in the name of one of them. It changes fields of its frames, repeats,
// withholds, reorders, splits and invents frames, and breaks the lane. Its frames are well formed and
// numbered correctly, so they reach the engine. Only garbled frames are not.
//
// The script decides what it does: one byte for each frame chooses the lie, more bytes are its arguments.
// With an empty script, it tells the truth.
//
// Thread: a value.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "fuzz/lanes.h"
#include "support/fuzz_input.h"
#include "transport/wire/format.h"

namespace pvrdma::fuzz {

// What the liar knows of its victim.
struct Victim {
  struct Place {
    std::uint64_t address = 0;
    std::uint32_t rkey = 0;
  };
  verbs::Endpoint liar;  // the endpoint in whose name it sends
  verbs::Endpoint victim;
  transport::SegmentId segment;
  std::vector<Place> places;      // targets for its requests
  std::uint32_t next_number = 0;  // the first number that the victim expects
};

// The script of both directions, and the victim.
struct Lies {
  test::FuzzInput script{nullptr, 0};
  Victim victim;
};

class Liar final : public Between {
 public:
  enum class Says : std::uint8_t { kRequests, kResponses };
  Liar(Lies& lies, Says says) : lies_(lies), says_(says) {}

  void begin() override;
  void pass(Bytes& in, Bytes& out) override;
  bool breaks() override { return std::exchange(breaks_, false); }

  // The next pass() also sends a frame that the liar's engine has never sent.
  void invent() { ++inventions_; }

 private:
  struct Spoken {
    transport::wire::Frame frame;
    Bytes payload;
  };
  void lie(Spoken spoken, Bytes& out);
  void change(verbs::Request& request, std::uint8_t field);
  void change(verbs::Response& response, std::uint8_t field);
  void change(verbs::Datagram& datagram, std::uint8_t field);
  Spoken invented();
  void split(const Spoken& spoken, Bytes& out);
  void say(Spoken spoken, Bytes& out);
  test::FuzzInput& script() { return lies_.script; }
  std::uint32_t near(std::uint32_t value);
  std::uint32_t bytes();

  Lies& lies_;  // borrowed
  const Says says_;
  std::uint64_t next_ = 0;  // sequence number of its next frame on this connection
  std::deque<Spoken> held_;
  std::uint32_t inventions_ = 0;
  bool breaks_ = false;
};

}  // namespace pvrdma::fuzz
