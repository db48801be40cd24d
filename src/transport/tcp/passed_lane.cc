#include "transport/tcp/passed_lane.h"

#include <new>

namespace pvrdma::transport::tcp {

// Best effort: the send buffer of a new connection is empty, so it takes the whole frame.
PassedLane::~PassedLane() {
  if (!stream_) return;
  try {
    wire::Head buffer;
    const auto head =
        wire::encode(wire::Reject{.reason = wire::RejectReason::kNoRoom,
                                  .sentence = wire::Sentence("the shard that the connection wants does not "
                                                             "exist or takes none now: try again later")},
                     buffer);
    const iovec piece{const_cast<std::byte*>(head.data()), head.size()};
    static_cast<void>(stream_->write_some({&piece, 1}));
    static_cast<void>(stream_->flush());
  } catch (const std::bad_alloc&) {  // for the reason why the stream broke
  }
}

}  // namespace pvrdma::transport::tcp
