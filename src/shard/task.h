// Task: a move-only function that is called once, to pass from one thread to another (std::function would
// have to be copyable). Thread: a value.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace pvrdma::shard {

class Task {
 public:
  Task() = default;

  // `what` names the task in the log. It must be a literal or live as long.
  template <typename F>
  requires(!std::is_same_v<F, Task>) Task(F call, const char* what = "a task")
      : call_(std::make_unique<Holder<F>>(std::move(call))), what_(what) {}

  explicit operator bool() const { return call_ != nullptr; }
  void operator()() { call_->run(); }
  const char* what() const { return what_; }

 private:
  struct Callable {
    virtual ~Callable() = default;
    virtual void run() = 0;
  };
  template <typename F>
  struct Holder final : Callable {
    explicit Holder(F from) : call(std::move(from)) {}
    void run() override { call(); }
    F call;
  };
  std::unique_ptr<Callable> call_;
  const char* what_ = "";
};

}  // namespace pvrdma::shard
