#include "control/store/etcd_testbed.h"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <stdexcept>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pvrdma::control::test {
namespace {

using std::chrono::steady_clock;

constexpr auto kHangGuard = std::chrono::minutes(1);

Fd listen_on_loopback() {
  Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(listener.get(), 64) != 0) {
    throw std::runtime_error("cannot listen on loopback");
  }
  return listener;
}

std::uint16_t port_of(const Fd& listener) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

Fd connect_to(std::uint16_t port) {
  Fd connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return Fd();
  return connection;
}

bool send_all(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

// The child's standard output and error go to `output`. It dies with this process.
pid_t spawn_program(const std::vector<std::string>& command, int output) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

std::string loopback_url(std::string_view scheme, std::uint16_t port) {
  return fmt::format("{}://127.0.0.1:{}", scheme, port);
}

}  // namespace

std::string run_program(const std::vector<std::string>& command) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  const pid_t child = spawn_program(command, write_end.get());
  write_end.reset();
  std::string printed;
  std::array<char, 4096> chunk{};
  for (ssize_t got = 0; (got = ::read(read_end.get(), chunk.data(), chunk.size())) > 0;) {
    printed.append(chunk.data(), static_cast<std::size_t>(got));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) throw std::runtime_error(fmt::format("{} failed ({}): {}", command[0], status, printed));
  return printed;
}

EtcdServer::EtcdServer(std::optional<EtcdTls> tls) : tls_(std::move(tls)) {
  // Another process may take a port after it is closed here and before etcd opens it.
  for (int attempt = 0; attempt < 5; ++attempt) {
    {
      const Fd client = listen_on_loopback();
      const Fd peer = listen_on_loopback();
      client_port_ = port_of(client);
      peer_port_ = port_of(peer);
    }
    if (spawn()) return;
    wipe();
  }
  throw std::runtime_error("etcd does not start");
}

EtcdServer::~EtcdServer() {
  if (pid_ > 0) kill();
}

std::string EtcdServer::url() const {
  return loopback_url(tls_ ? "https" : "http", client_port_);
}

bool EtcdServer::spawn() {
  const std::string peer = loopback_url("http", peer_port_);
  std::vector<std::string> command = {"etcd",
                                      "--data-dir",
                                      folder_.file("data"),
                                      "--name",
                                      "one",
                                      "--listen-client-urls",
                                      url(),
                                      "--advertise-client-urls",
                                      url(),
                                      "--listen-peer-urls",
                                      peer,
                                      "--initial-advertise-peer-urls",
                                      peer,
                                      "--initial-cluster",
                                      "one=" + peer,
                                      "--heartbeat-interval",
                                      "50",
                                      "--election-timeout",
                                      "500",
                                      "--logger",
                                      "zap",
                                      "--unsafe-no-fsync",
                                      "--bcrypt-cost",
                                      "4",
                                      "--log-level",
                                      "error"};
  if (tls_) {
    for (const auto& [flag, file] : {std::pair{"--trusted-ca-file", tls_->ca},
                                     {"--cert-file", tls_->certificate},
                                     {"--key-file", tls_->key}}) {
      command.insert(command.end(), {flag, file});
    }
    command.emplace_back("--client-cert-auth");
  }
  if (quota_bytes_ != 0)
    command.insert(command.end(), {"--quota-backend-bytes", std::to_string(quota_bytes_)});
  const Fd log(::open(folder_.file("log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  pid_ = spawn_program(command, log.get());
  const auto guard = steady_clock::now() + kHangGuard;
  while (!up()) {
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      return false;
    }
    if (steady_clock::now() > guard) throw std::runtime_error("etcd does not come up");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

bool EtcdServer::up() {
  HttpSession session(tls_ ? tls_->client : TlsFiles{}, {.body_mib = 1, .line_mib = 1});
  const auto answer = session.post({.url = url() + "/v3/maintenance/status",
                                    .body = "{}",
                                    .authorization = "",
                                    .timeout = std::chrono::milliseconds(2000)});
  return answer && answer->body.find("\"leader\"") != std::string::npos;
}

void EtcdServer::kill() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void EtcdServer::restart() {
  if (!spawn()) throw std::runtime_error("etcd does not start again");
}

void EtcdServer::wipe() {
  std::filesystem::remove_all(folder_.file("data"));
}

void EtcdServer::pause() {
  ::kill(pid_, SIGSTOP);
}

void EtcdServer::resume() {
  ::kill(pid_, SIGCONT);
}

std::string EtcdServer::ctl(std::vector<std::string> arguments, const std::string& user) {
  std::vector<std::string> command = {"env", "ETCDCTL_API=3", "etcdctl", "--command-timeout=60s",
                                      "--endpoints=" + url()};
  if (!user.empty()) command.push_back("--user=" + user);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_program(command);
}

std::int64_t EtcdServer::revision() {
  const auto answer = nlohmann::json::parse(ctl({"get", "x", "-w", "json"}));
  return answer["header"]["revision"].get<std::int64_t>();
}

Relay::Relay(std::uint16_t to_port)
    : to_port_(to_port), listener_(listen_on_loopback()), wake_(::eventfd(0, EFD_CLOEXEC)) {
  thread_ = std::thread([this] { run(); });
}

Relay::~Relay() {
  stopping_ = true;
  ::eventfd_write(wake_.get(), 1);
  thread_.join();
}

std::string Relay::url() const {
  return loopback_url("http", port_of(listener_));
}

void Relay::set(Mode mode) {
  wanted_ = mode;
  ::eventfd_write(wake_.get(), 1);
  for (Mode now = mode_; now != mode; now = mode_) mode_.wait(now);
}

void Relay::run() {
  while (!stopping_) {
    std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const Pair& pair : pairs_) {
      polled.push_back({pair.client.get(), POLLIN, 0});
      polled.push_back({pair.server.get(), POLLIN, 0});
    }
    ::poll(polled.data(), polled.size(), -1);
    if (polled[0].revents != 0) {
      eventfd_t count = 0;
      ::eventfd_read(wake_.get(), &count);
      if (wanted_ == Mode::kCut) pairs_.clear();
      mode_ = wanted_.load();
      mode_.notify_all();
      continue;
    }
    for (std::size_t at = pairs_.size(); at-- > 0;) {
      const bool client_ready = polled[2 + 2 * at].revents != 0;
      const bool server_ready = polled[3 + 2 * at].revents != 0;
      if ((client_ready && !forward(pairs_[at], true)) || (server_ready && !forward(pairs_[at], false))) {
        pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    if (polled[1].revents == 0) continue;
    Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Fd server = mode_ == Mode::kCut ? Fd() : connect_to(to_port_);
    if (client && server) pairs_.push_back({std::move(client), std::move(server)});
  }
}

bool Relay::forward(Pair& pair, bool to_server) const {
  std::array<char, 65536> chunk{};
  const ssize_t got = ::recv((to_server ? pair.client : pair.server).get(), chunk.data(), chunk.size(), 0);
  if (got <= 0) return false;
  if (!to_server && mode_ == Mode::kSwallow) return true;
  return send_all((to_server ? pair.server : pair.client).get(),
                  {chunk.data(), static_cast<std::size_t>(got)});
}

NonsenseServer::NonsenseServer(Answer answer) : answer_(std::move(answer)), listener_(listen_on_loopback()) {
  thread_ = std::thread([this] { run(); });
}

NonsenseServer::~NonsenseServer() {
  stopping_ = true;
  const Fd wake = connect_to(port_of(listener_));
  thread_.join();
}

std::string NonsenseServer::url() const {
  return loopback_url("http", port_of(listener_));
}

void NonsenseServer::run() {
  while (!stopping_) {
    const Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection && !stopping_) serve(connection.get());
  }
}

void NonsenseServer::serve(int connection) {
  std::string request;
  std::array<char, 65536> chunk{};
  std::size_t whole = std::string::npos;
  while (request.size() < whole) {
    const ssize_t got = ::recv(connection, chunk.data(), chunk.size(), 0);
    if (got <= 0) return;
    request.append(chunk.data(), static_cast<std::size_t>(got));
    const std::size_t end = request.find("\r\n\r\n");
    const std::size_t length = request.find("Content-Length: ");
    if (end != std::string::npos && length < end) whole = end + 4 + std::stoul(request.substr(length + 16));
  }
  const std::size_t path = request.find(' ') + 1;
  send_all(connection, answer_(request.substr(path, request.find(' ', path) - path)));
  // Closing at once, with unread bytes, would reset the connection and lose the answer.
  ::shutdown(connection, SHUT_WR);
  while (::recv(connection, chunk.data(), chunk.size(), 0) > 0) {
  }
}

}  // namespace pvrdma::control::test
