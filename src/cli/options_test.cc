// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/job_file.h"
#include "cli/program.h"

namespace trainyard::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  std::variant<Options, int> result;
  std::string out;
  std::string err;

  const Options& options() const { return std::get<Options>(result); }
  int code() const { return std::get<int>(result); }
};

Parsed parse(const std::vector<std::string>& args) {
  std::ostringstream out;
  std::ostringstream err;
  auto result = parse_options(args, out, err);
  return {std::move(result), out.str(), err.str()};
}

TEST(Options, ReadSubmit) {
  const Options options =
      parse({"submit", "job.yaml", "--name", "demo-1", "-p", "lr=0.1", "--hyperparameter",
             "text=a b=[c]\n$()", "-p", "empty=", "--wait", "--json", "--endpoint", "http://h:1"})
          .options();
  EXPECT_EQ(options.verb, Verb::kSubmit);
  EXPECT_EQ(options.file, "job.yaml");
  EXPECT_EQ(options.name, "demo-1");
  EXPECT_THAT(options.hyperparameters, ElementsAre("lr=0.1", "text=a b=[c]\n$()", "empty="));
  EXPECT_TRUE(options.wait && options.json);
  EXPECT_EQ(options.endpoint, "http://h:1");
}

TEST(Options, TakeTheFileAfterAHyperparameter) {
  const Options options = parse({"submit", "-p", "a=1", "job.yaml"}).options();
  EXPECT_EQ(options.file, "job.yaml");
  EXPECT_THAT(options.hyperparameters, ElementsAre("a=1"));
}

TEST(Options, ReadTheOtherVerbs) {
  EXPECT_EQ(parse({"list", "-n", "5", "--status", "Failed"}).options().limit, 5);
  EXPECT_EQ(parse({"list"}).options().limit, 20);
  EXPECT_EQ(parse({"describe", "demo-1"}).options().job, "demo-1");
  EXPECT_TRUE(parse({"logs", "-f", "demo-1"}).options().follow);
  EXPECT_EQ(parse({"why", "demo-1"}).options().verb, Verb::kWhy);
  EXPECT_EQ(parse({"stop", "demo-1"}).options().verb, Verb::kStop);
  EXPECT_EQ(parse({"delete", "demo-1"}).options().verb, Verb::kDelete);
}

TEST(Options, ReadASignalByAnyOfItsNamesAndRefuseEveryOther) {
  for (const char* name : {"USR2", "SIGUSR2", "usr2", "SigUsr2"}) {
    EXPECT_EQ(parse({"signal", "demo-1", name}).options().signal, "USR2") << name;
  }
  for (const char* name : {"TERM", "KILL", "SIG", "USR3", "12", ""}) {
    const Parsed refused = parse({"signal", "demo-1", name});
    EXPECT_EQ(refused.code(), 2) << name;
    EXPECT_THAT(refused.err, HasSubstr("'" + std::string(name) +
                                       "' is neither USR1 nor USR2; to end a job: "
                                       "trainyard stop NAME"));
  }
  EXPECT_EQ(parse({"signal", "demo-1"}).code(), 2);
}

TEST(Options, PrintHelpForTheProgramAndEachVerb) {
  EXPECT_EQ(parse({"--help"}).code(), 0);
  EXPECT_THAT(parse({"--help"}).out, HasSubstr("submit"));
  for (const char* verb :
       {"submit", "list", "describe", "logs", "why", "stop", "signal", "delete"}) {
    const Parsed parsed = parse({verb, "--help"});
    EXPECT_EQ(parsed.code(), 0) << verb;
    EXPECT_THAT(parsed.out, HasSubstr("--json")) << verb;
  }
}

TEST(Options, NameTheUnknownWordAndTheNearestVerb) {
  const Parsed near = parse({"lgos", "demo"});
  EXPECT_EQ(near.code(), 2);
  EXPECT_THAT(near.err, HasSubstr("there is no verb 'lgos'; did you mean 'logs'?"));
  EXPECT_THAT(parse({"sumbit", "x"}).err, HasSubstr("did you mean 'submit'?"));
  EXPECT_THAT(parse({"serve"}).err, HasSubstr("did you mean 'server'?"));
  EXPECT_THAT(parse({"Stop"}).err, HasSubstr("did you mean 'stop'?"));
  const Parsed far = parse({"frobnicate"});
  EXPECT_EQ(far.code(), 2);
  EXPECT_THAT(far.err, HasSubstr("there is no verb 'frobnicate'\nVerbs: "));
  EXPECT_THAT(far.err, HasSubstr("describe"));
}

// Clients' verbs and the server's come from the one table.
TEST(Options, NameEveryVerbOfTheProgram) {
  const std::string said = parse({"frobnicate"}).err;
  const std::string help = program_help();
  for (const std::string_view verb : {"server", "store", "certificate", "backup", "restore",
                                      "check", "doctor", "submit", "delete", "instance", "help"}) {
    EXPECT_THAT(said, HasSubstr(" " + std::string(verb)));
    EXPECT_THAT(help, HasSubstr("  trainyard " + std::string(verb)));
  }
  EXPECT_THAT(parse({"doktor"}).err, HasSubstr("did you mean 'doctor'?"));
}

TEST(Options, ShowAWholeJobInTheHelpOfSubmit) {
  EXPECT_THAT(parse({"submit", "--help"}).out, HasSubstr(std::string(sample_job())));
}

TEST(Options, RefuseWrongUsageWithTwo) {
  const std::vector<std::vector<std::string>> wrong = {
      {}, {"submit"}, {"describe"}, {"fly"}, {"list", "-n", "0"}, {"list", "--nope"}};
  for (const auto& args : wrong) {
    const Parsed parsed = parse(args);
    EXPECT_EQ(parsed.code(), 2);
    EXPECT_NE(parsed.err, "");
  }
}

}  // namespace
}  // namespace trainyard::cli
