// The life of an adapter: what it does, whether it has a client, and where its VM is. Each of the three is a
// column of one table, whose rows are the events below. docs/lifetimes.md draws it.
//
// The driver's progress (AdapterState) is another matter: a guest drives that, within an adapter that works.
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
  kOffersState,  // the same; the client reads the saved state
  kTakesState,   // the same; the client writes a saved state
  kStandsBy,     // the guest has another adapter at this port, in another VMM
};

// The client: a VMM with a session. An adapter that outlives its client is stopped, and keeps everything,
// when that leaves.
enum class Client : std::uint8_t {
  kNone,
  kHere,
  kOutlivedNone,  // the next one will be outlived
  kOutlivedHere,
  kOutlivedGone,  // it has left; its session has not ended yet
};

// Where the VM is.
enum class Home : std::uint8_t {
  kThisHost,
  kAnotherHost,  // the VM comes, or has gone: only its VMM is here
  kUnclaimed,    // likewise; its client was taken back, and nobody of this process brings the VM here
};

enum class LifeEvent : std::uint8_t {
  // The client's session.
  kConnected,
  kHungUp,  // a client that is outlived has left
  kDisconnected,
  kReset,
  // Pausing, by the client's migration messages or by the daemon.
  kStop,
  kOfferState,
  kTakeState,
  kRun,
  // Another VMM of this host.
  kStandBy,
  kLoaded,
  // Whether the adapter outlives its client.
  kOutlive,
  kEndWithClient,
  // The VM changes its host.
  kAwait,
  kTakenBack,
  kClaim,
  kArrive,
  kDepart,
};
inline constexpr int kLifeEvents = static_cast<int>(LifeEvent::kDepart) + 1;

// What follows; nothing: the event does not happen in that state. An event that a column does not know leaves
// it as it is.
std::optional<Work> after(Work work, LifeEvent event);
std::optional<Client> after(Client client, LifeEvent event);
std::optional<Home> after(Home home, LifeEvent event);

// A column's state, which only the table changes.
template <typename State>
class LifeColumn {
 public:
  explicit LifeColumn(State first) : state_(first) {}
  operator State() const { return state_; }
  bool allows(LifeEvent event) const { return after(state_, event).has_value(); }
  // The caller has asked allows() where a client can bring the event about.
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
inline bool is_here(Client client) {
  return client != Client::kNone && client != Client::kOutlivedNone;
}
inline bool is_outlived(Client client) {
  return client != Client::kNone && client != Client::kHere;
}

}  // namespace pvrdma::device
