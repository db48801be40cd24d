#include <csignal>
#include <fmt/core.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "base/fd.h"
#include "control/store/observer_queue.h"
#include "control/store/store.h"
#include "control/store/store_testing.h"
#include "support/must.h"

namespace pvrdma::control::test {
namespace {

using pvrdma::test::code_of;
using pvrdma::test::kind_of;
using pvrdma::test::must;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class SqliteStoreTest : public testing::Test {
 protected:
  // Runs a store in a child process. The result of `body` is the exit code.
  template <typename Body>
  static pid_t in_child(Body body) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    int code = 1;
    try {
      code = body();
    } catch (const std::exception& problem) {
      fmt::print(stderr, "child: {}\n", problem.what());
    }
    ::_exit(code);
  }
  static int status_of(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::map<std::string, std::string> reopen() {
    Recorder recorder;
    const auto store = make_sqlite_store({.path = path_});
    must(store->start(recorder));
    return recorder.told().mirror;
  }

  TempFolder folder_;
  const std::string path_ = folder_.file("store.db");
};

// Another program that holds the file's write lock.
class Locker {
 public:
  explicit Locker(const std::string& path) {
    if (sqlite3_open(path.c_str(), &db_) != SQLITE_OK) throw std::runtime_error("cannot open " + path);
    run("BEGIN IMMEDIATE");
  }
  ~Locker() { sqlite3_close(db_); }
  Locker(const Locker&) = delete;
  Locker& operator=(const Locker&) = delete;

  void let_go() { run("ROLLBACK"); }
  void change() { run("PRAGMA user_version=1; COMMIT"); }

 private:
  void run(const char* sql) {
    if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) throw std::runtime_error(sql);
  }
  sqlite3* db_ = nullptr;
};

TEST_F(SqliteStoreTest, TellsItsDescriptionAndThatItIsThere) {
  const auto store = make_sqlite_store({.path = path_});
  EXPECT_EQ(store->description(), "sqlite:" + path_);
  EXPECT_EQ(store->lease(), std::chrono::seconds(0)) << "leftovers go at the next start";
  Recorder recorder;
  must(store->start(recorder));
  EXPECT_THAT(recorder.told().connections, ElementsAre(std::pair(true, std::string())));
  must(store->commit({{}, {put("a", "1")}}));
  EXPECT_EQ(recorder.told().changes.size(), 1U);  // reported before commit() returns
}

TEST_F(SqliteStoreTest, KeepsEveryAcknowledgedCommitOverKillMinusNine) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  Fd acknowledged(ends[0]);
  Fd to_parent(ends[1]);
  const pid_t child = in_child([&] {
    Recorder recorder;
    const auto store = make_sqlite_store({.path = path_});
    must(store->start(recorder));
    for (std::uint32_t number = 0;; ++number) {
      // Both or neither: the second key reveals half a transaction.
      must(store->commit(
          {{}, {put(fmt::format("a/{}", number), "1"), put_leased(fmt::format("b/{}", number), "1")}}));
      if (::write(to_parent.get(), &number, sizeof(number)) != sizeof(number)) return 1;
    }
  });
  to_parent.reset();
  std::uint32_t number = 0;
  std::uint32_t last = 0;
  while (last < 200 && ::read(acknowledged.get(), &number, sizeof(number)) == sizeof(number)) last = number;
  ASSERT_EQ(last, 200U);
  ::kill(child, SIGKILL);
  EXPECT_EQ(status_of(child), -SIGKILL);
  while (::read(acknowledged.get(), &number, sizeof(number)) == sizeof(number)) last = number;

  const auto records = reopen();
  for (std::uint32_t i = 0; i <= last; ++i) EXPECT_TRUE(records.contains(fmt::format("a/{}", i))) << i;
  EXPECT_LE(records.size(),
            last + 2);  // one more may have been under way; the dead process's leased records are gone
  for (const auto& [key, value] : records) EXPECT_THAT(key, StartsWith("a/"));
}

TEST_F(SqliteStoreTest, IsOpenedByOneAtATime) {
  Recorder first_recorder;
  const auto first = make_sqlite_store({.path = path_});
  must(first->start(first_recorder));
  Recorder recorder;
  const auto second = make_sqlite_store({.path = path_});
  const auto refused = second->start(recorder);
  ASSERT_EQ(code_of(refused), EADDRINUSE);
  EXPECT_EQ(refused.error().message, "store " + path_ +
                                         ": another running daemon uses it: stop that daemon or "
                                         "choose another path");
  EXPECT_TRUE(recorder.told().alls.empty());
  first->stop(LeasedRecords::kGiveBack);
  EXPECT_EQ(code_of(second->start(recorder)), 0);
}

TEST_F(SqliteStoreTest, RefusesWhatItCannotOpenAndSaysWhy) {
  const auto refusal = [](const std::string& path) {
    Recorder recorder;
    const auto refused = make_sqlite_store({.path = path})->start(recorder);
    EXPECT_TRUE(recorder.told().connections.empty());
    return refused ? std::string() : refused.error().message;
  };
  const std::string nowhere = folder_.file("missing/store.db");
  EXPECT_THAT(refusal(nowhere),
              StartsWith("store " + nowhere + ": its lock file " + nowhere + ".lock cannot be opened"));

  const std::string text = folder_.file("text");
  std::ofstream(text) << std::string(5000, 'x');
  EXPECT_THAT(refusal(text), StartsWith("store " + text + ": the file is damaged or no database of SQLite"));

  const std::string other = folder_.file("other.db");
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(other.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "CREATE TABLE songs(name)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  EXPECT_THAT(refusal(other), HasSubstr("another program's database"));

  reopen();
  ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "PRAGMA user_version=7", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  EXPECT_THAT(refusal(path_), HasSubstr("its format is version 7, this daemon knows version 1"));
}

TEST_F(SqliteStoreTest, RefusesADamagedFile) {
  {
    Recorder recorder;
    const auto store = make_sqlite_store({.path = path_});
    must(store->start(recorder));
    for (int i = 0; i < 300; ++i) must(store->commit({{}, {put(std::to_string(i), std::string(1000, 'v'))}}));
  }
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    for (int page = 2; page < 20; ++page) file.seekp(page * 4096).write("garbage-garbage-garbage", 23);
  }
  Recorder recorder;
  const auto refused = make_sqlite_store({.path = path_})->start(recorder);
  ASSERT_EQ(code_of(refused), EBADMSG);
  EXPECT_THAT(refused.error().message, StartsWith("store " + path_ + ": the file is damaged"));
}

TEST_F(SqliteStoreTest, LeavesAFileAloneThatIsDamagedWhileItRuns) {
  const auto everything = [] {
    Transaction transaction;
    for (int i = 0; i < 300; ++i)
      transaction.changes.push_back(put(std::to_string(i), std::string(1000, 'v')));
    return transaction;
  }();
  {
    Recorder recorder;
    const auto store = make_sqlite_store({.path = path_});
    must(store->start(recorder));
    must(store->commit(everything));
  }
  Recorder recorder;
  const auto store = make_sqlite_store({.path = path_});
  must(store->start(recorder));
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    for (int page = 2; page < 20; ++page) file.seekp(page * 4096).write("garbage-garbage-garbage", 23);
  }
  Locker(path_).change();  // other readers of the file must read it again
  const auto refused = store->commit(everything);
  ASSERT_EQ(code_of(refused), EBADMSG) << refused.error().message;
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_EQ(recorder.told().connections.size(), 2U);
  EXPECT_FALSE(recorder.told().connected());
}

// A limit on file sizes acts like a quota, and works where no file system can be mounted.
TEST_F(SqliteStoreTest, GoesOnWhenThereIsSpaceAgain) {
  ::signal(SIGXFSZ, SIG_IGN);
  Recorder recorder;
  const auto store = make_sqlite_store({.path = path_});
  must(store->start(recorder));
  must(store->commit({{}, {put("a", "1")}}));

  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{256 << 10, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto refused = store->commit({{{"a", "1"}}, {put("a", "2"), put("big", std::string(1 << 20, 'x'))}});
  const auto again = store->commit({{{"a", "1"}}, {put("a", "2"), put("big", std::string(1 << 20, 'x'))}});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);

  ASSERT_EQ(kind_of(refused), ErrorKind::kUnavailable) << refused.error().message;
  EXPECT_EQ(kind_of(again), ErrorKind::kUnavailable);
  const std::string why =
      "store " + path_ + ": the file cannot be written: check the disk's space, quotas and health";
  EXPECT_EQ(refused.error().message, why + "; nothing was changed");
  EXPECT_THAT(must(store->read_all()), ElementsAre(KeyValue{"a", "1"}));
  EXPECT_EQ(recorder.told().connections.at(1), std::pair(false, why));
  ASSERT_TRUE(recorder.wait_connected());  // without a call of commit()
  EXPECT_EQ(must(store->commit({{{"a", "1"}}, {put("a", "3")}})), Commit::kCommitted);
  EXPECT_EQ(recorder.told().changes.size(), 2U);
  store->stop(LeasedRecords::kGiveBack);
  EXPECT_EQ(reopen(), (std::map<std::string, std::string>{{"a", "3"}}));
}

// A file system that is really full, in a child's mount namespace.
TEST_F(SqliteStoreTest, SurvivesAFullFileSystem) {
  constexpr int kNoNamespaces = 77;
  const std::string folder = folder_.file("small");
  std::filesystem::create_directory(folder);
  const pid_t child = in_child([&] {
    if (::unshare(::geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0) return kNoNamespaces;
    ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=1m") != 0) return kNoNamespaces;
    const std::string path = folder + "/store.db";
    Recorder recorder;
    auto store = make_sqlite_store({.path = path});
    must(store->start(recorder));
    must(store->commit({{}, {put("a", "1"), put_leased("live", "1")}}));
    {
      std::ofstream filler(folder + "/filler", std::ios::binary);
      while (filler.write(std::string(4096, 'f').data(), 4096).flush()) {
      }
    }
    int refusals = 0;
    for (int i = 0; i < 100; ++i) {
      const auto done = store->commit({{}, {put("a", "2"), put(std::to_string(i), std::string(8000, 'x'))}});
      if (done) return 10;
      if (done.error().kind == ErrorKind::kUnavailable &&
          done.error().message.find("disk is full") != std::string::npos)
        ++refusals;
    }
    if (refusals != 100 || recorder.told().connected()) return 11;
    if (must(store->read_all()).size() != 2 || recorder.told().mirror["a"] != "1") return 12;
    // Longer than the store's own pause: its next try finds the disk as full as before.
    std::this_thread::sleep_for(std::chrono::seconds(1));
    if (recorder.told().connections.size() != 2) return 17;

    // The full disk prevents the deletion of the leased record. A new store hides the record until it can
    // delete it.
    store = make_sqlite_store({.path = path});
    Recorder second;
    must(store->start(second));
    if (second.told().alls.at(0) != std::vector<KeyValue>{{"a", "1"}}) return 13;
    std::filesystem::remove(folder + "/filler");
    if (!second.wait_connected()) return 18;
    if (must(store->commit({{{"live", std::nullopt}}, {put("a", "2")}})) != Commit::kCommitted) return 14;
    return must(store->read_all()) == std::vector<KeyValue>{{"a", "2"}} ? 0 : 16;
  });
  const int status = status_of(child);
  if (status == kNoNamespaces)
    GTEST_SKIP() << "this machine lets nobody mount a tmpfs in a namespace of his own";
  EXPECT_EQ(status, 0);
}

TEST_F(SqliteStoreTest, ComesBackByItselfWhenAnotherProgramLetsGoOfTheFile) {
  Recorder recorder;
  const auto store = make_sqlite_store({.path = path_});
  must(store->start(recorder));
  must(store->commit({{}, {put("a", "1")}}));
  Locker other(path_);
  const auto refused = store->commit({{}, {put("a", "2")}});
  ASSERT_EQ(kind_of(refused), ErrorKind::kUnavailable);
  const std::string why = "store " + path_ + ": another program has locked the file: end that program";
  EXPECT_EQ(refused.error().message, why + "; nothing was changed");
  EXPECT_EQ(recorder.told().connections.back(), std::pair(false, why));

  // Longer than the store's own pause and patience: it has tried again and reports nothing new.
  std::this_thread::sleep_for(std::chrono::seconds(3));
  EXPECT_EQ(recorder.told().connections.size(), 2U);
  other.let_go();
  ASSERT_TRUE(recorder.wait_connected());  // without a call of commit()
  EXPECT_EQ(recorder.told().connections.size(), 3U);
  EXPECT_EQ(must(store->commit({{{"a", "1"}}, {put("a", "3")}})), Commit::kCommitted);
  EXPECT_EQ(recorder.told().mirror, (std::map<std::string, std::string>{{"a", "3"}}));
  store->stop(LeasedRecords::kGiveBack);
  EXPECT_EQ(reopen(), (std::map<std::string, std::string>{{"a", "3"}}));
}

TEST_F(SqliteStoreTest, ComesBackByItselfWhenTheFileWasLockedAtTheStart) {
  // The process ends without stop(), so its leased record is still there.
  const pid_t child = in_child([&] {
    Recorder recorder;
    const auto store = make_sqlite_store({.path = path_});
    must(store->start(recorder));
    must(store->commit({{}, {put("a", "1"), put_leased("live", "1")}}));
    ::_exit(0);
    return 1;
  });
  ASSERT_EQ(status_of(child), 0);
  Locker other(path_);
  Recorder recorder;
  const auto store = make_sqlite_store({.path = path_});
  must(store->start(recorder));
  EXPECT_FALSE(recorder.told().connected());
  EXPECT_THAT(recorder.told().alls, ElementsAre(ElementsAre(KeyValue{"a", "1"})));
  other.let_go();
  ASSERT_TRUE(recorder.wait_connected());
  // The leased record is now this process's own, and must stay when the store recovers.
  EXPECT_EQ(must(store->commit({{{"live", std::nullopt}}, {put_leased("live", "2")}})), Commit::kCommitted);
  EXPECT_THAT(must(store->read_all()), ElementsAre(KeyValue{"a", "1"}, KeyValue{"live", "2"}));
}

TEST_F(SqliteStoreTest, StopsWhileTheFileIsLocked) {
  Recorder recorder;
  const auto store = make_sqlite_store({.path = path_});
  must(store->start(recorder));
  Locker other(path_);
  EXPECT_FALSE(store->commit({{}, {put("a", "1")}}));
  store->stop(LeasedRecords::kGiveBack);
  EXPECT_EQ(code_of(store->commit({{}, {put("a", "1")}})), ENOTCONN);
  EXPECT_EQ(recorder.told().connections.size(), 2U);
}

TEST(ObserverQueueTest, DropsWhatComesAfterItsEnd) {
  ObserverQueue queue;
  Recorder recorder;
  queue.post([](StoreObserver& to) { to.on_lease_lost(); });  // posted before open(), so it is kept
  queue.open(recorder);
  queue.deliver();
  queue.post([](StoreObserver& to) { to.on_lease_lost(); });
  queue.close();
  queue.deliver();
  EXPECT_EQ(recorder.told().leases_lost, 1);
}

}  // namespace
}  // namespace pvrdma::control::test
