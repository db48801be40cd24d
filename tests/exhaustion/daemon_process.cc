#include "exhaustion/daemon_process.h"

#include <array>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fmt/core.h>
#include <fstream>
#include <iterator>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "base/fd.h"
#include "support/must.h"

namespace pvrdma::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr Duration kGuard = 30s;  // a hang guard
constexpr std::uint64_t kGuestBytes = 4 << 20;

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t entries(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

Fd connect_to(const std::string& path) {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const timeval limit{30, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) fd.reset();
  return fd;
}

}  // namespace

DaemonProcess::DaemonProcess(Cluster cluster) {
  folder_ = (fs::temp_directory_path() / "pvrdma-exhaustion-XXXXXX").string();
  if (::mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("mkdtemp");
  const std::string control_file = folder_ + "/control";
  {
    const Fd fd(::open(control_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    void* at = ::ftruncate(fd.get(), sizeof(FailControl)) == 0
                   ? ::mmap(nullptr, sizeof(FailControl), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0)
                   : MAP_FAILED;
    if (at == MAP_FAILED) throw std::runtime_error("the control file cannot be mapped");
    control_ = static_cast<FailControl*>(at);
  }
  std::ofstream config(folder_ + "/pvrdmad.toml");
  config << "[daemon]\napi_socket = \"" << folder_ << "/api\"\n";
  int number = 0;
  for (const char* adapter : {"A", "B"}) {
    config << fmt::format(
        "[[adapter]]\nname = \"{}\"\nsocket = \"{}\"\nmac = \"02:00:00:00:00:0{}\"\nhardware_version = 18\n",
        adapter, socket(adapter), ++number);
  }
  if (cluster == Cluster::kMember) {
    config << fmt::format(
        "[host]\nname = \"esx-01\"\nvmnics = [\"lo\"]\nsocket_folder = \"{0}\"\n"
        "[store]\ntype = \"sqlite\"\npath = \"{0}/store.db\"\n",
        folder_);
  }
  config.close();

  pid_ = ::fork();
  if (pid_ == 0) {
    const int log = ::open((folder_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(log, STDERR_FILENO);
    ::setenv("LD_PRELOAD", FAIL_NTH_LIBRARY, 1);
    ::setenv("PVRDMA_FAIL_CONTROL", control_file.c_str(), 1);
    const std::string file = folder_ + "/pvrdmad.toml";
    ::execl(PVRDMAD_BINARY, "pvrdmad", "--config", file.c_str(), nullptr);
    ::_exit(99);
  }
  const Instant deadline = Instant::now() + kGuard;
  while (!connect_to(folder_ + "/api")) {
    if (!is_alive() || Instant::now() > deadline)
      throw std::runtime_error("pvrdmad is not ready: " + logged());
    ::usleep(2000);
  }
  // The first mapping is that of the program, which is position-independent: addresses are relative to it.
  program_ = std::stoull(contents(fmt::format("/proc/{}/maps", pid_)).substr(0, 12), nullptr, 16);
}

DaemonProcess::~DaemonProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::munmap(control_, sizeof(FailControl));
  fs::remove_all(folder_);
}

bool DaemonProcess::is_alive() {
  if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
  return pid_ > 0;
}

int DaemonProcess::stop() {
  if (!is_alive()) return -1;
  ::kill(pid_, SIGTERM);
  int status = 0;
  ::waitpid(std::exchange(pid_, 0), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::unique_ptr<driver::Device> DaemonProcess::open(const std::string& adapter, Duration patience) const {
  auto bus = must(driver::VfioUserBus::connect(socket(adapter), patience));
  return must(driver::Device::open(std::move(bus),
                                   {.ram = {.size_bytes = kGuestBytes}, .command_timeout = patience}));
}

std::pair<int, std::string> DaemonProcess::request(const std::string& method, const std::string& path,
                                                   const std::string& body) const {
  const Fd fd = connect_to(folder_ + "/api");
  const std::string text = fmt::format(
      "{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n{}",
      method, path, body.size(), body);
  if (!fd || ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) return {0, {}};
  std::string answer;
  std::array<char, 4096> bytes;
  for (ssize_t got = 0; (got = ::recv(fd.get(), bytes.data(), bytes.size(), 0)) > 0;) {
    answer.append(bytes.data(), static_cast<std::size_t>(got));
  }
  const auto head = answer.find("\r\n\r\n");
  if (head == std::string::npos || answer.size() < 12) return {0, {}};
  return {std::stoi(answer.substr(9, 3)), answer.substr(head + 4)};
}

nlohmann::json DaemonProcess::ask(const std::string& path) const {
  const auto [status, body] = request("GET", path, "");
  if (status != 200) throw std::runtime_error(fmt::format("GET {}: {} {}", path, status, body));
  return nlohmann::json::parse(body);
}

std::size_t DaemonProcess::descriptors() const {
  return entries(fmt::format("/proc/{}/fd", pid_));
}

std::size_t DaemonProcess::threads() const {
  return entries(fmt::format("/proc/{}/task", pid_));
}

std::size_t DaemonProcess::address_space_bytes() const {
  return std::stoull(contents(fmt::format("/proc/{}/statm", pid_))) *
         static_cast<std::size_t>(::getpagesize());
}

std::string DaemonProcess::logged() const {
  return contents(folder_ + "/log");
}

std::string DaemonProcess::failed_site() const {
  std::string command = "addr2line -Cfpe " PVRDMAD_BINARY;
  for (const auto& frame : control_->failed_frames) {
    if (frame > program_) command += fmt::format(" {:#x}", frame - program_ - 1);
  }
  const std::unique_ptr<FILE, int (*)(FILE*)> output(::popen((command + " 2>&1").c_str(), "r"), ::pclose);
  std::string text;
  std::array<char, 1024> line;
  while (output && std::fgets(line.data(), line.size(), output.get()) != nullptr) {
    if (line[0] != '?') text += line.data();
  }
  return text;
}

}  // namespace pvrdma::test
