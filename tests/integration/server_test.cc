// SPDX-License-Identifier: Apache-2.0
// A whole server on a free port, spoken to over HTTP as clients and instances speak to it. Only the
// engine is not real: the test plays the instance of the job.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "control/testing/fake_engine.h"
#include "http/client.h"
#include "http/sigv4.h"
#include "server/service.h"
#include "wire/messages.h"

namespace trainyard {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kImage =
    "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.6-cpu-py312";

// Owned by the test, because it must outlive the server as machines do.
class EngineHandle final : public control::Engine {
 public:
  explicit EngineHandle(control::Engine& engine) : engine_(engine) {}
  Result<control::GangNetwork> prepare(const control::GangRequest& request) override {
    return engine_.prepare(request);
  }
  Result<void> start(const control::GangId& id,
                     const std::vector<control::InstanceStart>& instances) override {
    return engine_.start(id, instances);
  }
  Result<std::vector<control::RunningInstance>> list() override { return engine_.list(); }
  Result<void> release(const control::GangId& id) override { return engine_.release(id); }
  void on_exit(std::function<void(const control::RunningInstance&)> callback) override {
    engine_.on_exit(std::move(callback));
  }

 private:
  control::Engine& engine_;
};

class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    // Jobs name the environment `torch`; nothing of it is run here.
    const Path environments = directory_->path() / "envs";
    std::filesystem::create_directories(environments / "torch");
    ::setenv("TRAINYARD_ENVS", environments.c_str(), 1);
    start();
  }

  void start() {
    server::ServerConfig config{.home = directory_->path() / "home", .port = 0};
    auto started = server::Service::start(
        config,
        [this](const Path&, server::Gateways& gateways, Random&) {
          gateways_ = &gateways;
          return Result<std::unique_ptr<control::Engine>>(std::make_unique<EngineHandle>(engine_));
        },
        clock_, random_);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    service_ = std::move(*started);
  }

  http::Response send(const http::Request& request, const std::string& body,
                      const std::string& endpoint = "") {
    const std::string base = endpoint.empty() ? service_->endpoint() : endpoint;
    http::ClientRequest out{
        .method = request.method,
        .url = base + request.path + (request.query.empty() ? "" : "?" + request.query)};
    out.headers = request.headers;
    out.body = body;
    out.timeout = std::chrono::seconds(20);
    auto response = client_->send(out);
    EXPECT_TRUE(response.has_value()) << response.error().message;
    return response ? *response : http::Response{};
  }

  http::Response send_signed(http::Request request, const std::string& body,
                             const std::string& service, const std::string& endpoint = "") {
    const std::string base = endpoint.empty() ? service_->endpoint() : endpoint;
    request.headers.set("Host", base.substr(std::string("http://").size()));
    const control::AccessKey key = service_->root_key();
    http::sign(request, sha256_hex(body),
               {.access_key_id = key.access_key_id, .secret_access_key = key.secret_access_key},
               {.region = "us-east-1", .service = service}, clock_.now());
    return send(request, body, endpoint);
  }

  http::Response call(const std::string& target, const json& input,
                      const std::string& endpoint = "") {
    http::Request request;
    request.method = "POST";
    request.path = "/";
    request.headers.set("X-Amz-Target", target);
    request.headers.set("Content-Type", "application/x-amz-json-1.1");
    return send_signed(std::move(request), input.dump(),
                       target.starts_with("Logs") ? "logs" : "sagemaker", endpoint);
  }
  json sagemaker(const std::string& operation, const json& input) {
    return json::parse(call("SageMaker." + operation, input).body);
  }
  json logs(const std::string& operation, const json& input) {
    return json::parse(call("Logs_20140328." + operation, input).body);
  }

  http::Response s3(const std::string& method, const std::string& path,
                    const std::string& body = "") {
    http::Request request;
    request.method = method;
    request.path = path;
    return send_signed(std::move(request), body, "s3");
  }

  http::Response yard(const std::string& method, const std::string& call, const std::string& token,
                      const std::string& body = "", const std::string& endpoint = "") {
    http::Request request;
    request.method = method;
    const std::size_t question = call.find('?');
    request.path = "/yard/v1/" + call.substr(0, question);
    request.query = question == std::string::npos ? "" : call.substr(question + 1);
    request.headers.set("Authorization", "Bearer " + token);
    request.headers.set(wire::kProtocolHeader, "1");
    return send(request, body, endpoint);
  }

  json job_request(const std::string& name) {
    return {{"TrainingJobName", name},
            {"AlgorithmSpecification",
             {{"TrainingImage", kImage},
              {"TrainingInputMode", "File"},
              {"ContainerEntrypoint", {"python3", "-c", "print(1)"}}}},
            {"RoleArn", "arn:aws:iam::123456789012:role/Demo"},
            {"OutputDataConfig", {{"S3OutputPath", "s3://yard-data/out/"}}},
            {"ResourceConfig",
             {{"InstanceType", "ml.m5.large"}, {"InstanceCount", 1}, {"VolumeSizeInGB", 10}}},
            {"StoppingCondition", {{"MaxRuntimeInSeconds", 600}}}};
  }

  // Waits until `done` or half a minute is over.
  template <typename Condition>
  bool eventually(Condition done) {
    const SteadyTime deadline = clock_.steady_now() + std::chrono::seconds(30);
    while (!done()) {
      if (clock_.steady_now() > deadline) {
        return false;
      }
      std::this_thread::yield();
    }
    return true;
  }

  Result<TempDir> directory_ = TempDir::make("server-test-");
  SystemClock clock_;
  SystemRandom random_;
  control::FakeEngine engine_;
  server::Gateways* gateways_ = nullptr;
  std::unique_ptr<server::Service> service_;
  std::unique_ptr<http::Client> client_ = http::Client::make();
};

TEST_F(ServerTest, SaysWhereItIsWhileItRunsAndNotAfter) {
  const Path file = directory_->path() / "home/server.json";
  const auto text = read_file(file);
  ASSERT_TRUE(text.has_value());
  const json about = json::parse(*text);
  EXPECT_EQ(about["endpoint"], service_->endpoint());
  EXPECT_EQ(about["local_url"], service_->endpoint());
  EXPECT_EQ(about["pid"], ::getpid());
  EXPECT_EQ(about["region"], "us-east-1");
  EXPECT_EQ(about["account"], "123456789012");
  service_.reset();
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(ServerTest, IsHealthy) {
  http::Request request;
  request.method = "GET";
  request.path = "/yard/health";
  EXPECT_THAT(send(request, "").body, HasSubstr("\"ok\""));
}

TEST_F(ServerTest, RefusesASecondServerInTheSameHome) {
  server::ServerConfig config{.home = directory_->path() / "home", .port = 0};
  const auto second = server::Service::start(config, server::local_engine(config), clock_, random_);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::kConflict);
}

TEST_F(ServerTest, KeepsAnObjectByteForByte) {
  ASSERT_EQ(s3("PUT", "/yard-data").status, 200);
  std::string body(300'000, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) {
    body[i] = static_cast<char>(i * 31);
  }
  EXPECT_EQ(s3("PUT", "/yard-data/a/b%20c", body).status, 200);
  EXPECT_EQ(s3("GET", "/yard-data/a/b%20c").body, body);
  EXPECT_EQ(s3("GET", "/yard-data/missing").status, 404);
}

TEST_F(ServerTest, CreatesDescribesAndListsAJob) {
  ASSERT_EQ(s3("PUT", "/yard-data").status, 200);
  const json created = sagemaker("CreateTrainingJob", job_request("demo-1"));
  EXPECT_EQ(created.value("TrainingJobArn", created.dump()),
            "arn:aws:sagemaker:us-east-1:123456789012:training-job/demo-1");
  EXPECT_EQ(sagemaker("DescribeTrainingJob", {{"TrainingJobName", "demo-1"}})["TrainingJobStatus"],
            "InProgress");
  EXPECT_EQ(sagemaker("ListTrainingJobs", json::object())["TrainingJobSummaries"].size(), 1u);
  EXPECT_EQ(sagemaker("CreateTrainingJob", job_request("demo-1"))["__type"], "ResourceInUse");
  EXPECT_EQ(sagemaker("DescribeTrainingJob", {{"TrainingJobName", "x"}})["__type"],
            "ValidationException");
}

TEST_F(ServerTest, TakesLinesFromAnInstanceAndShowsThemToAClient) {
  ASSERT_EQ(s3("PUT", "/yard-data").status, 200);
  sagemaker("CreateTrainingJob", job_request("demo-2"));
  ASSERT_TRUE(eventually([&] { return !engine_.token("demo-2", "algo-1").empty(); }));
  const std::string token = engine_.token("demo-2", "algo-1");

  const json assignment = json::parse(yard("GET", "assignment", token).body);
  EXPECT_EQ(assignment["host"], "algo-1");
  const json reports = json::array(
      {to_json(wire::Report{.seq = 1, .phase = wire::Phase::kStarting}),
       to_json(wire::Report{.seq = 2, .lines = {{.at = clock_.now(), .text = "loss=3.5"}}})});
  EXPECT_EQ(json::parse(yard("POST", "reports", token, reports.dump()).body)["acknowledged"], 2);

  const std::string group = "/aws/sagemaker/TrainingJobs";
  json streams;
  ASSERT_TRUE(eventually([&] {
    streams =
        logs("DescribeLogStreams", {{"logGroupName", group}, {"logStreamNamePrefix", "demo-2/"}});
    return streams.contains("logStreams") && !streams["logStreams"].empty();
  }));
  const json events =
      logs("GetLogEvents", {{"logGroupName", group},
                            {"logStreamName", streams["logStreams"][0]["logStreamName"]},
                            {"startFromHead", true}});
  EXPECT_EQ(events["events"][0]["message"], "loss=3.5");
}

TEST_F(ServerTest, HoldsALongPollUntilThereIsACommand) {
  ASSERT_EQ(s3("PUT", "/yard-data").status, 200);
  sagemaker("CreateTrainingJob", job_request("demo-3"));
  ASSERT_TRUE(eventually([&] { return !engine_.token("demo-3", "algo-1").empty(); }));
  const std::string token = engine_.token("demo-3", "algo-1");
  http::Response polled;
  {
    const std::jthread poll([&] { polled = yard("GET", "commands?after=0", token); });
    const json ready = json::array({to_json(wire::Report{.seq = 1, .phase = wire::Phase::kReady})});
    EXPECT_EQ(yard("POST", "reports", token, ready.dump()).status, 200);
  }
  EXPECT_EQ(json::parse(polled.body)[0]["kind"], "go");
}

TEST_F(ServerTest, EndsALongPollWhenItStops) {
  ASSERT_EQ(s3("PUT", "/yard-data").status, 200);
  sagemaker("CreateTrainingJob", job_request("demo-4"));
  ASSERT_TRUE(eventually([&] { return !engine_.token("demo-4", "algo-1").empty(); }));
  const std::string url = service_->endpoint() + "/yard/v1/commands?after=0";
  http::ClientRequest request{.url = url};
  request.headers.set("Authorization", "Bearer " + engine_.token("demo-4", "algo-1"));
  request.headers.set(wire::kProtocolHeader, "1");
  std::atomic<bool> is_answered = false;
  const std::jthread poll([&] {
    static_cast<void>(client_->send(request));
    is_answered = true;
  });
  // It is held: requests behind it are answered, and it is not.
  for (int i = 0; i < 20; ++i) {
    yard("GET", "assignment", engine_.token("demo-4", "algo-1"));
  }
  EXPECT_FALSE(is_answered);
  const SteadyTime before = clock_.steady_now();
  service_.reset();
  EXPECT_LT(clock_.steady_now() - before, std::chrono::milliseconds(500));
}

TEST_F(ServerTest, KeepsJobsAndObjectsOverARestart) {
  ASSERT_EQ(s3("PUT", "/yard-data").status, 200);
  ASSERT_EQ(s3("PUT", "/yard-data/k", "v").status, 200);
  sagemaker("CreateTrainingJob", job_request("demo-5"));
  const std::string key = service_->root_key().access_key_id;
  service_.reset();
  start();
  EXPECT_EQ(service_->root_key().access_key_id, key);
  EXPECT_EQ(s3("GET", "/yard-data/k").body, "v");
  EXPECT_EQ(sagemaker("DescribeTrainingJob", {{"TrainingJobName", "demo-5"}})["TrainingJobName"],
            "demo-5");
}

TEST_F(ServerTest, ServesLessOnAGateway) {
  const auto gateway = gateways_->open("127.0.0.2", 0);
  ASSERT_TRUE(gateway.has_value()) << gateway.error().message;
  EXPECT_EQ(gateways_->open("127.0.0.2", 0).value_or(""), *gateway);
  const http::Response refused = call("SageMaker.ListTrainingJobs", json::object(), *gateway);
  EXPECT_EQ(json::parse(refused.body)["__type"], "AccessDeniedException");
  EXPECT_EQ(yard("GET", "assignment", "wrong", "", *gateway).status, 403);
  gateways_->close("127.0.0.2");
  EXPECT_EQ(call("SageMaker.ListTrainingJobs", json::object()).status, 200);
}

}  // namespace
}  // namespace trainyard
