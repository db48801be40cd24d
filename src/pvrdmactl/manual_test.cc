// The generated parts of the manual page, from small tables.
#include "pvrdmactl/manual.h"

#include <gtest/gtest.h>

namespace pvrdma::ctl {
namespace {

Grammar with(Command command) {
  Grammar grammar;
  grammar.commands.push_back(std::move(command));
  return grammar;
}

TEST(Manual, ACommandWithoutArguments) {
  EXPECT_EQ(manual(with({.words = "vm list", .help = "list the VMs"})),
            ".\\\" generated: vm list\n"
            ".It Cm vm list\n"
            "List the VMs.\n"
            ".\\\" end\n");
}

TEST(Manual, BracketsTheOptionalAndJoinsRivals) {
  const Argument way{
      .name = "way", .kind = Kind::kChoice, .help = "how", .choices = {"a", "b"}, .needs = "to"};
  EXPECT_EQ(
      manual(with(
          {.words = "vm move",
           .help = "move a VM",
           .arguments =
               {{.letter = 't', .name = "to", .help = "where", .required = true, .member = "/to"},
                {.name = "NAME", .positional = true, .help = "the VM", .required = true},
                way,
                {.name = "back", .kind = Kind::kFlag, .help = "not", .required = true, .member = "/to"},
                {.name = "FILE", .positional = true, .help = "the file"},
                {.name = "s", .kind = Kind::kNumber, .help = "seconds", .shows = "s", .required = true}}})),
      ".\\\" generated: vm move\n"
      ".It Xo\n"
      ".Cm vm move\n"
      ".Ar NAME\n"
      ".Op Ar FILE\n"
      ".Fl -to Ar str | Fl -back\n"
      ".Op Fl -way Ar a|b\n"
      ".Fl -s Ar s\n"
      ".Xc\n"
      "Move a VM.\n"
      ".Bl -tag -width Ds -compact\n"
      ".It Fl t , -to Ar str\n"
      "Where.\n"
      ".It Ar NAME\n"
      "The VM.\n"
      ".It Fl -way Ar a|b\n"
      "How (only with --to).\n"
      ".It Fl -back\n"
      "Not.\n"
      ".It Ar FILE\n"
      "The file.\n"
      ".It Fl -s Ar s\n"
      "Seconds (required).\n"
      ".El\n"
      ".\\\" end\n");
}

TEST(Manual, LeavesOutHiddenOptions) {
  Grammar grammar;
  grammar.globals = {{.name = "manual", .kind = Kind::kFlag, .help = "x", .hidden = true},
                     {.name = "json", .kind = Kind::kFlag, .help = "print JSON"}};
  EXPECT_EQ(manual(grammar), ".\\\" generated: --json\n.It Fl -json\nPrint JSON.\n.\\\" end\n");
}

}  // namespace
}  // namespace pvrdma::ctl
