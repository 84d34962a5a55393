// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/mpi_command.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "instance/launch/mpi_link.h"
#include "instance/launch/rank_environment.h"
#include "instance/launch/words.h"

namespace trainyard::instance {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

struct Splitting {
  std::string text;
  Words words;
};
class SplitWords : public testing::TestWithParam<Splitting> {};

TEST_P(SplitWords, ReadsQuotesAsPythonsShlex) {
  const Result<Words> words = split_words(GetParam().text);
  ASSERT_TRUE(words) << words.error().message;
  EXPECT_EQ(*words, GetParam().words);
}

// Each expectation is what shlex.split() of Python 3.11 gives.
INSTANTIATE_TEST_SUITE_P(
    Texts, SplitWords,
    testing::Values(Splitting{"", {}}, Splitting{"  \t\n ", {}},
                    Splitting{"-x A=1 --mca  pml\tob1", {"-x", "A=1", "--mca", "pml", "ob1"}},
                    Splitting{"a'b c'd", {"ab cd"}}, Splitting{R"(a"b c"d)", {"ab cd"}},
                    Splitting{"'' \"\"", {"", ""}}, Splitting{R"(a\ b)", {"a b"}},
                    Splitting{R"("a\"b\\c\$d")", {R"(a"b\c\$d)"}},
                    Splitting{R"('a\b"c')", {R"(a\b"c)"}},
                    Splitting{"$HOME `id` $(id) *;|&", {"$HOME", "`id`", "$(id)", "*;|&"}},
                    Splitting{"a#b #c", {"a#b", "#c"}}, Splitting{"日本語 é", {"日本語", "é"}}));

TEST(SplitWords, RefusesWhatDoesNotEnd) {
  for (const char* text : {"'a", "\"a", "a\\", "\"a\\\""}) {
    EXPECT_EQ(split_words(text).error().code, Code::kInvalidArgument) << text;
  }
}

MpiJob two_hosts() {
  return {.hosts = {"algo-1", "algo-2"},
          .processes_per_host = 2,
          .network_interface = "eth0",
          .custom = {}};
}

TEST(MpirunCommand, IsTheToolkitsForTwoHosts) {
  EXPECT_THAT(
      mpirun_command(two_hosts()),
      ElementsAre("mpirun", "--host", "algo-1:2,algo-2:2", "-np", "4", "--allow-run-as-root",
                  "--display-map", "--tag-output", "--leave-session-attached", "--bind-to", "none",
                  "--map-by", "slot", "--mca", "btl_tcp_if_include", "eth0", "--mca",
                  "oob_tcp_if_include", "eth0", "--mca", "pml", "ob1", "--mca", "btl", "^openib",
                  "--mca", "btl_vader_single_copy_mechanism", "none", "--mca",
                  "orte_abort_on_non_zero_status", "1", "--mca", "plm_rsh_no_tree_spawn", "1",
                  "--mca", "plm_rsh_num_concurrent", "2", "--mca", "plm_rsh_agent",
                  "/proc/1/exe instance-mpi shell", "/proc/1/exe", "instance-mpi", "rank"));
}

TEST(MpirunCommand, LetsTorchsRanksShareCoresAndOwnTheirVariables) {
  MpiJob job = two_hosts();
  job.smddp_runner = true;
  const Words words = mpirun_command(job);
  EXPECT_THAT(words, Contains("--oversubscribe"));
  EXPECT_EQ(words.back(), "--overrule");
}

// Open MPI refuses an option that is there twice.
TEST(MpirunCommand, GivesWayToCustomOptions) {
  MpiJob job = two_hosts();
  job.custom = {"-bind-to",           "core", "--mca", "btl",  "tcp,self", "-np", "3", "--mca",
                "btl_tcp_if_exclude", "lo",   "-x",    "A=b c"};
  const Words words = mpirun_command(job);
  EXPECT_EQ(std::count(words.begin(), words.end(), "--bind-to"), 0);
  EXPECT_EQ(std::count(words.begin(), words.end(), "-np"), 1);
  EXPECT_EQ(std::count(words.begin(), words.end(), "btl"), 1);
  EXPECT_THAT(words, Not(Contains("btl_tcp_if_include")));
  EXPECT_THAT(words, Contains("oob_tcp_if_include"));
  const auto custom = std::search(words.begin(), words.end(), job.custom.begin(), job.custom.end());
  EXPECT_EQ(words.end() - custom, static_cast<std::ptrdiff_t>(job.custom.size()) + 3);
}

constexpr const char* kKey = "sagemaker_distributed_dataparallel_custom_mpi_options";

TEST(CustomMpiOptions, TakeOutTheToolkitsOwn) {
  for (const char* text : {"-verbose --NCCL_DEBUG=INFO -x A", "--NCCL_DEBUG INFO -verbose -x A"}) {
    const Result<CustomMpiOptions> options = parse_custom_mpi_options(kKey, text);
    ASSERT_TRUE(options);
    EXPECT_EQ(options->nccl_debug, "INFO");
    EXPECT_THAT(options->arguments, ElementsAre("-verbose", "-x", "A"));
  }
}

TEST(CustomMpiOptions, AreRefusedWhenTheyAreNoWords) {
  const Result<CustomMpiOptions> options = parse_custom_mpi_options(kKey, "-x 'A");
  ASSERT_FALSE(options);
  EXPECT_EQ(options.error().code, Code::kInvalidArgument);
  EXPECT_THAT(options.error().message, HasSubstr(kKey));
}

TEST(CustomMpiOptions, MayNotTakeTheRemoteShellAway) {
  const Result<CustomMpiOptions> options = parse_custom_mpi_options(kKey, "-mca plm_rsh_agent ssh");
  ASSERT_FALSE(options);
  EXPECT_THAT(options.error().message, HasSubstr(std::string(kKey) + " may not set plm_rsh_agent"));
}

TEST(MpiLink, SurvivesTheTripThroughTheEnvironment) {
  const MpiLink link{
      .host = "algo-2", .hosts = {{"algo-1", "10.77.0.1"}, {"algo-2", "10.77.0.2"}}, .secret = "s"};
  const Result<MpiLink> back = mpi_link_in({{kMpiLinkVariable, to_text(link)}});
  ASSERT_TRUE(back);
  EXPECT_EQ(back->host, "algo-2");
  EXPECT_EQ(back->secret, "s");
  EXPECT_EQ(back->port, kRemoteShellPort);
  EXPECT_EQ(host_named(*back, "algo-2")->address, "10.77.0.2");
  EXPECT_EQ(host_named(*back, "algo-3").error().code, Code::kNotFound);
}

TEST(MpiLink, IsRefusedWhenItIsNotThere) {
  EXPECT_FALSE(mpi_link_in({}));
  EXPECT_FALSE(mpi_link_in({{kMpiLinkVariable, "[]"}}));
}

TEST(RankVariables, FollowFromOpenMpis) {
  Result<RankPlace> place = place_under_mpi({{"OMPI_COMM_WORLD_RANK", "3"},
                                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                             {"OMPI_COMM_WORLD_SIZE", "4"},
                                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  ASSERT_TRUE(place);
  place->node = 1;
  place->nodes = 2;
  EXPECT_EQ(rank_variables(*place), (Variables{{"RANK", "3"},
                                               {"LOCAL_RANK", "1"},
                                               {"WORLD_SIZE", "4"},
                                               {"LOCAL_WORLD_SIZE", "2"},
                                               {"GROUP_RANK", "1"},
                                               {"GROUP_WORLD_SIZE", "2"},
                                               {"NODE_RANK", "1"}}));
  EXPECT_FALSE(place_under_mpi({}));
}

}  // namespace
}  // namespace trainyard::instance
