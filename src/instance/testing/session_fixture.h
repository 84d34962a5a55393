// SPDX-License-Identifier: Apache-2.0
// For tests only: a whole instance, the real supervisor as a process, in a network namespace of the
// tests' own, against fake_server.h. Needs root.
#pragma once

#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <unistd.h>

#include "base/subprocess.h"
#include "formats/archive.h"
#include "formats/tar_gz.h"
#include "instance/testing/fake_server.h"
#include "instance/testing/proving.h"

namespace trainyard::instance {

// Once for this process: what an engine gives an instance.
inline void enter_own_network() {
  static const bool kDone = [] {
    EXPECT_EQ(unshare(CLONE_NEWNET), 0);
    for (const char* address :
         {"127.0.0.1/8", "169.254.170.2/32", "10.77.0.1/32", "10.77.0.2/32"}) {
      const auto added = run_command(
          {.argv = {"ip", "address", "add", address, "dev", "lo"}, .env = {}}, Duration(5000));
      EXPECT_TRUE(added);
    }
    EXPECT_TRUE(
        run_command({.argv = {"ip", "link", "set", "lo", "up"}, .env = {}}, Duration(5000)));
    return true;
  }();
  EXPECT_TRUE(kDone);
}

class SessionTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) {
      GTEST_SKIP() << "needs root";
    }
    enter_own_network();
    ASSERT_TRUE(make_directories(home() / "run/job-1/1/algo-1", 0700));
    ASSERT_TRUE(make_directories(environment() / "bin"));
    std::filesystem::create_symlink("/usr/bin/python3", environment() / "bin/python");
    request_ = {{"HyperParameters",
                 {{"sagemaker_program", "train.sh"},
                  {"sagemaker_submit_directory", "s3://bucket/sourcedir.tar.gz"}}},
                {"ResourceConfig", {{"InstanceType", "ml.m5.xlarge"}}}};
  }
  void TearDown() override {
    if (instance_) {
      static_cast<void>(instance_->signal(SIGKILL));
      static_cast<void>(instance_->wait());
    }
  }

  Path home() const { return directory_.path() / "home"; }
  Path environment() const { return home() / "env"; }
  Path scratch() const { return home() / "run/job-1/1/algo-1"; }

  // The source archive of the job: names and contents.
  void source(const std::map<std::string, std::string>& files) {
    const Path tree = directory_.path() / "source";
    for (const auto& [name, content] : files) {
      ASSERT_TRUE(make_directories((tree / name).parent_path()));
      ASSERT_TRUE(write_file(tree / name, content));
    }
    archive_.clear();
    ASSERT_TRUE(write_tar_gz(tree, {}, [this](std::span<const std::byte> bytes) {
      archive_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return Result<void>();
    }));
  }

  void make_server() {
    server_ = std::make_unique<FakeServer>(
        directory_.path() / "objects",
        wire::Assignment{.job_name = "job-1",
                         .job_arn = "arn:job-1",
                         .region = "us-east-1",
                         .account = "123456789012",
                         .host = "algo-1",
                         .hosts = {{"algo-1", "10.77.0.1"}, {"algo-2", "10.77.0.2"}},
                         .network_interface = "lo",
                         .request = request_,
                         .python_environment = environment().string(),
                         .server = {},
                         .num_cpus = 2,
                         .gpus = {},
                         .log_stream = "job-1/algo-1-1",
                         .stop_grace = Duration(3000),
                         .orphan_limit = orphan_limit_});
    server_->put("sourcedir.tar.gz", archive_);
    server_->on_report([this](const wire::Report& report) {
      if (report.phase == wire::Phase::kReady) {
        server_->send({.kind = wire::Command::Kind::kGo});
      } else if (report.phase == wire::Phase::kEnded && report.exit) {
        wire::Command upload{.kind = wire::Command::Kind::kUpload};
        upload.model =
            wire::ArtifactUpload{.s3_uri = "s3://bucket/out/model.tar.gz", .note = upload_note_};
        server_->send(upload);
      } else if (report.error) {
        server_->send({.kind = wire::Command::Kind::kRelease});
      }
    });
  }

  void launch() {
    if (!server_) {
      make_server();
    }
    ASSERT_TRUE(write_file(scratch() / "token", test_token() + "\n", 0600));
    const Path self = std::filesystem::read_symlink("/proc/self/exe");
    auto log = open_file(directory_.path() / "supervisor.log", O_WRONLY | O_CREAT | O_APPEND);
    ASSERT_TRUE(log);
    auto child = spawn({.argv = {self.string(), "instance", "--server", server_->url(), "--scratch",
                                 scratch().string()},
                        .env = {{"TRAINYARD_HOME", home().string()}},
                        .inherit_env = true,
                        .fds = {{log->get(), 2}}});
    ASSERT_TRUE(child) << child.error().message;
    instance_ = std::make_unique<Child>(std::move(*child));
  }

  bool wait_for_line(const std::string& text) {
    return server_->wait_until([&] {
      const std::vector<std::string> lines = server_->lines();
      return std::count(lines.begin(), lines.end(), text) > 0;
    });
  }
  void wait_for_end(int code = 0, Duration longest = Duration(40'000)) {
    constexpr ExitStatus kStillRunning{.code = -1};
    const Result<std::optional<ExitStatus>> status = instance_->wait_for(longest);
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(status->value_or(kStillRunning).code, code) << supervisor_log();
  }
  void run() {
    launch();
    wait_for_end();
  }

  std::string supervisor_log() const {
    return read_file(directory_.path() / "supervisor.log").value_or("");
  }
  wire::Exit exit() const {
    for (const wire::Report& report : server_->reports()) {
      if (report.exit) {
        return *report.exit;
      }
    }
    ADD_FAILURE() << "no exit was reported:\n" << supervisor_log();
    return {};
  }
  Error error() const {
    for (const wire::Report& report : server_->reports()) {
      if (report.error) {
        return *report.error;
      }
    }
    ADD_FAILURE() << "no error was reported";
    return {};
  }
  std::string model_file(const std::string& name) {
    const std::string archive = server_->get("out/model.tar.gz");
    const Path path = directory_.path() / "model";
    EXPECT_TRUE(make_directories(path));
    EXPECT_TRUE(write_file(directory_.path() / "model.tar.gz", archive));
    EXPECT_TRUE(extract_archive(directory_.path() / "model.tar.gz", path));
    return read_file(path / name).value_or("(missing)");
  }

  TempDir directory_ = *TempDir::make("trainyard-session-");
  nlohmann::json request_;
  std::string upload_note_;  // with the command to upload
  Duration orphan_limit_{std::chrono::hours(24)};
  std::string archive_;
  std::unique_ptr<FakeServer> server_;
  std::unique_ptr<Child> instance_;
};

}  // namespace trainyard::instance
