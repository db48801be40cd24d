// ask(): runs a function on a shard and waits for its answer for a bounded time. Must not be called on the
// shard's own thread.
#pragma once

#include <cerrno>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "base/time.h"
#include "shard/loop.h"

namespace pvrdma::shard {

// `question` runs on the loop's thread and returns a value. After `patience` the caller withdraws a question
// that has not begun, and it will not run. If it has begun, the caller waits until it ends, however long that
// takes, so that the caller never takes a finished action for an unfinished one. The question is destroyed
// later, so it must own what it needs. `what` names the task in the log. Errors: kUnavailable: EAGAIN (the
// shard takes no tasks: it stops, or its mailbox is full), ETIMEDOUT, ENOMEM; kInternal: EFAULT (the question
// threw another exception, which is a mistake of the daemon).
template <typename Question>
auto ask(Loop& loop, Duration patience, Question question, const char* what = "a question")
    -> Result<std::invoke_result_t<Question>> {
  using Answer = std::invoke_result_t<Question>;
  struct Reply {
    std::mutex mutex;
    std::condition_variable arrived;
    bool begun = false;  // guarded by mutex, like the following members
    bool withdrawn = false;
    bool done = false;
    std::optional<Answer> answer;  // empty: `refused` says why
    int refused = 0;
  };
  auto reply = std::make_shared<Reply>();
  auto answer_it = [reply, what, question = std::move(question)]() mutable {
    {
      const std::lock_guard lock(reply->mutex);
      if (reply->withdrawn) return;
      reply->begun = true;
    }
    std::optional<Answer> answer;
    int refused = 0;
    try {
      answer.emplace(question());
    } catch (const std::bad_alloc&) {  // the caller gets the error; the shard goes on
      refused = ENOMEM;
    } catch (const std::exception& mistake) {
      refused = EFAULT;
      log::error("the shard could not answer {}: {}", what, mistake.what());
    }
    {
      const std::lock_guard lock(reply->mutex);
      reply->answer = std::move(answer);
      reply->refused = refused;
      reply->done = true;
    }
    reply->arrived.notify_one();
  };
  const bool posted = loop.post(Task(std::move(answer_it), what));
  if (!posted)
    return fail(ErrorKind::kUnavailable, EAGAIN,
                "the shard takes no questions now: it is stopping or overloaded");
  std::unique_lock lock(reply->mutex);
  const auto is_done = [&reply] { return reply->done; };
  bool arrived = reply->arrived.wait_for(lock, patience, is_done);
  if (!arrived && reply->begun) {
    reply->arrived.wait(lock, is_done);
    arrived = true;
  }
  reply->withdrawn = !arrived;
  lock.unlock();  // making the error may wait for memory, and the shard must not wait for the lock
  if (!arrived) {
    return fail(ErrorKind::kUnavailable, ETIMEDOUT,
                "the shard did not answer in time: it is overloaded or stuck");
  }
  if (!reply->answer && reply->refused != ENOMEM)
    return fail(reply->refused, "the shard could not answer: the daemon's log has the reason");
  if (!reply->answer)
    return fail(ErrorKind::kUnavailable, ENOMEM, "the shard has no memory for an answer now");
  return *std::move(reply->answer);
}

}  // namespace pvrdma::shard
