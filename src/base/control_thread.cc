#include "base/control_thread.h"

#include <atomic>
#include <chrono>
#include <new>
#include <pthread.h>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/time.h"

namespace pvrdma {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(5);
constexpr Duration kLogPause = std::chrono::seconds(10);

thread_local bool patient = false;
thread_local const char* thread_name = "";

// The new handler: operator new tries again when it returns.
void on_no_memory() {
  if (!patient) throw std::bad_alloc();
  pause_for_memory();
}

}  // namespace

void begin_control_thread(const char* name) {
  ::pthread_setname_np(::pthread_self(), name);  // another thread's name is a file, which the sandbox forbids
  std::set_new_handler(on_no_memory);
  thread_name = name;
  patient = true;
}

void pause_for_memory() {
  static std::atomic<Duration::rep> next_line{0};
  const Instant now = Instant::now();
  Duration::rep due = next_line.load(std::memory_order_relaxed);
  if (now.since_start.count() >= due &&
      next_line.compare_exchange_strong(due, (now + kLogPause).since_start.count())) {
    log::error("there is no memory: thread {} waits; the adapters are still served", thread_name);
  }
  std::this_thread::sleep_for(kPause);
}

Impatience::Impatience() : was_patient_(std::exchange(patient, false)) {}

Impatience::~Impatience() {
  patient = was_patient_;
}

}  // namespace pvrdma
