// A pair of sockets of type SOCK_SEQPACKET, of which a program gets one end as a file. The end hangs up when
// the stand-in ends. Thread: pure function.
#pragma once

#include "base/fd.h"
#include "base/result.h"

namespace pvrdma::standin {

struct ProgramSocket {
  Fd own;
  Fd program;
};

// `what` begins the error: the process has too many descriptors.
Result<ProgramSocket> make_program_socket(const char* what);

}  // namespace pvrdma::standin
