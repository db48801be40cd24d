#include "support/served_host.h"

#include <cstdlib>
#include <filesystem>

#include "base/log.h"
#include "guestmem/sigbus.h"

namespace pvrdma::test {
namespace {

std::string make_directory() {
  std::string path = (std::filesystem::temp_directory_path() / "pvrdma-test-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("no temporary directory at " + path);
  return path;
}

// As pvrdmad's main() does: a guest may shrink its memory file.
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
      switch_(transport::SegmentId{}, transports_, clock_) {
  transports_.use(options.transport != nullptr ? *options.transport : local_);
  install_sigbus_handler_once();
  if (std::getenv("PVRDMA_TEST_LOG") == nullptr) log::set_level(log::Level::kError);
  for (std::uint32_t index = 0; index < options.adapter_count; ++index) {
    paths_.push_back(directory_ + "/" + adapter_config(index, options).name + ".sock");
    adapters_.push_back(serve(index, paths_.back()));
  }
  thread_ = std::thread([this] { loop_->run(); });
}

std::unique_ptr<adapters::ServedAdapter> ServedHost::serve(std::uint32_t index, const std::string& path) {
  auto served =
      must(adapters::ServedAdapter::create({.device = adapter_config(index, options_), .socket = path},
                                           switch_, *loop_, clock_, nullptr, reaper_.get()));
  must(served->start());
  return served;
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
