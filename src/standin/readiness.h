// Readiness: a descriptor of a program that is readable while something waits for it, and that hangs up when
// the stand-in ends. Programs poll it and never read it.
//
// Its pair of sockets holds one datagram, or none. Thread: one at a time.
#pragma once

#include <utility>

#include "base/result.h"
#include "standin/program_socket.h"

namespace pvrdma::standin {

class Readiness {
 public:
  // Error: the process has too many descriptors.
  static Result<Readiness> create();

  void set(bool ready);
  int program_end() const { return ends_.program.get(); }  // goes to the program, and stays open here

 private:
  explicit Readiness(ProgramSocket ends) : ends_(std::move(ends)) {}
  ProgramSocket ends_;
  bool ready_ = false;
};

}  // namespace pvrdma::standin
