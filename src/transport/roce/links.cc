#include "transport/roce/link.h"
#include "transport/roce/stream_link.h"
#include "transport/roce/tap_link.h"

namespace pvrdma::transport::roce {

Result<std::unique_ptr<Link>> open_link(const LinkName& name, shard::Loop& loop, const Clock& clock,
                                        FrameHandler& handler) {
  switch (name.kind) {
    case LinkKind::kStream:
      return StreamLink::open(name.name, loop, clock, handler);
    case LinkKind::kTap:
      return TapLink::open(name.name, loop, clock, handler);
    case LinkKind::kXdp:
      break;
  }
  return fail(name.to_string() + ": links of this kind are not there yet");
}

}  // namespace pvrdma::transport::roce
