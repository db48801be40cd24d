// The web client's files, as a browser gets them.
#include <gtest/gtest.h>
#include <httplib.h>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "api/api_fixture.h"
#include "web/assets.h"

namespace pvrdma::api {
namespace {

class WebRoutesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (web::assets().empty()) GTEST_SKIP() << "built without the web client (PVRDMA_WEB=OFF)";
    server_ = ApiServer::listen(path_, host_.parts()).value();
    server_->start();
  }

  httplib::Result get(const std::string& path, const httplib::Headers& headers = {}) {
    return unix_client(path_).Get(path, headers);
  }
  // The files that the page names.
  std::set<std::string> named_files() {
    const std::string page = get("/ui/")->body;
    const std::regex reference("(src|href)=\"([^\"]+)\"");
    std::set<std::string> names;
    for (std::sregex_iterator each(page.begin(), page.end(), reference), end; each != end; ++each)
      names.insert((*each)[2]);
    return names;
  }

  const std::string path_ = test_path(".sock");
  FakeHost host_;
  std::unique_ptr<ApiServer> server_;
};

TEST_F(WebRoutesTest, TheRootLeadsToThePage) {
  for (const char* path : {"/", "/ui"}) {
    const auto answer = get(path);
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->status, 302) << path;
    EXPECT_EQ(answer->get_header_value("Location"), "/ui/") << path;
  }
  const auto page = get("/ui/");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  EXPECT_EQ(page->get_header_value("Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(page->get_header_value("Cache-Control"), "no-cache") << "it names the other files of this daemon";
}

TEST_F(WebRoutesTest, EachFileThatThePageNamesExistsAndMayBeKept) {
  const std::set<std::string> names = named_files();
  EXPECT_EQ(names.size() + 1, web::assets().size()) << "all files are the page's";
  const std::map<std::string, std::string> types{{".js", "text/javascript; charset=utf-8"},
                                                 {".css", "text/css; charset=utf-8"},
                                                 {".svg", "image/svg+xml"}};
  for (const std::string& name : names) {
    const auto answer = get("/ui/" + name);
    ASSERT_TRUE(answer) << name;
    EXPECT_EQ(answer->status, 200) << name;
    EXPECT_EQ(answer->get_header_value("Content-Type"), types.at(name.substr(name.rfind('.')))) << name;
    EXPECT_EQ(answer->get_header_value("Cache-Control"), "public, max-age=31536000, immutable") << name;
    EXPECT_TRUE(std::regex_match(name, std::regex("[a-z]+-[0-9a-f]{12}\\.[a-z]+"))) << name;
  }
}

TEST_F(WebRoutesTest, ABrowserRunsAndShowsOnlyWhatThisServerHas) {
  std::set<std::string> names = named_files();
  names.insert("");
  for (const std::string& name : names) {
    const auto answer = get("/ui/" + name);
    EXPECT_EQ(answer->get_header_value("Content-Security-Policy"),
              "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
              "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
              "require-trusted-types-for 'script'; trusted-types lit-html")
        << name;
    EXPECT_EQ(answer->get_header_value("X-Content-Type-Options"), "nosniff") << name;
    EXPECT_EQ(answer->get_header_value("Referrer-Policy"), "no-referrer") << name;
    EXPECT_EQ(answer->get_header_value("Cross-Origin-Opener-Policy"), "same-origin") << name;
    EXPECT_EQ(answer->get_header_value("Cross-Origin-Resource-Policy"), "same-origin") << name;
    EXPECT_FALSE(answer->has_header("Access-Control-Allow-Origin")) << name;
  }
}

TEST_F(WebRoutesTest, NoOtherNameExists) {
  for (const char* path : {"/ui/main.js", "/ui/a..b", "/ui/../etc/passwd", "/ui/%2e%2e%2fetc%2fpasswd",
                           "/ui/views/home.js", "/ui//", "/index.html"}) {
    const auto answer = get(path);
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->status, 404) << path;
  }
  EXPECT_EQ(get("/ui/..")->status, 400) << "this is no name";
  EXPECT_EQ(get("/ui/?v=2")->status, 400);
  EXPECT_EQ(unix_client(path_).Post("/ui/", "{}", "application/json")->status, 404);
}

TEST_F(WebRoutesTest, FilesArePackedWhereTheClientTakesThat) {
  for (const std::string& name : named_files()) {
    const auto plain = get("/ui/" + name);
    EXPECT_FALSE(plain->has_header("Content-Encoding")) << name;
    EXPECT_EQ(plain->get_header_value("Vary"), "Accept-Encoding") << name;
    // The client unpacks what it gets.
    const auto packed = get("/ui/" + name, {{"Accept-Encoding", "br, gzip, deflate"}});
    EXPECT_EQ(packed->get_header_value("Content-Encoding"), "gzip") << name;
    EXPECT_EQ(packed->body, plain->body) << name;
    const auto size = [](const httplib::Result& answer) {
      return std::stoul(answer->get_header_value("Content-Length"));
    };
    EXPECT_LT(size(packed), size(plain)) << name;
    EXPECT_EQ(unix_client(path_).Head("/ui/" + name)->get_header_value("Content-Length"),
              plain->get_header_value("Content-Length"));
  }
}

TEST_F(WebRoutesTest, OtherAnswersAreNeverPackedWithBrotli) {
  EXPECT_EQ(
      get("/openapi.json", {{"Accept-Encoding", "gzip, deflate, br"}})->get_header_value("Content-Encoding"),
      "gzip");
  EXPECT_FALSE(get("/openapi.json", {{"Accept-Encoding", "br"}})->has_header("Content-Encoding"));
}

// What a browser says about the page that asks.
TEST_F(WebRoutesTest, APageOfAnotherSiteMayLeadHereButNotAsk) {
  const auto status = [&](const char* path, const char* site) {
    return get(path, {{"Sec-Fetch-Site", site}})->status;
  };
  EXPECT_EQ(status("/v1/version", "same-origin"), 200);
  EXPECT_EQ(status("/v1/version", "none"), 200) << "the user wrote the address";
  for (const char* site : {"cross-site", "same-site", "anything"}) {
    EXPECT_EQ(status("/v1/version", site), 403) << site;
    EXPECT_EQ(status("/ui/", site), 200) << site;
  }
  const auto change = [&](const char* site) {
    httplib::Client client = unix_client(path_);
    return client
        .Put("/v1/adapters/VM-01/link", {{"Sec-Fetch-Site", site}}, R"({"up": false})", "application/json")
        ->status;
  };
  EXPECT_EQ(change("none"), 403);
  EXPECT_EQ(change("cross-site"), 403);
  EXPECT_EQ(host_.links.link, adapters::Link::kUp) << "nothing was changed";
  EXPECT_EQ(change("same-origin"), 200);
}

}  // namespace
}  // namespace pvrdma::api
