#include "transport/roce/link.h"

#include "transport/roce/stream_link.h"
#include "transport/roce/tap_link.h"
#include "transport/roce/xdp_link.h"

namespace pvrdma::transport::roce {

Result<std::unique_ptr<Link>> open_link(const LinkName& name, shard::Loop& loop, const Clock& clock,
                                        FrameHandler& handler) {
  switch (name.kind) {
    case LinkKind::kStream:
      return StreamLink::open(name.name, loop, clock, handler);
    case LinkKind::kTap:
      return TapLink::open(name.name, loop, clock, handler);
    case LinkKind::kXdp:
      return XdpLink::open(name.name, loop, clock, handler);
  }
  return fail(name.to_string() + ": unknown kind of RoCE link");
}

}  // namespace pvrdma::transport::roce
