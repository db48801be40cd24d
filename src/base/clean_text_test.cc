#include "base/clean_text.h"

#include <gtest/gtest.h>
#include <string>

namespace pvrdma {
namespace {

TEST(CleanText, LeavesTextOfAnyLanguage) {
  for (const char* text : {"", "adapter VM-01: 3 of 4", "Zürich, Москва, 東京", "path \\ \"quoted\"", "🙂"})
    EXPECT_EQ(clean_text(text), text);
}

TEST(CleanText, EscapesWhatControlsATerminal) {
  EXPECT_EQ(clean_text("\x1b[31mred\x07"), "\\u001b[31mred\\u0007");
  EXPECT_EQ(clean_text("a\x7f\xc2\x80\xc2\x9b"
                       "2J"),
            "a\\u007f\\u0080\\u009b2J");
  EXPECT_EQ(clean_text(std::string_view("a\0b", 3)), "a\\u0000b");
}

TEST(CleanText, EscapesWhatEndsALine) {
  EXPECT_EQ(clean_text("one\ntwo\r\t\xc2\x85\xe2\x80\xa8\xe2\x80\xa9"),
            "one\\u000atwo\\u000d\\u0009\\u0085\\u2028\\u2029");
  EXPECT_EQ(clean_text("one\n\ttwo\r\n", Newlines::kKept), "one\n\ttwo\\u000d\n");
}

TEST(CleanText, EscapesWhatChangesDirectionOrIsInvisible) {
  EXPECT_EQ(clean_text("\xe2\x80\xae"
                       "gnp.\xe2\x81\xa6\xd8\x9c"),
            "\\u202egnp.\\u2066\\u061c");
  EXPECT_EQ(clean_text("VM\xe2\x80\x8b-1\xef\xbb\xbf\xf3\xa0\x80\xa1"), "VM\\u200b-1\\ufeff\\U000e0021");
}

TEST(CleanText, EscapesEachByteThatIsNotUtf8) {
  EXPECT_EQ(clean_text("a\x9b\xff"), "a\\x9b\\xff");
  EXPECT_EQ(clean_text("\xc0\xaf"), "\\xc0\\xaf") << "overlong";
  EXPECT_EQ(clean_text("\xe0\x80\x9b"), "\\xe0\\x80\\x9b") << "overlong";
  EXPECT_EQ(clean_text("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(clean_text("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "above U+10FFFF";
  EXPECT_EQ(clean_text("z\xc3"), "z\\xc3") << "cut off";
  EXPECT_EQ(clean_text("\xc3(\xe2\x82"), "\\xc3(\\xe2\\x82");
}

}  // namespace
}  // namespace pvrdma
