// Listener: the socket on which peers arrive, at the address of the tagged vmknic.
//
// The address may not exist yet when the settings come (its interface may be down). The listener tries again
// each second, and logs only when the reason changes. It does the same when the process has no free file
// descriptors.
//
// Thread: shard-owned.
#pragma once

#include <functional>
#include <string>

#include "base/fd.h"
#include "base/ip_address.h"
#include "base/time.h"
#include "shard/loop.h"

namespace pvrdma::transport::tcp {

class Listener final : private shard::FdHandler {
 public:
  // Called with the non-blocking socket of each new connection, and its source address.
  using OnAccepted = std::function<void(Fd socket, const IpAddress& from)>;

  // `loop` and `clock` are borrowed and outlive the listener.
  Listener(shard::Loop& loop, const Clock& clock, OnAccepted on_accepted);
  ~Listener() override;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Closes the old socket, then listens at the address or begins to try.
  void open(const IpAddress& address, std::uint16_t port);
  void close();

  bool listening() const { return static_cast<bool>(socket_) && watched_; }
  // Why it does not listen although it should; empty if it listens or should not.
  const std::string& trouble() const { return trouble_; }

  void on_time(Instant now);
  Instant next_deadline() const { return retry_at_; }

 private:
  void try_open(Instant now);
  // The errno of the step that failed; 0: it listens.
  int bind_and_listen();
  void pause(int code, const char* doing, Instant now);
  std::string sentence(int code, const char* doing) const;
  void on_fd_ready(int fd, shard::Readiness ready) override;
  std::string what() const override { return "the listener for other hosts"; }

  shard::Loop& loop_;
  const Clock& clock_;
  const OnAccepted on_accepted_;
  IpAddress address_;
  std::uint16_t port_ = 0;
  Fd socket_;
  bool watched_ = false;
  Instant retry_at_ = Instant::never();
  std::string trouble_;
};

}  // namespace pvrdma::transport::tcp
