// HostPipes: the two pipes between this host and another: the one that this host dialled and the one that it
// accepted. It dials again when the first breaks, and says whether the host is up.
//
// It is made when its host is first mentioned and lives as long as the Hca, so that paths can hold it. Pipes
// come and go: a path asks for the current pipe at each call and uses it only until the call ends.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "transport/hca/introduction.h"
#include "transport/hca/pipe.h"

namespace pvrdma::transport::hca {

// The pause between attempts to dial.
inline constexpr Duration kRedialFirst = std::chrono::milliseconds(50);
inline constexpr Duration kRedialMax = std::chrono::seconds(1);
// A dial without a result by then is given up.
inline constexpr Duration kDialMax = std::chrono::seconds(30);

class HostPipes {
 public:
  // Both borrowed; they outlive this.
  HostPipes(HcaShared& shared, Introducer& introducer, HostId id)
      : shared_(shared), introducer_(introducer), id_(id) {}
  ~HostPipes();
  HostPipes(const HostPipes&) = delete;
  HostPipes& operator=(const HostPipes&) = delete;

  const std::string& name() const { return name_; }
  // `denied`: why no pipe may exist with the host; empty: pipes may exist.
  void configure(const std::string& name, const std::string& denied, Instant now);
  void close(wire::GoodbyeReason reason, std::string_view sentence, Instant now);
  // The device or its port failed: nothing gets through.
  void break_off(const std::string& trouble, Instant now);
  // Takes over a pipe that the other host dialled. Never called from within a pipe.
  void adopt(std::unique_ptr<PipeEnd> end, Instant now);

  bool is_up() const { return is_up_; }
  const std::string& trouble() const { return trouble_; }
  std::uint64_t falls() const { return falls_; }

  // The pipe for requests and datagrams from here. Null: the host is not up; Inbound::on_ready() follows when
  // it is.
  Pipe* requests() { return is_up_ ? dialled_.get() : nullptr; }
  // The pipe for answers to the other host's requests. Null: there is no such pipe.
  Pipe* answers() { return accepted_.get(); }

  void stop(SegmentId segment, const verbs::Connection& connection);
  void stop_all(const verbs::Engine& engine);

  void turn(Instant now, bool may_ask);
  void on_time(Instant now);
  Instant next_deadline() const;

 private:
  struct Job;

  void dial(Instant now);
  void on_dialled(Job& job);
  void end_dialled(Instant now);
  std::unique_ptr<Pipe> make(Pipe::Role role, std::unique_ptr<PipeEnd>& end, Instant now);
  void tell(Instant now);
  void bury(std::unique_ptr<Pipe>& pipe);
  void dial_later(Instant now);
  void note(const char* what, Instant now);

  HcaShared& shared_;
  Introducer& introducer_;
  const HostId id_;
  std::string name_;
  std::string denied_ = "nothing is known of the host";
  std::unique_ptr<Pipe> dialled_;
  std::unique_ptr<Pipe> accepted_;
  std::uint64_t attempt_ = 0;
  Instant dialling_until_{};  // in the future: a dial is in progress
  Instant dial_at_{};
  Duration pause_ = kRedialFirst;
  Instant usable_at_ = Instant::never();  // when dialled_ may be used, once it is connected
  Instant used_since_ = Instant::never();
  Duration proof_{0};
  bool is_up_ = false;
  struct {
    bool changed = false;
    bool restored = false;
    bool ready = false;
  } news_;  // what Inbound has not been told yet
  std::string trouble_;
  std::string noted_;  // the trouble logged last
  std::uint64_t falls_ = 0;
  log::LogLimiter limiter_{8, std::chrono::seconds(10)};
};

}  // namespace pvrdma::transport::hca
