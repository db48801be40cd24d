// ServedAdapter: one adapter with its port on the switch and its vfio-user socket, driven by a shard's loop.
//
// Life: create() makes all of it and listens on the socket, start() begins to serve. Destruction ends the
// session (the engine drops its objects and unbinds its GIDs), then detaches the port, then destroys the
// adapter.
//
// A VM may go on in another VMM of this host, its successor: that connects to the same socket, gets an
// adapter of its own at the same port, which only stands by, and switch_over() moves the guest's adapter from
// one to the other as bytes (ADR 16). The one that has it not is there still, so that it can go back. When
// the adapter's VMM leaves, the one beside it is sent away.
//
// Thread: shard-owned. Made and destroyed while the loop does not run, or from a task posted to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adapters/adapter_fault.h"
#include "adapters/kept_record.h"
#include "adapters/seated_adapter.h"
#include "base/reaper.h"
#include "base/result.h"
#include "base/time.h"
#include "capture/capture.h"
#include "device/adapter.h"
#include "device/life.h"
#include "fabric/port.h"
#include "fabric/switch.h"
#include "keep/change_counter.h"
#include "shard/loop.h"
#include "vfio_user/server.h"

namespace pvrdma::adapters {

class ServedAdapter;

// What an adapter is to its guest and to everybody around it.
struct AdapterSetup {
  device::AdapterConfig device;
  std::vector<verbs::Gid> addresses;  // the only ones it may bind besides those of its MAC; empty: any
  bool may_reach_natives = false;     // where its segment has a NativeRule
  bool is_arriving = false;           // its VM is another host's until arrive()
  std::string socket;
  SocketOwner owner;  // of its file
};

// What an adapter is served with. All borrowed; they outlive it.
struct ServingParts {
  shard::Loop& loop;
  const Clock& clock;
  Reaper* reaper = nullptr;    // null: what it leaves behind ends in place
  Keeping* keeping = nullptr;  // null: it is not kept

  // Both are called on the shard from inside the adapter, which must not be destroyed then.
  // A VMM has connected or has left: the VM was powered on or off.
  std::function<void(const ServedAdapter& adapter, bool connected)> on_client = [](const auto&, bool) {};
  // An engine of it is about to go away, while the adapter stays.
  std::function<void(const verbs::Engine& engine)> on_engine_gone = [](const auto&) {};
};

// What switch_over() moved.
struct SwitchedOver {
  std::uint64_t state_bytes = 0;
  Duration took{};
};

class ServedAdapter final : private shard::FdHandler, private shard::Pollable {
 public:
  // `fabric_switch` and `parts` are borrowed and outlive this. `given`: what of it is to be taken back after
  // start(); null: nothing. Errors: as device::Adapter::create() and vfio_user::Server::listen(); the socket
  // file is gone again then.
  static Result<std::unique_ptr<ServedAdapter>> create(const AdapterSetup& setup,
                                                       fabric::Switch& fabric_switch,
                                                       const ServingParts& parts, const GivenBack* given);
  ~ServedAdapter() override;
  ServedAdapter(const ServedAdapter&) = delete;
  ServedAdapter& operator=(const ServedAdapter&) = delete;

  // Serves clients from now on, those included that have connected already. Once. Errors: epoll's errno.
  Result<void> start();

  // The adapter's link to the switch: the guest gets PORT_ACTIVE or PORT_ERR, and nothing passes while it is
  // down.
  void set_link(bool up);

  // Faults into what the adapter sends, until they or the adapter are removed. False: it has some already.
  // From a task of the loop.
  [[nodiscard]] bool inject(std::shared_ptr<AdapterFault> fault);
  void stop_injecting();
  AdapterFault* fault() const { return fault_.get(); }  // null: none

  // As vfio_user::Server's.
  void refuse_clients(std::string why) { server_->refuse_clients(std::move(why)); }
  bool has_client() const { return seated_->has_client(); }

  // --- The VMM's successor; from tasks of the loop ---

  // The next client is it. Errors: EPERM: the VM is off, or no client is let in; EBUSY: one is expected, or
  // here; otherwise as device::Adapter::create().
  Result<void> expect_successor();
  // Whoever has the adapter not; null: nobody is expected.
  SeatedAdapter* successor() { return successor_.get(); }
  SeatedAdapter& seated() { return *seated_; }
  // The guest's adapter becomes the successor's, with its connections and GIDs, and who had it stands by
  // instead. The guest stands. Nothing is signalled: device::Adapter::resume() when it goes on. Errors, all
  // is as before then: ENOTCONN: no successor is here; EBUSY: faults are injected, or the adapter
  // is stopped; what load() refuses.
  Result<SwitchedOver> switch_over(Instant now);
  // Sends it away.
  void end_successor();

  // --- The guest stands, to be written away or after it was read; from tasks of the loop ---

  // Nothing of the guest's changes from now on, and its peers repeat; it sees no difference in its link.
  // Errors: EPERM: the VM is off; EBUSY: it is stopped already, or another VMM is expected.
  Result<void> stop();
  // Works again.
  void go_on();
  // As Seat's.
  void drop_client(const std::string& reason);

  // As SeatedAdapter's. stop() may find it stopped then.
  void outlive_client(bool outlives) { seated_->outlive_client(outlives); }

  // Its VM was another host's, and is this one's from now on: its GIDs are bound here, and it works. From a
  // task of the loop.
  void arrive();
  device::Home home() const { return home_; }
  // The other way round: what is left of it here is its VMM, until that leaves.
  void depart();

  // --- Its client is to have it in the daemon's next process, too; from tasks of the loop, or when that does
  // not run ---

  // Something has changed since the last note_kept().
  bool is_to_be_kept() const { return is_to_be_kept_; }
  void note_kept() { is_to_be_kept_ = false; }
  // Of descriptors for which `is_kept` answers true it gives no copy. kSaved: nothing happens to it after
  // this. Takes time by the number of its maps, with objects of those.
  KeptAdapter keep(device::Adapter::Objects objects, const std::function<bool(KeptId)>& is_kept, Instant now);
  // Its sockets are the next process's: its client hears nothing of this one's end.
  void leave();
  // Goes on with the client that it had in the process before. Errors: that client has lost its adapter.
  Result<void> take_back(const GivenBack& given);

  const std::string& socket() const { return server_->path(); }
  const device::Adapter& adapter() const { return seated_->adapter(); }
  const fabric::Port& port() const { return port_; }
  capture::Tap& tap() { return tap_; }
  const verbs::Engine& engine() const { return seated_->adapter().engine(); }
  verbs::Engine::QpPage list_qps_from(std::uint32_t first) const { return engine().list_qps_from(first); }

 private:
  ServedAdapter(const AdapterSetup& setup, fabric::Switch& fabric_switch, const ServingParts& parts);
  Result<void> begin_keeping(const GivenBack* given);

  using AddKept = std::function<void(KeptId id, int fd)>;
  void call_keeper();
  void note_change();
  std::string keep_client(KeptRecord& record, const AddKept& add, device::Adapter::Objects objects);
  Result<void> take_back_client(const GivenBack& given);

  void on_fd_ready(int fd, shard::Readiness ready) override;
  bool run(Instant now) override;
  void on_time(Instant now) override;
  Instant next_deadline() const override;
  bool polls() const override { return seated_->adapter().polls(); }
  std::string what() const override { return "adapter " + port_.name(); }
  void move_home(device::LifeEvent event);
  Failure is_off() const;
  Failure is_being_moved() const;
  Result<std::unique_ptr<SeatedAdapter>> make_seated(const GivenBack* given = nullptr);
  vfio_user::SeatOptions seat_options(SeatedAdapter& seated);
  std::shared_ptr<ReaperQueue> open_queue();
  void on_followed(const SeatedAdapter& seated);
  void follow_client();
  void watch_listener();

  const ServingParts& parts_;
  // Without Keeping these mean nothing.
  std::unique_ptr<keep::ChangeCounter> counter_;
  KeptId counter_id_ = 0;
  KeptId listener_id_ = 0;
  bool is_to_be_kept_ = false;
  const device::AdapterConfig config_;
  fabric::Port port_;
  capture::Tap tap_{port_};
  std::shared_ptr<AdapterFault> fault_;  // null: none
  std::unique_ptr<SeatedAdapter> seated_;
  std::unique_ptr<SeatedAdapter> successor_;  // null: none is expected
  std::unique_ptr<vfio_user::Server> server_;
  bool started_ = false;
  bool had_client_ = false;
  device::LifeColumn<device::Home> home_{device::Home::kThisHost};
  bool listener_watched_ = false;
};

}  // namespace pvrdma::adapters
