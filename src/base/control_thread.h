// The control plane's threads: no guest waits for them. If the system has no memory, operator new waits on
// these threads until there is some, and logs that. So no operation of theirs is left half done, and
// libraries that allocate where no exception may leave (nlohmann's JSON, in its destructor) do not end the
// daemon. On every other thread operator new throws as usual: the shard refuses the request.
//
// So such a thread must not allocate while it holds a lock that the shard takes.
//
// Thread: any.
#pragma once

namespace pvrdma {

// Makes the calling thread a control thread with this name (at most 15 bytes). Called once, as the thread's
// first action.
void begin_control_thread(const char* name);

// Waits as operator new does between two attempts. Code that uses Impatience calls it before its own next
// attempt.
void pause_for_memory();

// While it exists, operator new throws on this thread too.
class Impatience {
 public:
  Impatience();
  ~Impatience();
  Impatience(const Impatience&) = delete;
  Impatience& operator=(const Impatience&) = delete;

 private:
  const bool was_patient_;
};

}  // namespace pvrdma
