// Blame: finds out who made a turn of a shard long. A party that can be blamed is an adapter: its memory
// slept when the shard touched it, its descriptors were slow, or its own work took long.
//
// A turn's work consists of pieces, each of which belongs to a party or to nobody. Pieces are nested: the
// piece of an adapter that sends contains that of the peer's engine, which gets the message in the same call.
// Time counts for the innermost piece. At the end of a long turn, each party to which kLongPiece or more of
// its time belongs is blamed. Time in which the thread may have waited for a core is subtracted from
// everybody's.
//
// Pieces are timed only while this is watching: after a long turn, for kWatchesFor. So nobody is blamed for
// the first long turn. Otherwise a piece costs a branch. ADR 32 has the reasons.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace pvrdma {

class Blame {
 public:
  static constexpr Duration kLongPiece = std::chrono::milliseconds(20);
  static constexpr Duration kWatchesFor = std::chrono::minutes(1);

  class Piece;

  class Party {
   public:
    // `blame` is borrowed and outlives the party. Throws std::bad_alloc.
    explicit Party(Blame& blame);
    virtual ~Party();
    Party(const Party&) = delete;
    Party& operator=(const Party&) = delete;

    Blame& blame() const { return blame_; }
    // Pieces that belong to it took so long in one turn. Called between turns. Must not throw, and must
    // neither make nor destroy a party.
    virtual void on_blamed(Duration took) = 0;
    // Its name for the log: "adapter web1".
    virtual std::string what() const = 0;

   private:
    friend class Blame;
    Blame& blame_;
    std::uint64_t turn_ = 0;  // that `spent_` belongs to
    Duration spent_{0};
  };

  // `clock` is borrowed.
  explicit Blame(const Clock& clock) : clock_(clock) {}
  Blame(const Blame&) = delete;
  Blame& operator=(const Blame&) = delete;

  bool is_watching() const { return watching_; }

  // --- For the loop; no piece exists meanwhile. ---

  void begin_turn(Instant now) {
    if (!watching_) [[likely]]
      return;
    ++turn_;
    if (now >= until_) watching_ = false;
  }
  struct Blamed {
    const Party* party = nullptr;  // null: nobody is blamed
    Duration took{0};
  };
  // A long turn ends. `idle`: how long the thread may have waited for a core in it. Returns who is blamed for
  // the largest part of it.
  Blamed end_long_turn(Instant now, Duration idle);

 private:
  void charge(Piece* next);

  const Clock& clock_;
  std::vector<Party*> parties_;  // borrowed: each removes itself
  bool watching_ = false;
  Instant until_{};
  std::uint64_t turn_ = 1;
  Piece* current_ = nullptr;
  Instant mark_{};  // up to which time has been charged
};

// From its construction to its destruction, time belongs to `party`, or to nobody if that is null. Pieces end
// in reverse order.
class Blame::Piece {
 public:
  Piece(Blame& blame, Party* party) : Piece(&blame, party) {}
  // `blame` may be null: then nothing is timed.
  Piece(Blame* blame, Party* party)
      : blame_(blame), party_(party), is_timed_(blame != nullptr && blame->watching_) {
    if (is_timed_) [[unlikely]]
      begin();
  }
  ~Piece() {
    if (is_timed_) [[unlikely]]
      blame_->charge(outer_);
  }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;

  // The party of the piece that contains this one; null: nobody.
  Party* outer_party() const { return outer_ != nullptr ? outer_->party_ : nullptr; }

 private:
  friend class Blame;
  void begin();

  Blame* const blame_;
  Party* const party_;
  Piece* outer_ = nullptr;
  const bool is_timed_;
};

}  // namespace pvrdma
