#include "device/life.h"

namespace pvrdma::device {

std::optional<Work> after(Work work, LifeEvent event) {
  using enum Work;
  const bool stands_by = work == kStandsBy;
  switch (event) {
    case LifeEvent::kHungUp:
      return work == kWorks ? kStopped : work;
    case LifeEvent::kDisconnected:
    case LifeEvent::kReset:
      return stands_by ? kStandsBy : kWorks;
    case LifeEvent::kStop:
      return stands_by ? std::nullopt : std::optional(kStopped);
    case LifeEvent::kOfferState:
      return work == kStopped ? std::optional(kOffersState) : std::nullopt;
    case LifeEvent::kTakeState:
      return work == kStopped ? std::optional(kTakesState) : std::nullopt;
    case LifeEvent::kRun:
      return stands_by ? std::nullopt : std::optional(kWorks);
    case LifeEvent::kStandBy:
      return kStandsBy;
    case LifeEvent::kLoaded:
      return stands_by ? kWorks : work;
    default:
      return work;
  }
}

std::optional<ClientState> after(ClientState client, LifeEvent event) {
  using enum ClientState;
  switch (event) {
    case LifeEvent::kConnected:
      if (client == kNone) return kHere;
      if (client == kOutlivedNone) return kOutlivedHere;
      return std::nullopt;
    case LifeEvent::kHungUp:
      if (client == kOutlivedHere) return kOutlivedGone;
      return is_outlived(client) ? std::optional(client) : std::nullopt;
    case LifeEvent::kDisconnected:
      return is_outlived(client) ? kOutlivedNone : kNone;
    case LifeEvent::kOutlive:
      if (client == kNone) return kOutlivedNone;
      return client == kHere ? kOutlivedHere : client;
    case LifeEvent::kEndWithClient:
      return is_here(client) ? kHere : kNone;
    default:
      return client;
  }
}

std::optional<Home> after(Home home, LifeEvent event) {
  using enum Home;
  switch (event) {
    case LifeEvent::kAwait:
      return home == kThisHost ? std::optional(kAnotherHost) : std::nullopt;
    case LifeEvent::kTakenBack:
      return home == kAnotherHost ? kUnclaimed : home;
    case LifeEvent::kDisconnected:
    case LifeEvent::kClaim:
      return home == kUnclaimed ? kAnotherHost : home;
    case LifeEvent::kArrive:
      return home == kThisHost ? std::nullopt : std::optional(kThisHost);
    case LifeEvent::kDepart:
      return home == kThisHost ? kAnotherHost : home;
    default:
      return home;
  }
}

}  // namespace pvrdma::device
