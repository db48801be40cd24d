// Fabric: this host's part of all distributed switches: one Switch for each segment, and the way in for
// messages from other hosts.
//
// Thread: shard-owned.
#pragma once

#include <map>
#include <memory>

#include "base/time.h"
#include "fabric/switch.h"
#include "fabric/view.h"
#include "transport/host_transport.h"
#include "transport/transport.h"

namespace pvrdma::fabric {

// Told of every GID that a local port begins or ceases to hold. Called on the shard, from inside a guest's
// command: must not block and must not call back into the fabric.
class GidListener {
 public:
  virtual ~GidListener() = default;
  virtual void on_gid_bound(transport::SegmentId segment, const verbs::Gid& gid, const std::string& port) = 0;
  virtual void on_gid_unbound(transport::SegmentId segment, const verbs::Gid& gid) = 0;
};

class Fabric final : public transport::Inbound {
 public:
  // All borrowed; they outlive the fabric. `listener` may be null.
  Fabric(transport::Transport& local, const Clock& clock, GidListener* listener = nullptr);
  ~Fabric() override;  // no port is left
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // Once, before the first set_view(). Borrowed; null again before it is destroyed.
  void set_host_transport(transport::HostTransport* transport);

  // Made at the first call, kept until the fabric goes.
  Switch& segment(transport::SegmentId id);

  // Replaces what is known of other hosts. An equal view changes nothing.
  void set_view(View view);
  const View& view() const;

  // Inbound: for the host transport.
  transport::Delivery on_request(transport::HostId from, transport::SegmentId segment,
                                 const verbs::Request& request, verbs::Payload& payload, Instant now) override;
  transport::Delivery on_response(transport::HostId from, transport::SegmentId segment,
                                  const verbs::Response& response, verbs::Payload& payload,
                                  Instant now) override;
  transport::Delivery on_datagram(transport::HostId from, transport::SegmentId segment,
                                  const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                                  Instant now) override;
  void on_ready(transport::HostId host, Instant now) override;
  void on_restored(transport::HostId host, Instant now) override;
  void on_up_changed(transport::HostId host, Instant now) override;

 private:
  transport::Transport& local_;
  const Clock& clock_;
  GidListener* listener_;
  transport::HostTransport* host_transport_ = nullptr;
  View view_;
  std::map<transport::SegmentId, std::unique_ptr<Switch>> segments_;
};

}  // namespace pvrdma::fabric
