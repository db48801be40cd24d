// Workload: random work requests for one flow. Thread: the world's.
#pragma once

#include <cstdint>

#include "sim/flow.h"
#include "sim/random.h"

namespace pvrdma::sim {

struct Mix {
  std::uint32_t fault_per_mille = 0;  // requests that are made to fail
  std::uint32_t bad_receive_per_mille = 0;
};

// Says what was posted.
struct PostedWork {
  bool any = false;
  bool faulty = false;
};

// Posts one request of a random kind on the requester's QP, if a slot is free. With kSkip, a later doorbell
// announces it.
PostedWork post_request(Random& random, const Mix& mix, Flow& flow, test::RcEndpoint& from,
                        test::RcEndpoint& to, driver::Doorbell doorbell);

// Posts a signalled request without data. When it completes, everything before it has completed.
void post_marker(Flow& flow, test::RcEndpoint& from, test::RcEndpoint& to);

// Posts one receive for the flow's messages, on the responder's QP or on `srq`.
PostedWork post_receive(Random& random, const Mix& mix, Flow& flow, test::RcEndpoint& to,
                        driver::SharedReceiveQueue* srq);

}  // namespace pvrdma::sim
