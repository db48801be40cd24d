// Readiness: a descriptor of a program that is readable while something waits for it, and that hangs up when
// the stand-in ends. Programs poll it and never read it.
//
// It is a pair of sockets of type SOCK_SEQPACKET that holds one datagram, or none. Thread: one at a time.
#pragma once

#include "base/fd.h"
#include "base/result.h"

namespace pvrdma::standin {

class Readiness {
 public:
  // Error: the process has too many descriptors.
  static Result<Readiness> create();

  void set(bool ready);
  int program_end() const { return program_.get(); }  // goes to the program, and stays open here

 private:
  Readiness(Fd own, Fd program) : own_(std::move(own)), program_(std::move(program)) {}
  Fd own_;
  Fd program_;
  bool ready_ = false;
};

}  // namespace pvrdma::standin
