// Places: how many of something there may be at once, in all and of each holder. A holder has a place while
// its Place lives. Who finds none may wait, if few others do.
//
// Thread: any.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>

#include "base/time.h"

namespace pvrdma::api {

class Places {
 public:
  // At most `most` wait at once, each for at most `patience`.
  struct Waiting {
    std::size_t most = 0;
    Duration patience{0};
  };

  Places(std::size_t most, std::size_t of_holder_most) : Places(most, of_holder_most, Waiting{}) {}
  Places(std::size_t most, std::size_t of_holder_most, Waiting waiting)
      : most_(most), of_holder_most_(of_holder_most), waiting_limits_(waiting) {}

  class Place {
   public:
    // Blocks while it waits; `stop` ends that. `places` is borrowed.
    Place(Places& places, std::string holder, const std::stop_token& stop = {})
        : places_(places), holder_(std::move(holder)), is_taken_(places.take(holder_, stop)) {}
    ~Place() {
      if (is_taken_) places_.give_back(holder_);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    // False: there was no place.
    bool is_taken() const { return is_taken_; }

   private:
    Places& places_;
    const std::string holder_;
    const bool is_taken_;
  };

  // How many places each holder has.
  std::map<std::string, std::size_t> taken() const {
    const std::lock_guard lock(mutex_);
    return of_holder_;
  }

 private:
  bool take(const std::string& holder, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (!is_free(holder) && waiting_ < waiting_limits_.most) {
      ++waiting_;
      given_back_.wait_for(lock, stop, waiting_limits_.patience, [&] { return is_free(holder); });
      --waiting_;
    }
    if (!is_free(holder)) return false;
    ++of_holder_[holder];
    ++count_;
    return true;
  }
  void give_back(const std::string& holder) {
    const std::lock_guard lock(mutex_);
    --count_;
    const auto found = of_holder_.find(holder);
    if (--found->second == 0) of_holder_.erase(found);
    given_back_.notify_all();
  }
  // The mutex must be held.
  bool is_free(const std::string& holder) const {
    const auto found = of_holder_.find(holder);
    return count_ < most_ && (found == of_holder_.end() || found->second < of_holder_most_);
  }

  const std::size_t most_;
  const std::size_t of_holder_most_;
  const Waiting waiting_limits_;
  mutable std::mutex mutex_;
  std::condition_variable_any given_back_;
  std::size_t count_ = 0;                         // guarded, like the next
  std::map<std::string, std::size_t> of_holder_;  // those that are not 0
  std::size_t waiting_ = 0;
};

}  // namespace pvrdma::api
