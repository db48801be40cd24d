// The life of an adapter: what it does, whether it has a client, and where its VM is. Each of these is a
// column of one table, whose rows are the events below. docs/lifetimes.md draws the table.
//
// The driver's progress (AdapterState) is separate: the guest controls it, within a working adapter.
//
// Thread: values.
#pragma once

#include <cstdint>
#include <optional>

#include "base/check.h"

namespace pvrdma::device {

// What an adapter does.
enum class Work : std::uint8_t {
  kWorks,
  kStopped,      // the guest is paused: nothing of its state changes, and its port is stopped
  kOffersState,  // stopped; the client reads the saved state
  kTakesState,   // stopped; the client writes a saved state
  kStandsBy,     // the guest has another adapter at this port, in another VMM
};

// The client: a VMM with a session. If an adapter outlives its client, it is stopped and keeps everything
// when the client leaves.
enum class ClientState : std::uint8_t {
  kNone,
  kHere,
  kOutlivedNone,  // it will outlive its next client
  kOutlivedHere,
  kOutlivedGone,  // it has left; its session has not ended yet
};

// Where the VM is.
enum class Home : std::uint8_t {
  kThisHost,
  kAnotherHost,  // the VM will come or has gone: only its VMM is here
  // As kAnotherHost; the client was taken back from an earlier process, and this process does not bring the
  // VM here.
  kUnclaimed,
};

enum class LifeEvent : std::uint8_t {
  // The client's session.
  kConnected,
  kHungUp,  // a client that the adapter outlives has left
  kDisconnected,
  kReset,
  // A pause, by the client's migration messages or by the daemon.
  kStop,
  kOfferState,
  kTakeState,
  kRun,
  // Another VMM on this host.
  kStandBy,
  kLoaded,
  // Whether the adapter outlives its client.
  kOutlive,
  kEndWithClient,
  // The VM moves to or from another host.
  kAwait,
  kTakenBack,
  kClaim,
  kArrive,
  kDepart,
};
inline constexpr int kLifeEvents = static_cast<int>(LifeEvent::kDepart) + 1;

// The next state. Empty: the event cannot happen in that state. An event that a column does not know leaves
// it unchanged.
std::optional<Work> after(Work work, LifeEvent event);
std::optional<ClientState> after(ClientState client, LifeEvent event);
std::optional<Home> after(Home home, LifeEvent event);

// A column's state. Only the table changes it.
template <typename State>
class LifeColumn {
 public:
  explicit LifeColumn(State first) : state_(first) {}
  operator State() const { return state_; }
  bool allows(LifeEvent event) const { return after(state_, event).has_value(); }
  // If a client can cause the event, the caller has checked allows().
  void on(LifeEvent event) {
    const std::optional<State> next = after(state_, event);
    PVRDMA_CHECK(next, "the event does not happen in this state");
    state_ = *next;
  }

 private:
  State state_;
};

inline bool is_stopped(Work work) {
  return work != Work::kWorks && work != Work::kStandsBy;
}
inline bool is_here(ClientState client) {
  return client != ClientState::kNone && client != ClientState::kOutlivedNone;
}
inline bool is_outlived(ClientState client) {
  return client != ClientState::kNone && client != ClientState::kHere;
}

}  // namespace pvrdma::device
