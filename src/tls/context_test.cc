// The errors of contexts for files that they cannot use.
#include "tls/context.h"

#include <filesystem>
#include <fstream>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "support/log_of.h"
#include "tls/test_certificates.h"

namespace pvrdma::tls {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ContextTest : public ::testing::Test {
 protected:
  TestCertificates certificates_;
  const Files a_ = certificates_.issue("a");
  const Files b_ = certificates_.issue("b");
};

TEST_F(ContextTest, FilesThatCannotBeUsedAreNamed) {
  const std::string folder = certificates_.folder().string();
  const std::string text = folder + "/text.pem";
  std::ofstream(text) << "no certificate at all\n";
  const std::string locked = certificates_.locked_key();
  const std::string other_kind = certificates_.rsa_key();
  struct Mistake {
    Files files;
    std::string sentence;
  };
  const auto expect = [](const auto& made, const std::string& sentence) {
    ASSERT_FALSE(made.has_value()) << sentence;
    EXPECT_THAT(made.error().message, HasSubstr(sentence));
  };
  const std::vector<Mistake> authorities = {
      {{folder + "/none", a_.certificate, a_.key}, "cannot read CA file " + folder + "/none: No such file"},
      {{folder, a_.certificate, a_.key}, "cannot read CA file " + folder + ": it is a folder"},
      {{text, a_.certificate, a_.key}, "CA file " + text + " is not a PEM file with certificates"},
  };
  for (const Mistake& mistake : authorities) expect(Context::mutual(mistake.files), mistake.sentence);
  const std::vector<Mistake> identities = {
      {{a_.ca, folder + "/none", a_.key}, "cannot read certificate " + folder + "/none"},
      {{a_.ca, text, a_.key}, "certificate " + text + " is not a PEM file with a certificate"},
      {{a_.ca, a_.certificate, folder + "/none"}, "cannot read key " + folder + "/none"},
      {{a_.ca, a_.certificate, text}, "key " + text + " is not a PEM file with a private key"},
      {{a_.ca, a_.certificate, b_.key},
       "key " + b_.key + " does not belong to certificate " + a_.certificate},
      {{a_.ca, a_.certificate, other_kind},
       "key " + other_kind + " does not belong to certificate " + a_.certificate},
      {{a_.ca, a_.certificate, locked}, "key " + locked + " has a passphrase: write one without"},
  };
  for (const Mistake& mistake : identities) {
    expect(Context::mutual(mistake.files), mistake.sentence);
    expect(Context::server_only(mistake.files.certificate, mistake.files.key), mistake.sentence);
  }
}

TEST_F(ContextTest, WarnsOfAKeyThatEveryoneMayReadAndOfAnOldCertificate) {
  using std::filesystem::perms;
  const Files open =
      certificates_.issue_as({.common_name = "old", .valid_from_s = -200, .valid_until_s = -100});
  const auto warnings = [](const auto& create) {
    return test::log_of([&create] { EXPECT_TRUE(create().has_value()); });
  };
  EXPECT_THAT(warnings([&] { return Context::mutual(a_); }), IsEmpty());
  EXPECT_THAT(warnings([&] { return Context::server_only(a_.certificate, a_.key); }), IsEmpty());
  std::filesystem::permissions(open.key, perms::others_read, std::filesystem::perm_options::add);
  for (const std::string& said : {warnings([&] { return Context::mutual(open); }), warnings([&] {
                                    return Context::server_only(open.certificate, open.key);
                                  })}) {
    EXPECT_THAT(said, HasSubstr("everyone on this host may read the private key in " + open.key));
    EXPECT_THAT(said, HasSubstr("the certificate in " + open.certificate + " expired on 20"));
  }
}

}  // namespace
}  // namespace pvrdma::tls
