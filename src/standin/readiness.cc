#include "standin/readiness.h"

#include <sys/socket.h>

namespace pvrdma::standin {

Result<Readiness> Readiness::create() {
  auto ends = make_program_socket("a descriptor of a program");
  if (!ends) return Failure(std::move(ends).error());
  return Readiness(*std::move(ends));
}

void Readiness::set(bool ready) {
  if (ready == ready_) return;
  ready_ = ready;
  char token = 0;
  if (ready) {
    (void)::send(ends_.own.get(), &token, sizeof(token), MSG_DONTWAIT | MSG_NOSIGNAL);
  } else {
    (void)::recv(ends_.program.get(), &token, sizeof(token), MSG_DONTWAIT);
  }
}

}  // namespace pvrdma::standin
