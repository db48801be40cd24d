// ReadPlaces: how many reads of other hosts run at once, in all and of each host. A read has a place while
// its Place lives.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace pvrdma::api {

class ReadPlaces {
 public:
  ReadPlaces(std::size_t most, std::size_t of_host_most) : most_(most), of_host_most_(of_host_most) {}

  class Place {
   public:
    // `host` is borrowed.
    Place(ReadPlaces& places, const std::string& host)
        : places_(places), host_(host), is_taken_(places.take(host)) {}
    ~Place() {
      if (is_taken_) places_.give_back(host_);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    // False: all places are taken.
    bool is_taken() const { return is_taken_; }

   private:
    ReadPlaces& places_;
    const std::string& host_;
    const bool is_taken_;
  };

 private:
  bool take(const std::string& host) {
    const std::lock_guard lock(mutex_);
    if (count_ == most_) return false;
    std::size_t& of_host = of_host_[host];
    if (of_host == of_host_most_) return false;
    ++of_host;
    ++count_;
    return true;
  }
  void give_back(const std::string& host) {
    const std::lock_guard lock(mutex_);
    --count_;
    const auto found = of_host_.find(host);
    if (--found->second == 0) of_host_.erase(found);
  }

  const std::size_t most_;
  const std::size_t of_host_most_;
  std::mutex mutex_;
  std::size_t count_ = 0;                       // guarded, like the next
  std::map<std::string, std::size_t> of_host_;  // those that are not 0
};

}  // namespace pvrdma::api
