// SPDX-License-Identifier: Apache-2.0
#include "instance/run/outcome.h"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace trainyard::instance {
namespace {

std::vector<Process> ranks(int count) {
  std::vector<Process> processes;
  processes.reserve(8);
  for (int i = 0; i < count; ++i) {
    processes.push_back({.argv = {"x"}, .environment = {}, .rank = 4 + i});
  }
  return processes;
}

RunOutcome outcome(std::vector<ProcessEnd> ends) {
  return {
      .ends = std::move(ends), .tails = {{"a"}, {"b"}, {"c"}}, .diagnostics = {}, .container = {}};
}

TEST(ExitOf, IsCleanWhenEveryProcessIs) {
  const Result<wire::Exit> exit = exit_of(outcome({{.process = 0}, {.process = 1}}), ranks(2));
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 0);
  EXPECT_FALSE(exit->stopped);
  EXPECT_FALSE(exit->global_rank);
}

// cases.md 50: codes [1, 137, 137] must not hide the culprit.
TEST(ExitOf, NamesTheFirstFailureAndNotItsVictims) {
  const Result<wire::Exit> exit =
      exit_of(outcome({{.process = 2, .signal = SIGKILL, .victim = true},
                       {.process = 1, .code = 3},
                       {.process = 0, .signal = SIGKILL, .victim = true}}),
              ranks(3));
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 3);
  EXPECT_EQ(exit->global_rank, 5);
  EXPECT_EQ(exit->last_lines, std::vector<std::string>{"b"});
  EXPECT_FALSE(exit->stopped);
}

TEST(ExitOf, MarksWhatAStopHasEnded) {
  RunOutcome stopped = outcome({{.process = 0, .signal = SIGTERM, .victim = true}});
  stopped.stopped = true;
  const Result<wire::Exit> exit = exit_of(stopped, ranks(1));
  EXPECT_TRUE(exit->stopped);
  EXPECT_EQ(exit->signal, SIGTERM);
}

TEST(ExitOf, NamesTheRankAndTheHostThatALauncherTellsOf) {
  RunOutcome facts = outcome(
      {{.process = 0, .code = 3, .rank = 1, .host = "algo-2", .lines = {"the loss is not finite"}},
       {.process = 0, .code = 3}});
  const std::vector<Process> launcher = {{.argv = {"x"}, .environment = {}, .is_launcher = true}};
  const Result<wire::Exit> exit = exit_of(facts, launcher);
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 3);
  EXPECT_EQ(exit->global_rank, 1);
  EXPECT_EQ(exit->host, "algo-2");
  EXPECT_EQ(exit->last_lines, std::vector<std::string>{"the loss is not finite"});
  EXPECT_FALSE(exit->stopped);
}

TEST(ExitOf, TakesNoLinesOfTheLauncherForThoseOfASilentRank) {
  const RunOutcome facts = outcome({{.process = 0, .code = 3, .rank = 1, .host = "algo-2"}});
  EXPECT_TRUE(exit_of(facts, ranks(1))->last_lines.empty());
}

// Its launcher lost another instance, and says so: nothing here has failed.
TEST(ExitOf, TakesALaunchersWordThatItIsAVictim) {
  RunOutcome facts = outcome({{.process = 0, .code = 1, .victim = true}, {.process = 0}});
  EXPECT_TRUE(exit_of(facts, ranks(1))->stopped);
}

TEST(ExitOf, BlamesAFailureBeforeTheStop) {
  RunOutcome stopped = outcome({{.process = 0, .code = 7}});
  stopped.stopped = true;
  EXPECT_FALSE(exit_of(stopped, ranks(1))->stopped);
}

TEST(ExitOf, SaysThatMemoryRanOut) {
  RunOutcome killed = outcome({{.process = 0, .signal = SIGKILL}});
  killed.out_of_memory = true;
  EXPECT_TRUE(exit_of(killed, ranks(1))->out_of_memory);
}

TEST(ExitOf, IsAnErrorWhenTheContainerDidNotStart) {
  RunOutcome broken = outcome({});
  broken.container = {.code = 1};
  broken.diagnostics = {"bwrap: no such file"};
  const Result<wire::Exit> exit = exit_of(broken, ranks(1));
  ASSERT_FALSE(exit);
  EXPECT_NE(exit.error().message.find("bwrap: no such file"), std::string::npos);
}

TEST(ExitOf, CountsAContainerKilledWholeAsKilled) {
  RunOutcome killed = outcome({});
  killed.container = {.signal = SIGKILL};
  EXPECT_EQ(exit_of(killed, ranks(1))->signal, SIGKILL);
}

TEST(FailureFileOf, GivesTheFirst1024Characters) {
  const TempDir ml = *TempDir::make();
  ASSERT_TRUE(make_directories(ml.path() / "output"));
  std::string text;
  for (int i = 0; i < 2000; ++i) {
    text += "語";
  }
  ASSERT_TRUE(write_file(ml.path() / "output/failure", text));
  EXPECT_EQ(read_failure_file(ml.path()).text, text.substr(0, 3072));
  EXPECT_EQ(read_failure_file(ml.path()).note, "");
}

TEST(FailureFileOf, SaysWhyItIsOfNoUse) {
  const TempDir ml = *TempDir::make();
  const Path failure = ml.path() / "output/failure";
  const auto note = [&] {
    const FailureFile read = read_failure_file(ml.path());
    EXPECT_EQ(read.text, "");
    const std::string given = read.note;
    std::filesystem::remove(failure);
    return given;
  };
  EXPECT_EQ(note(), "");
  ASSERT_TRUE(make_directories(failure.parent_path()));
  EXPECT_EQ(note(), "");
  const std::string nothing = "/opt/ml/output/failure says nothing: it is ";
  ASSERT_TRUE(write_file(failure, "\n"));
  EXPECT_EQ(note(), nothing + "empty");
  std::filesystem::create_symlink("/etc/passwd", failure);
  EXPECT_EQ(note(), nothing + "a link, not a file");
  std::filesystem::create_directory(failure);
  EXPECT_EQ(note(), nothing + "a directory, not a file");
  ASSERT_EQ(mkfifo(failure.c_str(), 0600), 0);
  EXPECT_EQ(note(), nothing + "a pipe, not a file");
}

}  // namespace
}  // namespace trainyard::instance
