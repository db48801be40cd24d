// The control plane's threads: those that no guest waits for. Where the system has no memory, operator new
// waits on them until there is some, and says so in the log: nothing of what they do is half done then, and
// libraries that allocate where nothing may fail (nlohmann's JSON does, in its destructor) do not end the
// daemon. On every other thread operator new throws, as usual: the shard refuses what it has no memory for.
//
// So such a thread must not allocate while it holds a lock that the shard takes.
//
// Thread: any.
#pragma once

namespace pvrdma {

// Makes the calling thread one of them, with this name (at most 15 bytes). Once, as the first that it does.
void begin_control_thread(const char* name);

// What operator new does between two attempts. To be called, too, where Impatience had something wait.
void pause_for_memory();

// While it lives, operator new throws on this thread, too.
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
