#include "base/blame.h"

#include <algorithm>

namespace pvrdma {

Blame::Party::Party(Blame& blame) : blame_(blame) {
  blame_.parties_.push_back(this);
}

Blame::Party::~Party() {
  std::erase(blame_.parties_, this);
}

void Blame::Piece::begin() {
  outer_ = blame_->current_;
  blame_->charge(this);
}

// Charges the time since the last mark to the current piece, and makes `next` the current one.
void Blame::charge(Piece* next) {
  const Instant now = clock_.now();
  if (current_ != nullptr && current_->party_ != nullptr) {
    Party& party = *current_->party_;
    if (party.turn_ != turn_) party.spent_ = Duration{0};
    party.turn_ = turn_;
    party.spent_ += now - mark_;
  }
  mark_ = now;
  current_ = next;
}

Blame::Blamed Blame::end_long_turn(Instant now, Duration idle) {
  Blamed worst;
  for (Party* party : parties_) {
    if (!watching_ || party->turn_ != turn_) continue;
    const Duration took = party->spent_ - idle;
    if (took < kLongPiece) continue;
    party->on_blamed(took);
    if (took > worst.took) worst = {party, took};
  }
  watching_ = true;
  until_ = now + kWatchesFor;
  return worst;
}

}  // namespace pvrdma
