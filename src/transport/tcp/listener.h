// Listener: the socket on which peers arrive, at the address of the tagged vmknic.
//
// The address may come later than the settings (an interface that is still down): it tries again each second
// and logs only when the reason changes. So it does when the process is out of file descriptors.
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
  // Told of each connection that arrived: non-blocking, and its source address.
  using OnAccepted = std::function<void(Fd socket, const IpAddress& from)>;

  // `loop` and `clock` are borrowed and outlive this.
  Listener(shard::Loop& loop, const Clock& clock, OnAccepted on_accepted);
  ~Listener() override;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Begins to listen there, or to try. Closes what was open.
  void open(const IpAddress& address, std::uint16_t port);
  void close();

  bool listening() const { return static_cast<bool>(socket_) && watched_; }
  // Why it does not listen although it should; empty otherwise.
  const std::string& trouble() const { return trouble_; }

  void on_time(Instant now);
  Instant next_deadline() const { return retry_at_; }

 private:
  void try_open(Instant now);
  // errno of the step that failed; 0: it listens.
  int bind_and_listen();
  void pause(int code, Instant now);
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
