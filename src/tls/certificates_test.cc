#include "tls/certificates.h"

#include <ctime>
#include <filesystem>
#include <fstream>
#include <sys/socket.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "support/log_of.h"
#include "tls/test_certificates.h"

namespace pvrdma::tls {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

void copy(const std::string& from, const std::string& to) {
  std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
}

// Two streams of one context, connected with each other.
struct Connection {
  explicit Connection(const Context& context) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    client = context.client(Fd(ends[0])).value();
    server = context.server(Fd(ends[1])).value();
  }
  bool handshake() const {
    bool done = false;
    for (int i = 0; i < 20 && !done; ++i) {
      const Io near = client->handshake();
      const Io far = server->handshake();
      done = near == Io::kDone && far == Io::kDone;
    }
    return done;
  }
  bool carries_a_byte() const {
    const std::byte sent{7};
    std::byte got{};
    return client->write({&sent, 1}).bytes == 1 && server->read({&got, 1}).bytes == 1 && got == sent;
  }
  std::unique_ptr<Stream> client;
  std::unique_ptr<Stream> server;
};

class CertificatesTest : public ::testing::Test {
 protected:
  CertificatesTest() { certificates_.add("tcp", context_); }

  void replace(const Files& by) const {
    copy(by.certificate, files_.certificate);
    copy(by.key, files_.key);
  }

  TestCertificates authority_;
  const Files files_ = authority_.issue("old");
  const std::shared_ptr<Context> context_ = Context::mutual(files_).value();
  Certificates certificates_;
};

TEST_F(CertificatesTest, NewFilesAreForNewStreamsOnly) {
  const Connection before(*context_);
  ASSERT_TRUE(before.handshake());
  const Connection begun(*context_);
  replace(authority_.issue_as({.common_name = "new", .dns_names = {"new"}, .valid_until_s = 40 * 86400}));

  EXPECT_THAT(test::log_of([&] { certificates_.reload(); }),
              HasSubstr("reload: [tcp] uses the certificate in " + files_.certificate +
                        " for new connections; it ends on 20"));
  const Connection after(*context_);
  ASSERT_TRUE(after.handshake());
  ASSERT_TRUE(begun.handshake());
  EXPECT_TRUE(before.carries_a_byte());
  EXPECT_TRUE(before.client->peer_is("old"));
  EXPECT_TRUE(begun.client->peer_is("old"));
  EXPECT_TRUE(after.client->peer_is("new"));
  EXPECT_TRUE(after.server->peer_is("new"));
  EXPECT_TRUE(context_->is_certified_as("new"));
  EXPECT_NEAR(static_cast<double>(certificates_.states().at(0).not_after_s),
              static_cast<double>(std::time(nullptr) + 40 * 86400), 600);
}

TEST_F(CertificatesTest, AfterABadFileTheOldOnesStay) {
  const std::string good_key = files_.key + ".good";
  copy(files_.key, good_key);
  const auto refused = [&](const std::string& why) {
    EXPECT_THAT(
        test::log_of([&] { certificates_.reload(); }),
        HasSubstr("error reload: [tcp] keeps its certificate, because the new files cannot be used: " + why));
    const Connection after(*context_);
    EXPECT_TRUE(after.handshake());
    EXPECT_TRUE(after.client->peer_is("old"));
  };
  copy(authority_.issue("new").key, files_.key);
  refused("key " + files_.key + " does not belong to certificate " + files_.certificate);
  copy(good_key, files_.key);
  std::ofstream(files_.certificate) << "half a file";
  refused("certificate " + files_.certificate + " is not a PEM file");
  std::filesystem::remove(files_.certificate);
  refused("cannot read certificate " + files_.certificate + ": No such file");
}

TEST_F(CertificatesTest, WarnsFourteenDaysBeforeTheEnd) {
  const std::uint64_t end_s = certificates_.states().at(0).not_after_s;
  const auto said = [&](std::uint64_t now_s) {
    return test::log_of([&] { certificates_.warn_of_end(now_s); });
  };
  EXPECT_THAT(said(end_s - 15 * 86400), IsEmpty());
  EXPECT_THAT(said(end_s - 13 * 86400),
              HasSubstr("warning [tcp] the certificate in " + files_.certificate + " ends on 20"));
  EXPECT_THAT(said(end_s + 1), HasSubstr(" ended on 20"));
}

TEST(CertificatesOfNoUse, AreNothingToReload) {
  EXPECT_THAT(test::log_of([] { Certificates().reload(); }), HasSubstr("this daemon uses no certificates"));
  EXPECT_THAT(test::log_of([] { Certificates().warn_of_end(0); }), Not(HasSubstr("certificate")));
}

}  // namespace
}  // namespace pvrdma::tls
