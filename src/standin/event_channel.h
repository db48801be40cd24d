// EventChannel: a descriptor from which a program reads events: a completion channel, or the asynchronous
// descriptor of a context.
//
// It is a socket pair of type SOCK_SEQPACKET; each event is one datagram. The stand-in never waits for the
// program: an event for a full channel is dropped, and put() says so.
//
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/fd.h"
#include "base/result.h"

namespace pvrdma::standin {

class EventChannel {
 public:
  struct Ends {
    std::shared_ptr<EventChannel> channel;
    Fd program;  // the end that the program reads
  };
  // Error: the process has too many descriptors.
  static Result<Ends> create();

  // False: the event was dropped, because the channel is full. A program that has closed its end wants no
  // events, so nothing is dropped then.
  bool put(std::span<const std::byte> event) const;

  // Whether the program has closed its end.
  bool is_abandoned() const;

 private:
  explicit EventChannel(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace pvrdma::standin
