#include "support/served_host.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <unistd.h>

#include "base/log.h"
#include "guestmem/sigbus.h"

namespace pvrdma::test {
namespace {

std::string make_directory() {
  std::string path = (std::filesystem::temp_directory_path() / "pvrdma-test-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("no temporary directory at " + path);
  return path;
}

// As in pvrdmad's main(), because a guest may shrink its memory file.
void install_sigbus_handler_once() {
  static const bool installed = (must(guestmem::install_sigbus_handler()), true);
  (void)installed;
}

}  // namespace

ServedHost::ServedHost(const TestbenchOptions& options)
    : options_(options),
      reaper_(must(Reaper::create())),
      directory_(make_directory()),
      loop_(must(shard::Loop::create({}, clock_))),
      parts_{.loop = *loop_,
             .clock = clock_,
             .reaper = reaper_.get(),
             .keeping = options.kept ? &keeping_ : nullptr},
      switch_(transport::SegmentId{}, transports_, clock_, host_) {
  transports_.use(options.transport != nullptr ? *options.transport : local_);
  install_sigbus_handler_once();
  if (std::getenv("PVRDMA_TEST_LOG") == nullptr) log::set_level(log::Level::kError);
  for (std::uint32_t index = 0; index < options.adapter_count; ++index) {
    paths_.push_back(directory_ + "/" + adapter_config(index, options).name + ".sock");
    adapters_.push_back(serve(index, paths_.back()));
  }
  thread_ = std::thread([this] { loop_->run(); });
}

std::unique_ptr<adapters::ServedAdapter> ServedHost::serve(std::uint32_t index, const std::string& path,
                                                           const adapters::GivenBack* given) {
  auto served = must(adapters::ServedAdapter::create(
      {.device = adapter_config(index, options_), .socket = path}, switch_, parts_, given));
  must(served->start());
  return served;
}

adapters::KeptAdapter ServedHost::keep_here(std::uint32_t index, device::Adapter::Objects objects) {
  return adapters_[index]->keep(
      objects, [](adapters::KeptId) { return false; }, clock_.now());
}

Result<void> ServedHost::take_back_here(std::uint32_t index, const adapters::KeptAdapter& kept) {
  std::map<adapters::KeptId, Fd> fds;
  for (const auto& [id, fd] : kept.fds) fds.emplace(id, Fd(::dup(fd.get())));
  const auto given = adapters::read_kept(std::move(fds), kept.stream);
  if (!given) return Failure(given.error());
  if (adapters_[index] != nullptr) adapters_[index]->leave();
  adapters_[index].reset();
  adapters_[index] = serve(index, paths_[index], &*given);
  return adapters_[index]->take_back(*given);
}

adapters::KeptAdapter ServedHost::keep(std::uint32_t index, device::Adapter::Objects objects) {
  return on_shard(index, [=, this](adapters::ServedAdapter&) { return keep_here(index, objects); });
}

Result<void> ServedHost::take_back(std::uint32_t index, const adapters::KeptAdapter& kept) {
  return on_shard(index, [&](adapters::ServedAdapter&) { return take_back_here(index, kept); });
}

void ServedHost::restart() {
  on_shard(0, [this](adapters::ServedAdapter&) {
    std::vector<adapters::KeptAdapter> kept;
    for (std::uint32_t index = 0; index < adapters_.size(); ++index)
      kept.push_back(keep_here(index, device::Adapter::Objects::kSaved));
    for (const auto& adapter : adapters_) adapter->leave();
    for (auto& adapter : adapters_) adapter.reset();
    for (std::uint32_t index = 0; index < adapters_.size(); ++index) must(take_back_here(index, kept[index]));
  });
}

std::uint32_t ServedHost::add_twin(std::uint32_t index) {
  paths_.push_back(paths_[index] + ".twin");
  adapters_.push_back(
      on_shard(index, [this, index](adapters::ServedAdapter&) { return serve(index, paths_.back()); }));
  return static_cast<std::uint32_t>(adapters_.size() - 1);
}

ServedHost::~ServedHost() {
  loop_->stop();
  thread_.join();
  adapters_.clear();
  std::filesystem::remove_all(directory_);
}

}  // namespace pvrdma::test
