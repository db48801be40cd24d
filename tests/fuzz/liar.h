// Liar: sits between two hosts and says what it likes for one of them: changes fields of its frames, repeats,
// withholds, reorders, splits and invents them, and breaks the lane. Its frames are well formed and numbered
// as the wire wants, unless garbling is what it does: so they reach the engine.
//
// What it does is the script's: one byte for each frame says which lie, more bytes what about. An empty
// script tells the truth.
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

// What it knows of its victim.
struct Victim {
  struct Place {
    std::uint64_t address = 0;
    std::uint32_t rkey = 0;
  };
  verbs::Endpoint liar;  // whom it speaks for
  verbs::Endpoint victim;
  transport::SegmentId segment;
  std::vector<Place> places;      // worth an attempt
  std::uint32_t next_number = 0;  // that the victim waits for at first
};

// The script of both directions.
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

  // Something that its own engine never said goes out with the next pass().
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
  std::uint64_t next_ = 0;  // sequence number of what it says on this connection
  std::deque<Spoken> held_;
  std::uint32_t inventions_ = 0;
  bool breaks_ = false;
};

}  // namespace pvrdma::fuzz
