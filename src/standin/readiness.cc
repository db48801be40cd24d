#include "standin/readiness.h"

#include <algorithm>
#include <cerrno>
#include <sys/socket.h>

#include "base/descriptor_limit.h"

namespace pvrdma::standin {

Result<Readiness> Readiness::create() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return fail_errno(errno, "making a descriptor of a program");
  Fd own(ends[0]);
  Fd program(ends[1]);
  if (is_of_descriptor_reserve(std::max(own.get(), program.get())))
    return fail(EMFILE, "a descriptor of a program: too many are open (raise RLIMIT_NOFILE)");
  return Readiness(std::move(own), std::move(program));
}

void Readiness::set(bool ready) {
  if (ready == ready_) return;
  ready_ = ready;
  char token = 0;
  if (ready) {
    (void)::send(own_.get(), &token, sizeof(token), MSG_DONTWAIT | MSG_NOSIGNAL);
  } else {
    (void)::recv(program_.get(), &token, sizeof(token), MSG_DONTWAIT);
  }
}

}  // namespace pvrdma::standin
