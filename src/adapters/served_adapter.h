// ServedAdapter: one adapter with its port on the switch and its vfio-user socket, driven by a shard's loop.
//
// Life: create() makes all of it and listens on the socket; start() begins to serve. Destruction ends the
// session (the engine drops its objects and unbinds its GIDs), then detaches the port, then destroys the
// adapter.
//
// A VM may continue in another VMM of this host, its successor. The successor connects to the same socket and
// gets an adapter of its own at the same port, which only stands by. switch_over() moves the guest's adapter
// from one to the other as bytes (ADR 16). The old VMM stays connected, so the guest can go back. When the
// VMM that has the guest's adapter leaves, the other one is disconnected.
//
// Thread: shard-owned. Made and destroyed while the loop does not run, or from a task posted to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adapters/adapter_fault.h"
#include "adapters/keeping.h"
#include "adapters/kept_record.h"
#include "adapters/offence.h"
#include "adapters/seated_adapter.h"
#include "base/blame.h"
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
#include "vmm/vmm_folder.h"
#include "vocabulary/switched_over.h"

namespace pvrdma::adapters {

class ServedAdapter;

// The properties of an adapter that its guest and the rest of the host see.
struct AdapterSetup {
  device::AdapterConfig device;
  std::vector<verbs::Gid> addresses;  // the only ones it may bind besides those of its MAC; empty: any
  bool may_reach_natives = false;     // if its segment has a NativeRule
  bool is_arriving = false;           // its VM belongs to another host until arrive()
  // It comes from another shard of this host, where it is stopped; empty: it is new.
  std::optional<fabric::Port::Predecessor> predecessor = {};
  std::string socket;
  SocketOwner owner;  // of the socket file and of the VMM's folder beside it
};

// What a served adapter uses. All are borrowed and outlive it.
struct ServingParts {
  shard::Loop& loop;
  const Clock& clock;
  Reaper* reaper = nullptr;             // null: what it leaves behind is destroyed in place
  Keeping* keeping = nullptr;           // null: it is not kept
  OffenceObserver* offences = nullptr;  // null: nobody is told

  // Both are called on the shard from inside the adapter, which must not be destroyed in the call.
  // A VMM has connected or has left, that is, the VM was powered on or off.
  std::function<void(const ServedAdapter& adapter, bool connected)> on_client = [](const auto&, bool) {};
  // An engine of the adapter is about to be destroyed, while the adapter stays.
  std::function<void(const verbs::Engine& engine)> on_engine_gone = [](const auto&) {};
};

class ServedAdapter final : private shard::FdHandler, private shard::Pollable, private Blame::Party {
 public:
  // `fabric_switch` and `parts` are borrowed and outlive this. `given`: what the daemon's previous process
  // left of this adapter; after start() the caller must pass it to take_back(). Null: it left nothing.
  // Errors: as device::Adapter::create(), vmm::VmmFolder::make() and vfio_user::Server::listen(); folder and
  // socket file are then removed.
  static Result<std::unique_ptr<ServedAdapter>> create(const AdapterSetup& setup,
                                                       fabric::Switch& fabric_switch,
                                                       const ServingParts& parts, const GivenBack* given);
  ~ServedAdapter() override;
  ServedAdapter(const ServedAdapter&) = delete;
  ServedAdapter& operator=(const ServedAdapter&) = delete;

  // Begins to serve clients, including those that have already connected. Called once. Errors: epoll's errno.
  Result<void> start();

  // Sets the adapter's link to the switch. The guest gets PORT_ACTIVE or PORT_ERR. While the link is down, no
  // message passes.
  void set_link(bool up);

  // Injects faults into what the adapter sends, until the faults or the adapter are removed, or its VM moves
  // to another host. False: it already has faults. Called from a task of the loop.
  [[nodiscard]] bool inject(std::shared_ptr<AdapterFault> fault);
  void stop_injecting();
  AdapterFault* fault() const { return fault_.get(); }  // null: no faults are injected

  // As in vfio_user::Server.
  void refuse_clients(std::string why) { server_->refuse_clients(std::move(why)); }
  const std::string& refusal() const { return server_->refusal(); }
  bool has_client() const { return seated_->has_client(); }

  // --- The VMM's successor; called from tasks of the loop ---

  // Expects the successor as the next client. Errors: kConflict: the VM is off, no client is let in, or a
  // successor is expected or connected; otherwise as device::Adapter::create().
  Result<void> expect_successor();
  // The one of the two that does not have the guest's adapter; null: no successor is expected.
  SeatedAdapter* successor() { return successor_.get(); }
  SeatedAdapter& seated() { return *seated_; }
  // The guest's adapter moves to the successor, with its connections and GIDs, and the previous VMM's adapter
  // stands by instead. The guest is paused. The guest gets no interrupt; device::Adapter::resume() sends them
  // when the guest resumes. If there is an error, nothing has changed. Errors: ENOTCONN: no successor is
  // connected; kConflict: faults are injected, or the adapter is stopped; the errors of load().
  Result<SwitchedOver> switch_over(Instant now);
  // Disconnects the successor.
  void end_successor();

  // --- The guest is paused, to be written away or after it was read; called from tasks of the loop ---

  // Freezes the guest's state; its peers repeat their messages. The guest sees no change of its link. Errors:
  // kConflict: the VM is off or already stopped, or another VMM is expected.
  Result<void> stop();
  // Continues after stop().
  void go_on();
  // As in Seat.
  void drop_client(const std::string& reason);

  // As in SeatedAdapter. stop() may then find the adapter already stopped.
  void outlive_client(bool outlives) { seated_->outlive_client(outlives); }

  // The VM belonged to another host and now belongs to this one: its GIDs are bound here, and the adapter
  // works. Called from a task of the loop.
  void arrive();
  device::Home home() const { return home_; }
  // The reverse of arrive(): the VM now belongs to another host. Only its old VMM remains here, until it
  // leaves.
  void depart();

  // --- Keeping the adapter for its client in the daemon's next process; called from tasks of the loop, or
  // when the loop does not run ---

  // Whether something has changed since the last note_kept().
  bool is_to_be_kept() const { return is_to_be_kept_; }
  void note_kept() { is_to_be_kept_ = false; }
  // Copies no descriptor for which `is_kept` returns true. After a call with kSaved, the caller lets nothing
  // happen to the adapter any more. The time grows with the number of its maps; with kSaved, also with the
  // guest's objects.
  KeptAdapter keep(device::Adapter::Objects objects, const std::function<bool(KeptId)>& is_kept, Instant now);
  // Leaves its sockets to the next process: the client does not notice the end of this one.
  void leave();
  // Continues with the client of the previous process. Errors: that client has lost its adapter.
  Result<void> take_back(const GivenBack& given);

  // --- The adapter moves to another shard of this host (shard_placement.h); called from tasks of the loops.
  // Both shards have it meanwhile: it is stopped on both, and its client waits. If it is destroyed before
  // settle(), the client does not notice. ---

  // On the shard that it leaves: what the other shard makes it of. Errors, after which nothing has changed:
  // kConflict: it must stay now, or cannot be kept.
  Result<GivenBack> begin_to_leave(Instant now);
  // On the other shard, after start(). Errors: the adapter cannot be made there.
  Result<void> begin_to_come(const GivenBack& given);
  // On the shard that it leaves, which destroys it next.
  void hand_over(const fabric::HostGids::Holder& follower) { port_.hand_over(follower); }
  // On the shard where it is from now on: works, and goes on with its client.
  void settle();
  // Between the first of these steps and the last one.
  bool is_moving() const { return is_moving_; }

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
  Result<void> check_record(const KeptRecord& record) const;
  Result<void> check_may_leave() const;

  void on_fd_ready(int fd, shard::Readiness ready) override;
  bool run(Instant now) override;
  void on_time(Instant now) override;
  Instant next_deadline() const override;
  bool polls() const override { return seated_->adapter().polls(); }
  void on_blamed(Duration took) override;
  std::string what() const override { return "adapter " + port_.name(); }
  void move_home(device::LifeEvent event);
  // Stops injecting, if it does, and tells why.
  void end_fault(std::string_view why);
  Failure is_off() const;
  Failure is_being_moved() const;
  Failure has_faults() const;
  Result<std::unique_ptr<SeatedAdapter>> make_seated(const GivenBack* given = nullptr);
  vfio_user::SeatOptions seat_options(SeatedAdapter& seated);
  std::shared_ptr<ReaperQueue> open_queue();
  void on_followed(const SeatedAdapter& seated);
  void follow_client();
  void watch_listener();

  const ServingParts& parts_;
  // Without Keeping, these members are unused.
  std::unique_ptr<keep::ChangeCounter> counter_;
  KeptId counter_id_ = 0;
  KeptId listener_id_ = 0;
  bool is_to_be_kept_ = false;
  const device::AdapterConfig config_;
  fabric::Port port_;
  capture::Tap tap_{port_};
  std::shared_ptr<AdapterFault> fault_;  // null: no faults are injected
  std::unique_ptr<SeatedAdapter> seated_;
  std::unique_ptr<SeatedAdapter> successor_;  // null: no successor is expected
  std::unique_ptr<vmm::VmmFolder> vmm_folder_;
  std::unique_ptr<vfio_user::Server> server_;
  bool started_ = false;
  bool had_client_ = false;
  device::LifeColumn<device::Home> home_{device::Home::kThisHost};
  bool listener_watched_ = false;
  bool is_moving_;  // another shard of this host has it, too
};

}  // namespace pvrdma::adapters
