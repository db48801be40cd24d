#include "standin/program_socket.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <sys/socket.h>

#include "base/descriptor_limit.h"

namespace pvrdma::standin {

Result<ProgramSocket> make_program_socket(const char* what) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return fail_errno(errno, fmt::format("making {}", what));
  ProgramSocket made{Fd(ends[0]), Fd(ends[1])};
  if (is_of_descriptor_reserve(std::max(made.own.get(), made.program.get())))
    return fail(EMFILE, fmt::format("{}: too many descriptors are open (raise RLIMIT_NOFILE)", what));
  return made;
}

}  // namespace pvrdma::standin
