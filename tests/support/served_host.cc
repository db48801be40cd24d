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
    : reaper_(must(Reaper::create())),
      directory_(make_directory()),
      loop_(must(shard::Loop::create({}, clock_))),
      switch_(transport::SegmentId{}, transports_, clock_) {
  transports_.use(options.transport != nullptr ? *options.transport : local_);
  install_sigbus_handler_once();
  if (std::getenv("PVRDMA_TEST_LOG") == nullptr) log::set_level(log::Level::kError);
  for (std::uint32_t index = 0; index < options.adapter_count; ++index) {
    const device::AdapterConfig config = adapter_config(index, options);
    paths_.push_back(directory_ + "/" + config.name + ".sock");
    adapters_.push_back(must(adapters::ServedAdapter::create(
        {.device = config, .socket = paths_.back()}, switch_, *loop_, clock_, nullptr, reaper_.get())));
    must(adapters_.back()->start());
  }
  thread_ = std::thread([this] { loop_->run(); });
}

ServedHost::~ServedHost() {
  loop_->stop();
  thread_.join();
  adapters_.clear();
  std::filesystem::remove_all(directory_);
}

}  // namespace pvrdma::test
