// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/launch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "instance/launch/mpi_command.h"
#include "instance/launch/mpi_link.h"
#include "instance/launch/script_env.h"

namespace trainyard::instance {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

wire::Assignment assignment(json request, const std::string& host = "algo-2") {
  request["ResourceConfig"]["InstanceType"] = "ml.m5.xlarge";
  return {.job_name = "job-1",
          .job_arn = "arn:aws:sagemaker:us-east-1:123456789012:training-job/job-1",
          .region = "us-east-1",
          .account = "123456789012",
          .host = host,
          .hosts = {{"algo-1", "10.77.0.1"}, {"algo-2", "10.77.0.2"}},
          .network_interface = "eth0",
          .request = std::move(request),
          .python_environment = "/env",
          .server = "http://10.77.0.254:8321",
          .num_cpus = 4,
          .gpus = {},
          .log_stream = "job-1/algo-2-1"};
}

json script_request(json hyperparameters) {
  hyperparameters["sagemaker_program"] = "train.py";
  hyperparameters["sagemaker_submit_directory"] = "s3://b/sourcedir.tar.gz";
  return {{"HyperParameters", std::move(hyperparameters)}};
}

LaunchPlan plan_of(const wire::Assignment& in, const CodeFacts& facts = {}) {
  const Result<LaunchForm> form = launch_form(in);
  EXPECT_TRUE(form) << form.error().message;
  const ContainerEnvironment environment = container_environment(
      in, {.caller = {}, .credentials_path = "/v2/credentials/x", .hidden = {}});
  return form ? launch_plan(in, *form, facts, environment) : LaunchPlan{};
}

TEST(LaunchForm, RunsTheEntrypointAsGiven) {
  const json request = {{"AlgorithmSpecification",
                         {{"ContainerEntrypoint", {"/bin/bash"}},
                          {"ContainerArguments", {"-c", "echo $HOME; exit 3"}}}}};
  const LaunchPlan plan = plan_of(assignment(request));
  ASSERT_EQ(plan.processes.size(), 1u);
  EXPECT_THAT(plan.processes[0].argv, ElementsAre("/bin/bash", "-c", "echo $HOME; exit 3"));
  EXPECT_FALSE(plan.processes[0].rank);
  EXPECT_EQ(plan.processes[0].environment.count("SM_HPS"), 0u);
}

TEST(LaunchForm, SaysWhatToGiveWhenThereIsNothingToRun) {
  const Result<LaunchForm> form = launch_form(assignment(json::object()));
  ASSERT_FALSE(form);
  EXPECT_EQ(form.error().code, Code::kInvalidArgument);
  EXPECT_THAT(form.error().message, HasSubstr("ContainerEntrypoint"));
}

TEST(LaunchForm, RefusesLaunchersThatAreNotThere) {
  const Result<LaunchForm> form =
      launch_form(assignment(script_request({{"sagemaker_parameter_server_enabled", "true"}})));
  ASSERT_FALSE(form);
  EXPECT_THAT(form.error().message, HasSubstr("parameter_server"));
}

TEST(LaunchPlan, RunsAPlainScriptOncePerHost) {
  const LaunchPlan plan = plan_of(assignment(script_request({{"epochs", "3"}, {"name", "a b"}})));
  ASSERT_EQ(plan.processes.size(), 1u);
  const Process& process = plan.processes[0];
  EXPECT_THAT(process.argv,
              ElementsAre("/env/bin/python", "train.py", "--epochs", "3", "--name", "a b"));
  EXPECT_EQ(process.directory, "/opt/ml/code");
  EXPECT_EQ(process.environment.at("SM_HP_EPOCHS"), "3");
  EXPECT_EQ(process.environment.at("MASTER_ADDR"), "algo-1");
  EXPECT_EQ(process.environment.count("RANK"), 0u);
}

TEST(LaunchPlan, RunsJsonQuotedAndPlainProgramsAlike) {
  json request = script_request({{"epochs", "\"3\""}});
  request["HyperParameters"]["sagemaker_program"] = "\"train.py\"";
  EXPECT_EQ(plan_of(assignment(request)).processes[0].argv,
            plan_of(assignment(script_request({{"epochs", "3"}}))).processes[0].argv);
}

TEST(LaunchPlan, NeverShowsValuesToAShell) {
  json request = script_request({{"key", "$(id); `id`"}});
  request["HyperParameters"]["sagemaker_program"] = "run.sh";
  EXPECT_THAT(
      plan_of(assignment(request)).processes[0].argv,
      ElementsAre("/bin/sh", "-c", "exec \"$0\" \"$@\"", "./run.sh", "--key", "$(id); `id`"));
}

TEST(LaunchPlan, InstallsAndRunsAPackage) {
  const LaunchPlan plan = plan_of(assignment(script_request({})),
                                  {.has_requirements = true, .has_setup_py = true, .has_uv = true});
  ASSERT_EQ(plan.setup.size(), 2u);
  EXPECT_THAT(plan.setup[0].process.argv, ElementsAre("/env/bin/uv", "pip", "install", "--python",
                                                      "/env/bin/python", "-r", "requirements.txt"));
  EXPECT_THAT(plan.processes[0].argv, ElementsAre("/env/bin/python", "-m", "train"));
}

TEST(LaunchPlan, GivesEveryRankTorchrunsEnvironment) {
  const LaunchPlan plan = plan_of(assignment(script_request(
      {{"sagemaker_torch_distributed_enabled", "true"}, {"sagemaker_nproc_per_node", "2"}})));
  ASSERT_EQ(plan.processes.size(), 2u);
  const Variables& second = plan.processes[1].environment;
  EXPECT_EQ(plan.processes[1].rank, 3);
  EXPECT_EQ(second.at("RANK"), "3");
  EXPECT_EQ(second.at("LOCAL_RANK"), "1");
  EXPECT_EQ(second.at("WORLD_SIZE"), "4");
  EXPECT_EQ(second.at("LOCAL_WORLD_SIZE"), "2");
  EXPECT_EQ(second.at("GROUP_RANK"), "1");
  EXPECT_EQ(second.at("MASTER_ADDR"), "algo-1");
  EXPECT_EQ(second.at("MASTER_PORT"), "7777");
  EXPECT_EQ(second.at("OMP_NUM_THREADS"), "2");
  EXPECT_EQ(second.at("GLOO_SOCKET_IFNAME"), "eth0");
  EXPECT_EQ(second.at("TORCHELASTIC_USE_AGENT_STORE"), "False");
}

TEST(LaunchPlan, StartsOneRankForEachGpu) {
  wire::Assignment in =
      assignment(script_request({{"sagemaker_torch_distributed_enabled", "true"}}));
  in.gpus = {"2", "5", "6"};
  const LaunchPlan plan = plan_of(in);
  ASSERT_EQ(plan.processes.size(), 3u);
  EXPECT_EQ(plan.processes[0].environment.at("CUDA_VISIBLE_DEVICES"), "0,1,2");
  EXPECT_EQ(plan.processes[0].environment.at("SM_NUM_GPUS"), "3");
}

json mpi_request(json more = json::object()) {
  more["sagemaker_mpi_enabled"] = "true";
  more["sagemaker_mpi_num_of_processes_per_host"] = "2";
  more["lr"] = "0.1";
  return script_request(std::move(more));
}

TEST(LaunchPlan, LeadsAnMpiJobFromTheFirstHost) {
  const LaunchPlan plan = plan_of(assignment(mpi_request(), "algo-1"));
  ASSERT_EQ(plan.processes.size(), 1u);
  const Process& leader = plan.processes[0];
  EXPECT_TRUE(leader.is_launcher);
  EXPECT_FALSE(leader.rank);
  const std::vector<std::string> mpirun = mpirun_command({.hosts = {"algo-1", "algo-2"},
                                                          .processes_per_host = 2,
                                                          .network_interface = "eth0",
                                                          .custom = {}});
  std::vector<std::string> expected = {kOwnProgram, kMpiVerb, "lead", "--mpi4py",
                                       std::to_string(mpirun.size())};
  expected.insert(expected.end(), mpirun.begin(), mpirun.end());
  expected.insert(expected.end(), {"/env/bin/python", "train.py", "--lr", "0.1"});
  EXPECT_EQ(leader.argv, expected);
  EXPECT_EQ(leader.environment.at("SM_CURRENT_HOST"), "algo-1");
  EXPECT_EQ(leader.environment.at("MASTER_PORT"), "7777");
  EXPECT_EQ(leader.environment.at("OMP_NUM_THREADS"), "2");
  EXPECT_EQ(leader.environment.count("RANK"), 0u);
}

TEST(LaunchPlan, ServesAnMpiJobOnTheOtherHosts) {
  wire::Assignment in = assignment(mpi_request(), "algo-2");
  in.gang_secret = "of this attempt";
  const LaunchPlan plan = plan_of(in);
  ASSERT_EQ(plan.processes.size(), 1u);
  EXPECT_THAT(plan.processes[0].argv, ElementsAre(kOwnProgram, kMpiVerb, "serve"));
  EXPECT_EQ(plan.processes[0].environment.at("SM_CURRENT_HOST"), "algo-2");
  const Result<MpiLink> link = mpi_link_in(plan.processes[0].environment);
  ASSERT_TRUE(link);
  EXPECT_EQ(link->host, "algo-2");
  EXPECT_EQ(link->secret, "of this attempt");
  EXPECT_EQ(link->hosts.front().name, "algo-1");
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("log stream of algo-1")));
}

TEST(LaunchPlan, RunsPytorchDdpUnderMpirunWithTorchsVariables) {
  const LaunchPlan plan =
      plan_of(assignment(script_request({{"sagemaker_pytorch_ddp_enabled", "true"},
                                         {"sagemaker_instance_type", "ml.p4d.24xlarge"},
                                         {"sagemaker_distributed_dataparallel_custom_mpi_options",
                                          "-verbose --NCCL_DEBUG=INFO"}}),
                         "algo-1"));
  const std::vector<std::string>& argv = plan.processes.at(0).argv;
  EXPECT_THAT(argv, testing::IsSupersetOf({"--oversubscribe", "-verbose", "--overrule"}));
  EXPECT_THAT(argv, testing::Not(testing::Contains("--mpi4py")));
  EXPECT_EQ(argv.back(), "train.py");  // no argument of the platform's reaches the script
  EXPECT_EQ(plan.processes[0].environment.at("NCCL_DEBUG"), "INFO");
}

json smddp_request(json more = json::object()) {
  more["sagemaker_distributed_dataparallel_enabled"] = "true";
  return script_request(std::move(more));
}

TEST(LaunchPlan, RunsSmddpAsPytorchDdpWithTheVariablesOfItsRunner) {
  json request = smddp_request(
      {{"sagemaker_mpi_num_of_processes_per_host", "2"},
       {"sagemaker_instance_type", "ml.p4d.24xlarge"},
       {"sagemaker_distributed_dataparallel_custom_mpi_options", "-verbose --NCCL_DEBUG=INFO"}});
  request["Environment"] = {{"SMDATAPARALLEL_SERVER_PORT", "1"}};
  const LaunchPlan plan = plan_of(assignment(request, "algo-1"));
  const Process& leader = plan.processes.at(0);
  EXPECT_THAT(leader.argv,
              testing::IsSupersetOf({"-np", "4", "--oversubscribe", "-verbose", "--overrule"}));
  EXPECT_EQ(leader.argv.back(), "train.py");
  EXPECT_EQ(leader.environment.at("NCCL_DEBUG"), "INFO");
  EXPECT_EQ(leader.environment.at("SMDATAPARALLEL_USE_HOMOGENEOUS"), "1");
  EXPECT_EQ(leader.environment.count("SMDATAPARALLEL_USE_SINGLENODE"), 0u);
  EXPECT_EQ(leader.environment.at("SMDATAPARALLEL_SERVER_ADDR"), "algo-1");
  EXPECT_EQ(leader.environment.at("SMDATAPARALLEL_SERVER_PORT"), "7592");
  EXPECT_EQ(leader.environment.at("SAGEMAKER_INSTANCE_TYPE"), "ml.m5.xlarge");
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("SMDATAPARALLEL_SERVER_PORT")));
}

TEST(LaunchPlan, TellsSmddpOfASingleInstance) {
  wire::Assignment in = assignment(smddp_request(), "algo-1");
  in.hosts.resize(1);
  const Variables variables = plan_of(in).processes.at(0).environment;
  EXPECT_EQ(variables.at("SMDATAPARALLEL_USE_SINGLENODE"), "1");
  EXPECT_EQ(variables.count("SMDATAPARALLEL_USE_HOMOGENEOUS"), 0u);
}

std::string default_backend(json request, std::vector<std::string> gpus = {}) {
  wire::Assignment in = assignment(std::move(request), "algo-1");
  in.gpus = std::move(gpus);
  const Variables variables = plan_of(in).processes.at(0).environment;
  const auto found = variables.find(kDefaultBackend);
  return found == variables.end() ? "PyTorch's" : found->second;
}

TEST(DefaultBackend, IsYardOnCpusWhateverStartsTheRanks) {
  for (const char* key : {"epochs", "sagemaker_torch_distributed_enabled",
                          "sagemaker_pytorch_ddp_enabled", "sagemaker_mpi_enabled"}) {
    EXPECT_EQ(default_backend(script_request({{key, "true"}})), "yard") << key;
  }
  // SDK v3's launchers are the job's own commands.
  EXPECT_EQ(default_backend({{"AlgorithmSpecification", {{"ContainerEntrypoint", {"sh"}}}}}),
            "yard");
}

TEST(DefaultBackend, IsSmddpUnderSmdistributed) {
  EXPECT_EQ(default_backend(smddp_request()), "smddp");
}

TEST(DefaultBackend, IsPytorchsOwnWhereThereAreGpus) {
  EXPECT_EQ(default_backend(script_request({}), {"0"}), "PyTorch's");
  EXPECT_EQ(default_backend(smddp_request(), {"0"}), "PyTorch's");
}

TEST(DefaultBackend, IsNcclWatchedWhereAJobWithGpusAsksForIt) {
  const std::pair<json, std::string> cases[] = {
      {script_request({}), "cpu:yard,cuda:yard+nccl"},
      {smddp_request(), "smddp"}};  // which is the same in Python
  for (auto [request, watched] : cases) {
    request["Environment"] = {{kWatchNccl, "1"}};
    EXPECT_EQ(default_backend(request, {"0"}), watched);
    request["Environment"] = {{kWatchNccl, "1"}, {kDefaultBackend, "cpu:gloo"}};
    EXPECT_EQ(default_backend(request, {"0"}), "cpu:gloo");
    request["Environment"] = {{kWatchNccl, "0"}};
    EXPECT_EQ(default_backend(request, {"0"}), "PyTorch's");
  }
  EXPECT_EQ(choose_default_backend(false, {{kWatchNccl, "1"}}), "yard");
}

TEST(DefaultBackend, IsTheUsersWhereHeSaysOne) {
  json request = smddp_request();
  request["Environment"] = {{kDefaultBackend, "gloo"}};
  EXPECT_EQ(default_backend(request), "gloo");
}

// mpi > pytorchddp > torch_distributed > smddp > plain, as in the service's PyTorch containers.
TEST(Distribution, ChoosesAsTheServiceDoes) {
  json values = json::object();
  const auto chosen = [&] {
    return launch_form(assignment(script_request(values)))->distribution.launcher;
  };
  EXPECT_EQ(chosen(), Launcher::kPlain);
  values["sagemaker_distributed_dataparallel_enabled"] = "true";
  EXPECT_EQ(chosen(), Launcher::kSmddp);
  values["sagemaker_torch_distributed_enabled"] = "true";
  EXPECT_EQ(chosen(), Launcher::kTorchrun);
  values["sagemaker_pytorch_ddp_enabled"] = "true";
  EXPECT_EQ(chosen(), Launcher::kPytorchDdp);
  values["sagemaker_mpi_enabled"] = "true";
  EXPECT_EQ(chosen(), Launcher::kMpi);
  values["sagemaker_mpi_enabled"] = "false";
  EXPECT_EQ(chosen(), Launcher::kPytorchDdp);
}

TEST(Distribution, ReadsASwitchInAnyCaseAndQuotes) {
  for (const char* on : {"true", "True", "TRUE", "\"true\"", "\"True\""}) {
    EXPECT_EQ(launch_form(assignment(script_request({{"sagemaker_mpi_enabled", on}})))
                  ->distribution.launcher,
              Launcher::kMpi)
        << on;
  }
}

TEST(Distribution, RefusesASwitchThatIsNeitherTrueNorFalse) {
  for (const char* key :
       {"sagemaker_mpi_enabled", "sagemaker_pytorch_ddp_enabled",
        "sagemaker_torch_distributed_enabled", "sagemaker_distributed_dataparallel_enabled"}) {
    for (const char* value : {"yes", "1", "on", "maybe", "\"yes\"", "null", ""}) {
      const Result<LaunchForm> form = launch_form(assignment(script_request({{key, value}})));
      ASSERT_FALSE(form) << key << " " << value;
      EXPECT_EQ(form.error().code, Code::kInvalidArgument);
      EXPECT_THAT(form.error().message, HasSubstr(key));
    }
  }
}

TEST(Distribution, RefusesANumberOfProcessesThatIsNone) {
  for (const char* count : {"0", "two", "1025", "1.5"}) {
    const Result<LaunchForm> form = launch_form(assignment(script_request(
        {{"sagemaker_mpi_enabled", "true"}, {"sagemaker_mpi_num_of_processes_per_host", count}})));
    ASSERT_FALSE(form) << count;
    EXPECT_EQ(form.error().code, Code::kInvalidArgument);
    EXPECT_THAT(form.error().message, HasSubstr("sagemaker_mpi_num_of_processes_per_host"));
  }
}

TEST(Distribution, RunsOneMpiProcessForEachGpu) {
  for (const char* key : {"sagemaker_mpi_enabled", "sagemaker_distributed_dataparallel_enabled"}) {
    wire::Assignment in = assignment(script_request({{key, "true"}}));
    EXPECT_EQ(launch_form(in)->distribution.processes, 1) << key;
    in.gpus = {"0", "1", "2"};
    EXPECT_EQ(launch_form(in)->distribution.processes, 3) << key;
  }
}

TEST(Distribution, NamesTheKeyOfBadMpiOptions) {
  for (const char* key : {"sagemaker_distributed_dataparallel_custom_mpi_options",
                          "sagemaker_mpi_custom_mpi_options"}) {
    const Result<LaunchForm> form = launch_form(assignment(smddp_request({{key, "-x 'A"}})));
    ASSERT_FALSE(form) << key;
    EXPECT_EQ(form.error().code, Code::kInvalidArgument);
    EXPECT_THAT(form.error().message, HasSubstr(std::string("reading ") + key));
  }
}

TEST(CheckNeeds, NamesThePackageOfAMissingLauncher) {
  const TempDir ml = *TempDir::make();
  LaunchPlan plan = plan_of(assignment(mpi_request(), "algo-1"));
  plan.processes[0].environment["PATH"] = "/nowhere:/opt/ml/code/bin";
  const Result<void> missing = check_needs(plan, ml.path());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("mpirun"));
  EXPECT_THAT(missing.error().message, HasSubstr("openmpi-bin"));
  // A job may bring its own.
  ASSERT_TRUE(make_directories(ml.path() / "code/bin"));
  ASSERT_TRUE(write_file(ml.path() / "code/bin/mpirun", "", 0755));
  EXPECT_TRUE(check_needs(plan, ml.path()));
}

TEST(LaunchPlan, PassesTheServersNotesOn) {
  wire::Assignment in = assignment(script_request({}));
  in.notes = {"This machine has no GPU for ml.p4d.24xlarge: running on CPU."};
  EXPECT_EQ(plan_of(in).notes, in.notes);
  in.request = {{"AlgorithmSpecification", {{"ContainerEntrypoint", {"true"}}}}};
  EXPECT_EQ(plan_of(in).notes, in.notes);
}

TEST(LaunchPlan, LetsTheUserChangeDefaultsButNotTheContract) {
  json request = script_request({{"epochs", "3"}});
  request["Environment"] = {{"NCCL_DEBUG", "INFO"},      {"TRAINING_JOB_NAME", "other"},
                            {"SM_HP_EPOCHS", "99"},      {"OMP_NUM_THREADS", "7"},
                            {"PYTHONPATH", "/opt/mine"}, {"MASTER_PORT", "1234"}};
  const LaunchPlan plan = plan_of(assignment(request));
  const Variables& variables = plan.processes[0].environment;
  EXPECT_EQ(variables.at("NCCL_DEBUG"), "INFO");
  EXPECT_EQ(variables.at("OMP_NUM_THREADS"), "7");
  EXPECT_EQ(variables.at("MASTER_PORT"), "1234");
  EXPECT_EQ(variables.at("PYTHONPATH"), "/opt/ml/code:/opt/mine");
  EXPECT_EQ(variables.at("TRAINING_JOB_NAME"), "job-1");
  EXPECT_EQ(variables.at("SM_HP_EPOCHS"), "3");
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("SM_HP_EPOCHS"), HasSubstr("TRAINING_JOB_NAME")));
}

TEST(LaunchPlan, LeavesOutVariablesThatLinuxWouldRefuse) {
  json values = json::object();
  for (int i = 0; i < 100; ++i) {
    values["key" + std::to_string(100 + i)] = std::string(2500, 'v');
  }
  const LaunchPlan plan = plan_of(assignment(script_request(values)));
  const Variables& variables = plan.processes[0].environment;
  EXPECT_EQ(variables.count("SM_HPS"), 0u);
  EXPECT_EQ(variables.at("SM_HP_KEY150"), std::string(2500, 'v'));
  EXPECT_EQ(plan.processes[0].argv.size(), 202u);
  EXPECT_THAT(plan.notes, testing::Contains(HasSubstr("SM_HPS is left out")));
}

TEST(LaunchPlan, SurvivesTheTripIntoTheContainer) {
  const LaunchPlan plan = plan_of(assignment(
      script_request({{"a", "日本語\n\"'"}, {"sagemaker_torch_distributed_enabled", "true"}})));
  const Result<Process> back = process_from_json(json::parse(to_json(plan.processes[0]).dump()));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->argv, plan.processes[0].argv);
  EXPECT_EQ(back->environment, plan.processes[0].environment);
  EXPECT_EQ(back->rank, plan.processes[0].rank);
  EXPECT_FALSE(back->is_launcher);
}

TEST(ScriptVariables, NameKeysAsTheToolkitAndAsShellsReadThem) {
  json values = {{"a.b", "1"}, {"a-b", "2"}, {"A_b", "3"}, {"c-d", "4"}};
  const Variables variables = plan_of(assignment(script_request(values))).processes[0].environment;
  EXPECT_EQ(variables.at("SM_HP_A.B"), "1");
  EXPECT_EQ(variables.at("SM_HP_A-B"), "2");
  EXPECT_EQ(variables.at("SM_HP_A_B"), "3");
  EXPECT_EQ(variables.at("SM_HP_C_D"), "4");
  EXPECT_EQ(variables.at("SM_HPS"), R"({"A_b":3,"a-b":2,"a.b":1,"c-d":4})");
}

TEST(ScriptVariables, TellTheLogOfKeysThatClash) {
  json request = script_request({{"a.b", "1"}, {"a-b", "2"}, {"x=y", "3"}});
  request["InputDataConfig"] = {{{"ChannelName", "c.d"}}, {{"ChannelName", "c-d"}}};
  const LaunchPlan plan = plan_of(assignment(request));
  EXPECT_EQ(plan.processes[0].environment.count("SM_HP_A_B"), 0u);
  EXPECT_EQ(plan.processes[0].environment.count("SM_CHANNEL_C_D"), 0u);
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("channels 'c-d', 'c.d' share"),
                                      HasSubstr("hyperparameters 'a-b', 'a.b' share"),
                                      HasSubstr("hyperparameter 'x=y' holds '='")));
  EXPECT_THAT(plan.processes[0].argv,
              ElementsAre("/env/bin/python", "train.py", "--a-b", "2", "--a.b", "1", "--x=y", "3"));
}

TEST(ScriptVariables, DescribeTheClusterAndTheChannels) {
  json request = script_request({{"epochs", "3"}});
  request["InputDataConfig"] = {{{"ChannelName", "training"}}, {{"ChannelName", "eval-set"}}};
  const Variables variables = plan_of(assignment(request)).processes[0].environment;
  EXPECT_EQ(variables.at("SM_HOSTS"), R"(["algo-1","algo-2"])");
  EXPECT_EQ(variables.at("SM_CURRENT_HOST"), "algo-2");
  EXPECT_EQ(variables.at("SM_CHANNELS"), R"(["eval-set","training"])");
  EXPECT_EQ(variables.at("SM_CHANNEL_TRAINING"), "/opt/ml/input/data/training");
  EXPECT_EQ(variables.at("SM_CHANNEL_EVAL_SET"), "/opt/ml/input/data/eval-set");
  EXPECT_EQ(variables.at("SM_USER_ARGS"), R"(["--epochs","3"])");
  EXPECT_EQ(variables.at("SM_MODULE_NAME"), "train");
  EXPECT_EQ(variables.at("SM_MODULE_DIR"), "s3://b/sourcedir.tar.gz");
  EXPECT_EQ(variables.at("SM_NUM_CPUS"), "4");
  EXPECT_EQ(json::parse(variables.at("SM_TRAINING_ENV"))["hyperparameters"]["epochs"], 3);
}

TEST(ContainerEnvironment, HasNoWayOutUnderNetworkIsolation) {
  json request = script_request({});
  request["EnableNetworkIsolation"] = true;
  const Variables variables = plan_of(assignment(request)).processes[0].environment;
  EXPECT_EQ(variables.count("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"), 0u);
  EXPECT_EQ(variables.count("AWS_ENDPOINT_URL"), 0u);
  const Variables open = plan_of(assignment(script_request({}))).processes[0].environment;
  EXPECT_EQ(open.at("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"), "/v2/credentials/x");
  EXPECT_EQ(open.at("AWS_ENDPOINT_URL"), "http://10.77.0.254:8321");
}

TEST(ContainerEnvironment, BringsTheCallersCertificatesAlong) {
  const ContainerEnvironment environment = container_environment(
      assignment(script_request({})), {.caller = {{"SSL_CERT_FILE", "/tmp/ca.pem"},
                                                  {"AWS_CA_BUNDLE", "/etc/ssl/certs/ca.crt"},
                                                  {"PIP_INDEX_URL", "http://mirror/simple"},
                                                  {"UV_CACHE_DIR", "/root/.cache/uv"},
                                                  {"SECRET", "x"},
                                                  {"https_proxy", "http://proxy:3128"}},
                                       .credentials_path = "/c",
                                       .hidden = {"/tmp"}});
  const Variables& variables = environment.defaults_and_user;
  EXPECT_EQ(variables.at("SSL_CERT_FILE"), "/run/trainyard/ca/0-ca.pem");
  EXPECT_EQ(environment.files.at(0).source, "/tmp/ca.pem");
  EXPECT_EQ(variables.at("AWS_CA_BUNDLE"), "/etc/ssl/certs/ca.crt");
  EXPECT_EQ(variables.at("PIP_INDEX_URL"), "http://mirror/simple");
  EXPECT_EQ(variables.count("UV_CACHE_DIR"), 0u);
  EXPECT_EQ(variables.count("SECRET"), 0u);
  EXPECT_THAT(variables.at("no_proxy"), HasSubstr("algo-1,10.77.0.1"));
}

}  // namespace
}  // namespace trainyard::instance
