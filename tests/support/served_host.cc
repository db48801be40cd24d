#include "support/served_host.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <unistd.h>

#include "base/check.h"
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
      gids_(options.shards,
            options.ward
                ? std::optional(transport::ShardNumber(static_cast<std::uint16_t>(options.shards - 1)))
                : std::nullopt),
      rings_(must(transport::siblings::HostRings::create(options.shards))) {
  for (std::uint16_t i = 0; i < options.shards; ++i) add_shard(transport::ShardNumber(i));
  gids_.set_tell(
      [this](transport::ShardNumber from, transport::SegmentId segment, fabric::HostGids::PortNumber port) {
        for (std::size_t i = 0; i < shards_.size(); ++i) {
          if (i == from.value) continue;
          static_cast<void>(shards_[i].loop->post([this, i, from, segment, port] {
            shards_[i].fabric->on_works_again(from, segment, port, clock_.now());
          }));
        }
      });
  install_sigbus_handler_once();
  if (std::getenv("PVRDMA_TEST_LOG") == nullptr) log::set_level(log::Level::kError);
  for (std::uint32_t index = 0; index < options.adapter_count; ++index) {
    paths_.push_back(directory_ + "/" + adapter_config(index, options).name + ".sock");
    adapters_.push_back(serve(index, paths_.back()));
  }
  for (Shard& each : shards_) each.thread = std::thread([&loop = *each.loop] { loop.run(); });
}

void ServedHost::add_shard(transport::ShardNumber number) {
  Shard shard;
  shard.loop = must(shard::Loop::create({}, clock_));
  shard.fabric = std::make_unique<fabric::Fabric>(clock_, gids_, number);
  if (options_.shards > 1) {
    shard.siblings = must(transport::Siblings::create(rings_, number, *shard.loop, *shard.fabric));
    shard.fabric->use(*shard.siblings);
  } else {
    shard.fabric->use(options_.transport != nullptr ? *options_.transport : local_);
  }
  shard.parts = std::make_unique<adapters::ServingParts>(
      adapters::ServingParts{.loop = *shard.loop,
                             .clock = clock_,
                             .reaper = reaper_.get(),
                             .keeping = options_.kept ? &keeping_ : nullptr});
  shards_.push_back(std::move(shard));
}

std::unique_ptr<adapters::ServedAdapter> ServedHost::serve(std::uint32_t index, const std::string& path,
                                                           const adapters::GivenBack* given) {
  auto served = must(
      adapters::ServedAdapter::create({.device = adapter_config(index, options_), .socket = path},
                                      shard_of(index).fabric->segment({}), *shard_of(index).parts, given));
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
  PVRDMA_CHECK(shards_.size() == 1, "the adapters of several shards are kept one by one");
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
  for (Shard& each : shards_) each.loop->stop();
  for (Shard& each : shards_) each.thread.join();
  adapters_.clear();
  for (Shard& each : shards_) each.siblings.reset();
  std::filesystem::remove_all(directory_);
}

}  // namespace pvrdma::test
