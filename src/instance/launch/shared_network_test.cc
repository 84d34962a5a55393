// SPDX-License-Identifier: Apache-2.0
// What changes for a program whose instance shares the machine's network.
#include <gmock/gmock.h>

#include "instance/launch/launch_plan.h"
#include "instance/launch/mpi_link.h"

namespace trainyard::instance {
namespace {

using nlohmann::json;

const SharedNetwork kShared{.ports = {.first = 12'700, .last = 12'799},
                            .credentials_endpoint = "http://127.77.7.2:12702",
                            .credentials_token = "mine"};

wire::Assignment assignment_with(json hyperparameters) {
  hyperparameters["sagemaker_program"] = "train.py";
  hyperparameters["sagemaker_submit_directory"] = "s3://b/sourcedir.tar.gz";
  wire::Assignment assignment;
  assignment.job_name = "job-1";
  assignment.host = "algo-1";
  assignment.hosts = {{"algo-1", "127.77.7.1"}, {"algo-2", "127.77.7.2"}};
  assignment.network_interface = "lo";
  assignment.request = {{"HyperParameters", std::move(hyperparameters)}};
  assignment.server = "http://127.77.7.254:12703";
  return assignment;
}

Variables variables_of(const wire::Assignment& assignment,
                       const std::optional<SharedNetwork>& shared) {
  const Result<LaunchForm> form = launch_form(assignment);
  EXPECT_TRUE(form) << form.error().message;
  const ContainerEnvironment environment = container_environment(
      assignment,
      {.caller = {}, .credentials_path = "/v2/credentials/x", .hidden = {}, .shared = shared});
  return launch_plan(assignment, *form, {}, environment).processes.front().environment;
}

TEST(SharedNetwork, GivesTheProgramThePortsOfItsJob) {
  const Variables variables =
      variables_of(assignment_with({{"sagemaker_torch_distributed_enabled", "true"}}), kShared);
  EXPECT_EQ(variables.at("MASTER_PORT"), "12700");
  EXPECT_EQ(variables.at("TRAINYARD_PORTS"), "12704-12799");
  EXPECT_EQ(variables.at("GLOO_SOCKET_IFNAME"), "lo");
}

TEST(SharedNetwork, GivesTheRemoteShellOfMpiOneOfThem) {
  const wire::Assignment assignment = assignment_with({{"sagemaker_mpi_enabled", "true"}});
  const auto shared = mpi_link_in(variables_of(assignment, kShared));
  ASSERT_TRUE(shared) << shared.error().message;
  EXPECT_EQ(shared->port, 12'701);
  EXPECT_EQ(mpi_link_in(variables_of(assignment, std::nullopt))->port, kRemoteShellPort);
}

TEST(SharedNetwork, NamesTheCredentialsWholeAndWithTheirToken) {
  const Variables variables = variables_of(assignment_with(json::object()), kShared);
  EXPECT_EQ(variables.at("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
            "http://127.77.7.2:12702/v2/credentials/x");
  EXPECT_EQ(variables.at("AWS_CONTAINER_AUTHORIZATION_TOKEN"), "mine");
  EXPECT_FALSE(variables.contains("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"));
}

TEST(SharedNetwork, IsNotSpokenOfWhereThereIsNone) {
  const Variables variables = variables_of(assignment_with(json::object()), std::nullopt);
  EXPECT_EQ(variables.at("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"), "/v2/credentials/x");
  EXPECT_FALSE(variables.contains("TRAINYARD_PORTS"));
  EXPECT_FALSE(variables.contains("AWS_CONTAINER_AUTHORIZATION_TOKEN"));
}

}  // namespace
}  // namespace trainyard::instance
