// ask() and others: run a function on a shard, or on several, and wait for the answers for a bounded time.
// Must not be called on a shard's own thread.
#pragma once

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "base/time.h"
#include "shard/loop.h"

namespace pvrdma::shard {

// What becomes of a question that is not answered in time.
enum class Late : std::uint8_t {
  kAwaited,  // it will not run; if it has begun, the caller waits until it ends
  kUndone,   // it will not run; if it has begun, its undo follows it (EINPROGRESS)
  kLeft,     // it runs when the shard comes to it
};

// A question that was posted to a shard. Thread: one.
template <typename Answer>
class Asked {
 public:
  template <typename Question>
  Asked(Loop& loop, Question question, const char* what)
      : Asked(
            loop, std::move(question), [](const Answer*) {}, what) {}
  // `undo` takes the answer to a question that ended too late; null: it threw an exception.
  template <typename Question, typename Undo>
  Asked(Loop& loop, Question question, Undo undo, const char* what, Room room = Room::kShared) {
    auto reply = std::make_shared<Reply>();
    auto answer_it = [reply, what, question = std::move(question), undo = std::move(undo)]() mutable {
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
      bool is_late = false;
      {
        const std::lock_guard lock(reply->mutex);
        is_late = reply->withdrawn;
        if (!is_late) reply->answer = std::move(answer);
        reply->refused = refused;
        reply->done = true;
      }
      reply->arrived.notify_one();
      if (!is_late) return;
      try {
        undo(answer ? &*answer : nullptr);
      } catch (const std::bad_alloc&) {
        log::error("the shard has no memory to undo what came too late: {}", what);
      }
    };
    if (loop.post(Task(std::move(answer_it), what), room)) reply_ = std::move(reply);
  }

  // False: the shard has refused it and will not run it.
  bool is_posted() const { return reply_ != nullptr; }
  // Called once. As ask().
  Result<Answer> wait(Duration patience, Late late = Late::kAwaited) {
    if (reply_ == nullptr)
      return fail(ErrorKind::kUnavailable, EAGAIN,
                  "the shard takes no questions now: it is stopping or overloaded");
    std::unique_lock lock(reply_->mutex);
    const auto is_done = [this] { return reply_->done; };
    bool arrived = reply_->arrived.wait_for(lock, patience, is_done);
    if (!arrived && reply_->begun && late == Late::kAwaited) {
      reply_->arrived.wait(lock, is_done);
      arrived = true;
    }
    reply_->withdrawn = !arrived && late != Late::kLeft;
    const bool is_under_way = !arrived && reply_->begun;
    lock.unlock();  // making the error may wait for memory, and the shard must not wait for the lock
    if (!arrived) {
      return fail(ErrorKind::kUnavailable, is_under_way && late == Late::kUndone ? EINPROGRESS : ETIMEDOUT,
                  "the shard did not answer in time: it is overloaded or stuck");
    }
    if (!reply_->answer && reply_->refused != ENOMEM)
      return fail(reply_->refused, "the shard could not answer: the daemon's log has the reason");
    if (!reply_->answer)
      return fail(ErrorKind::kUnavailable, ENOMEM, "the shard has no memory for an answer now");
    return *std::move(reply_->answer);
  }

 private:
  struct Reply {
    std::mutex mutex;
    std::condition_variable arrived;
    bool begun = false;  // guarded by mutex, like the following members
    bool withdrawn = false;
    bool done = false;
    std::optional<Answer> answer;  // empty: `refused` says why
    int refused = 0;
  };

  std::shared_ptr<Reply> reply_;  // null: the shard did not take the question
};

// `question` runs on the loop's thread and returns a value. After `patience` the caller withdraws a question
// that has not begun, and it will not run. If it has begun, the caller waits until it ends, however long that
// takes, so that the caller never takes a finished action for an unfinished one. The question is destroyed
// later, so it must own what it needs. `what` names the task in the log. Errors: kUnavailable: EAGAIN (the
// shard takes no tasks: it stops, or its mailbox is full), ETIMEDOUT, ENOMEM; kInternal: EFAULT (the question
// threw another exception, which is a mistake of the daemon).
template <typename Question>
auto ask(Loop& loop, Duration patience, Question question, const char* what = "a question")
    -> Result<std::invoke_result_t<Question>> {
  return Asked<std::invoke_result_t<Question>>(loop, std::move(question), what).wait(patience);
}

// As ask(), but the caller does not wait for a question that has begun, either (EINPROGRESS). `undo` then
// follows it on the shard, and takes a pointer to the answer; null: the question threw an exception.
template <typename Question, typename Undo>
auto ask_or_undo(Loop& loop, Duration patience, Question question, Undo undo, const char* what)
    -> Result<std::invoke_result_t<Question>> {
  return Asked<std::invoke_result_t<Question>>(loop, std::move(question), std::move(undo), what)
      .wait(patience, Late::kUndone);
}

// As ask(), but the question is not withdrawn after ETIMEDOUT: it runs before all that this thread asks the
// shard later. It has the room in the mailbox that is kept for tasks which must not be refused.
template <typename Question>
auto insist(Loop& loop, Duration patience, Question question, const char* what)
    -> Result<std::invoke_result_t<Question>> {
  using Answer = std::invoke_result_t<Question>;
  return Asked<Answer>(
             loop, std::move(question), [](const Answer*) {}, what, Room::kKept)
      .wait(patience, Late::kLeft);
}

// Asks all loops at once, each a copy of `question`, which takes the loop's index. Returns the answers in the
// order of the loops; each may be an error of ask(). `patience` is for all together.
template <typename Question>
auto ask_all(std::span<Loop* const> loops, Duration patience, const Question& question, const char* what)
    -> std::vector<Result<std::invoke_result_t<Question, std::size_t>>> {
  using Answer = std::invoke_result_t<Question, std::size_t>;
  const Instant until = Instant::now() + patience;
  std::vector<Asked<Answer>> asked;
  asked.reserve(loops.size());
  for (std::size_t i = 0; i < loops.size(); ++i)
    asked.emplace_back(
        *loops[i], [question, i]() mutable { return question(i); }, what);
  std::vector<Result<Answer>> answers;
  answers.reserve(loops.size());
  for (Asked<Answer>& each : asked)
    answers.push_back(each.wait(std::max<Duration>(until - Instant::now(), Duration{})));
  return answers;
}

}  // namespace pvrdma::shard
