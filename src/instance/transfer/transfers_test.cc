// SPDX-License-Identifier: Apache-2.0
// Channels, source and artifacts against a real store on this machine's disk.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "formats/archive.h"
#include "formats/tar_gz.h"
#include "instance/launch/contract.h"
#include "instance/transfer/artifacts.h"
#include "instance/transfer/channels.h"
#include "instance/transfer/code.h"
#include "testing/no_threads.h"
#include "testing/s3_support.h"
#include "testing/unserved_store.h"

namespace trainyard::instance {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// S3Client says so of an object that is not the one any more whose first bytes it has read.
class ReplacedReader final : public s3::ObjectReader {
 public:
  ReplacedReader(std::unique_ptr<s3::ObjectReader> real, std::function<void()> replace)
      : real_(std::move(real)), replace_(std::move(replace)) {}

  const s3::ObjectInfo& info() const override { return real_->info(); }
  Result<std::size_t> read(std::span<std::byte> out) override {
    if (!std::exchange(is_begun_, true)) {
      return real_->read(out);
    }
    replace_();
    return Error{Code::kConflict, "replaced while it was read", "precondition"};
  }

 private:
  std::unique_ptr<s3::ObjectReader> real_;
  std::function<void()> replace_;
  bool is_begun_ = false;
};

// Its one object is replaced during the first so many times that it is read.
class ReplacingStore final : public s3::UnservedStore {
 public:
  ReplacingStore(s3::ObjectStore& real, int times) : real_(real), times_(times) {}

  int reads() const { return reads_; }
  Result<std::unique_ptr<s3::ObjectReader>> get(const std::string& bucket, const std::string& key,
                                                std::optional<s3::ByteRange> range) override {
    ++reads_;
    auto reader = real_.get(bucket, key, range);
    if (!reader || reads_ > times_) {
      return reader;
    }
    return std::unique_ptr<s3::ObjectReader>(
        std::make_unique<ReplacedReader>(*std::move(reader), [this, bucket, key] {
          EXPECT_TRUE(s3::put_text(real_, bucket, key, "new " + std::to_string(reads_)));
        }));
  }
  Result<s3::ListPage> list(const std::string& bucket, const s3::ListQuery& query) override {
    return real_.list(bucket, query);
  }

 private:
  s3::ObjectStore& real_;
  int times_;
  int reads_ = 0;
};

class TransfersTest : public testing::Test {
 protected:
  void SetUp() override {
    auto store = s3::DirectoryStore::open(directory_.path() / "objects", clock_, random_);
    ASSERT_TRUE(store) << store.error().message;
    store_ = std::move(*store);
    ASSERT_TRUE(store_->create_bucket("bucket"));
    assignment_.host = "algo-2";
    assignment_.hosts = {{"algo-1", "10.0.0.1"}, {"algo-2", "10.0.0.2"}};
  }

  void put(const std::string& key, const std::string& text) {
    ASSERT_TRUE(s3::put_text(*store_, "bucket", key, text));
  }

  void add_channel(const std::string& name, const std::string& uri, bool sharded = false) {
    json source = {{"S3DataType", "S3Prefix"}, {"S3Uri", uri}};
    if (sharded) {
      source["S3DataDistributionType"] = "ShardedByS3Key";
    }
    assignment_.request["InputDataConfig"].push_back(
        {{"ChannelName", name}, {"DataSource", {{"S3DataSource", source}}}});
  }

  Result<void> fetch() { return fetch_from(*store_); }
  Result<void> fetch_from(s3::ObjectStore& store) {
    for (const std::string& directory : contract_directories(assignment_)) {
      YARD_TRY(make_directories(ml() / directory));
    }
    YARD_TRY(
        remarks_,
        fetch_channels(assignment_, store, ml(),
                       {.message = [](const std::string&) {},
                        .note = [this](std::string note) { notes_.push_back(std::move(note)); }},
                       {}));
    return {};
  }

  Path ml() const { return directory_.path() / "ml"; }
  std::string data(const std::string& path) const {
    return read_file(ml() / "input/data" / path).value_or("(missing)");
  }

  // Of the program "run.sh", which needs the right to be executed.
  Result<CodeFacts> fetch_code_from(const std::string& place) {
    return fetch_code(assignment_, {.command = {}, .program = "run.sh", .submit_directory = place},
                      *store_, ml());
  }
  // A file of the machine's that no job may touch.
  Path file_outside() const {
    const Path outside = directory_.path() / "outside";
    EXPECT_TRUE(write_file(outside, "mine"));
    return outside;
  }
  static bool is_executable(const Path& file) {
    struct stat info = {};
    EXPECT_EQ(stat(file.c_str(), &info), 0);
    return (info.st_mode & 0111) != 0;
  }

  void put_archive(const std::string& key, const Path& tree) {
    std::string archive;
    ASSERT_TRUE(write_tar_gz(tree, {}, [&](std::span<const std::byte> bytes) {
      archive.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return Result<void>();
    }));
    put(key, archive);
  }

  SystemClock clock_;
  SystemRandom random_;
  TempDir directory_ = *TempDir::make("trainyard-transfers-");
  std::unique_ptr<s3::DirectoryStore> store_;
  wire::Assignment assignment_;
  std::vector<std::string> notes_;
  std::vector<std::string> remarks_;
};

TEST_F(TransfersTest, DownloadsEveryObjectOfAChannel) {
  put("data/a", "one");
  put("data/empty", "");
  put("data/deep/er/b c+日", "two");
  add_channel("training", "s3://bucket/data");
  const Result<void> fetched = fetch();
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_EQ(data("training/a"), "one");
  EXPECT_EQ(data("training/empty"), "");
  EXPECT_EQ(data("training/deep/er/b c+日"), "two");
  EXPECT_EQ(json::parse(data("training-manifest")),
            (json{{{"prefix", "s3://bucket/"}}, "data/a", "data/deep/er/b c+日", "data/empty"}));
}

TEST_F(TransfersTest, DownloadsWithoutThreadsThatTheMachineHasNotToGive) {
  put("data/a", "one");
  put("data/b", "two");
  add_channel("training", "s3://bucket/data");
  const NoThreads exhausted;
  const Result<void> fetched = fetch();
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_EQ(data("training/a"), "one");
  EXPECT_EQ(data("training/b"), "two");
}

TEST_F(TransfersTest, FetchesAnObjectAnewThatIsReplacedWhileItIsDownloaded) {
  put("data/a", "old and longer than what replaces it");
  add_channel("training", "s3://bucket/data");
  ReplacingStore store(*store_, 5);
  const Result<void> fetched = fetch_from(store);
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_EQ(data("training/a"), "new 5");
}

TEST_F(TransfersTest, GivesUpOnAnObjectThatIsReplacedAgainAndAgain) {
  put("data/a", "old");
  add_channel("training", "s3://bucket/data");
  ReplacingStore store(*store_, 1'000);
  const Result<void> fetched = fetch_from(store);
  ASSERT_FALSE(fetched);
  EXPECT_THAT(fetched.error().message, HasSubstr("replaced while it was read"));
  EXPECT_EQ(store.reads(), 6);
}

TEST_F(TransfersTest, GivesEachHostItsShard) {
  for (const char* key : {"data/0", "data/1", "data/2"}) {
    put(key, key);
  }
  add_channel("training", "s3://bucket/data/", /*sharded=*/true);
  ASSERT_TRUE(fetch());
  EXPECT_EQ(data("training/0"), "(missing)");
  EXPECT_EQ(data("training/1"), "data/1");
  EXPECT_EQ(data("training/2"), "(missing)");
}

TEST_F(TransfersTest, PassesWarningsOn) {
  put("train/a", "");
  put("train2/a", "");
  add_channel("training", "s3://bucket/train");
  ASSERT_TRUE(fetch());
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("train2/")));
}

TEST_F(TransfersTest, RemarksOnAnObjectWhoseNameAFolderHas) {
  put("train/x", "object");
  put("train/x/y", "below");
  put("train/z", "other");
  add_channel("training", "s3://bucket/train/");
  ASSERT_TRUE(fetch());
  EXPECT_EQ(data("training/x/y"), "below");
  EXPECT_EQ(data("training/z"), "other");
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("the object 'train/x' is left out")));
  EXPECT_THAT(remarks_, ElementsAre("channel training is without 1 object whose name a folder has: "
                                    "'train/x'"));
}

TEST_F(TransfersTest, NamesChannelAndUriOfWhatIsNotThere) {
  add_channel("training", "s3://bucket/none");
  const Result<void> fetched = fetch();
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().code, Code::kNotFound);
  EXPECT_THAT(fetched.error().message, HasSubstr("channel training from s3://bucket/none"));
}

TEST_F(TransfersTest, NeverLeavesTheChannelsDirectory) {
  put("data/../../../escaped", "x");
  add_channel("training", "s3://bucket/data/");
  const Result<void> fetched = fetch();
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().code, Code::kInvalidArgument);
  EXPECT_FALSE(fs::exists(directory_.path() / "escaped"));
}

TEST_F(TransfersTest, UnpacksTheSourceAndSeesWhatItHolds) {
  const Path tree = directory_.path() / "tree";
  ASSERT_TRUE(make_directories(tree));
  ASSERT_TRUE(write_file(tree / "run.sh", "x"));
  ASSERT_TRUE(write_file(tree / "requirements.txt", "x"));
  put_archive("code.tar.gz", tree);
  ASSERT_TRUE(make_directories(ml() / "code"));
  const Result<CodeFacts> facts = fetch_code(
      assignment_,
      {.command = {}, .program = "run.sh", .submit_directory = "s3://bucket/code.tar.gz"}, *store_,
      ml());
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_TRUE(facts->has_requirements);
  EXPECT_FALSE(facts->has_setup_py);
  struct stat info = {};
  ASSERT_EQ(stat((ml() / "code/run.sh").c_str(), &info), 0);
  EXPECT_NE(info.st_mode & S_IXUSR, 0u);
}

TEST_F(TransfersTest, TakesTheSourceFromAChannelToo) {
  const Path tree = directory_.path() / "tree";
  ASSERT_TRUE(make_directories(tree));
  ASSERT_TRUE(write_file(tree / "train.py", "x"));
  put_archive("in/sourcedir.tar.gz", tree);
  add_channel("code", "s3://bucket/in/");
  ASSERT_TRUE(fetch());
  const Result<CodeFacts> facts =
      fetch_code(assignment_,
                 {.command = {},
                  .program = "train.py",
                  .submit_directory = "/opt/ml/input/data/code/sourcedir.tar.gz"},
                 *store_, ml());
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_TRUE(fs::exists(ml() / "code/train.py"));
}

TEST_F(TransfersTest, FollowsNoLinkThatAnAttemptHasLeftInAChannelWithItsSource) {
  const Path outside = file_outside();
  const Path channel = ml() / "input/data/code";
  ASSERT_TRUE(make_directories(channel));
  ASSERT_TRUE(make_directories(ml() / "code"));
  fs::create_symlink(outside, channel / "run.sh");
  const auto facts = fetch_code_from("/opt/ml/input/data/code");
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().code, Code::kNotFound);
  EXPECT_FALSE(is_executable(outside));
}

TEST_F(TransfersTest, LetsNoProgramLeadOutOfItsSource) {
  const Path outside = file_outside();
  ASSERT_TRUE(make_directories(ml() / "code"));
  for (const Path& target : {outside, Path("../../outside")}) {
    fs::remove(ml() / "code/run.sh");
    fs::create_symlink(target, ml() / "code/run.sh");
    const auto facts = fetch_code_from("/opt/ml/code");
    ASSERT_FALSE(facts);
    EXPECT_EQ(facts.error().code, Code::kNotFound);
  }
  EXPECT_FALSE(is_executable(outside));
}

TEST_F(TransfersTest, LeavesOutWhatIsNoSourceInAChannelAndTakesTheRest) {
  const Path channel = ml() / "input/data/code";
  ASSERT_TRUE(make_directories(channel / "bin"));
  ASSERT_TRUE(make_directories(ml() / "code"));
  ASSERT_TRUE(write_file(channel / "bin/run", "x"));
  fs::create_symlink("bin/run", channel / "run.sh");
  ASSERT_EQ(mkfifo((channel / "pipe").c_str(), 0600), 0);
  const auto facts = fetch_code_from("/opt/ml/input/data/code");
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_THAT(facts->notes, ElementsAre(HasSubstr("\"pipe\" is a pipe")));
  EXPECT_EQ(read_file(ml() / "code/bin/run").value_or(""), "x");
  EXPECT_TRUE(fs::is_symlink(ml() / "code/run.sh"));
  EXPECT_TRUE(is_executable(ml() / "code/bin/run"));
  EXPECT_FALSE(is_executable(channel / "bin/run"));
}

TEST_F(TransfersTest, RefusesASourceFromOutsideOfTheContainer) {
  ASSERT_TRUE(make_directories(ml() / "code"));
  for (const char* place : {"/etc", "/opt/ml/../../etc", "relative"}) {
    const Result<CodeFacts> facts =
        fetch_code(assignment_, {.command = {}, .program = "passwd", .submit_directory = place},
                   *store_, ml());
    ASSERT_FALSE(facts) << place;
    EXPECT_EQ(facts.error().code, Code::kInvalidArgument);
  }
}

TEST_F(TransfersTest, SaysWhenTheSourceIsNoArchive) {
  put("code.tar.gz", "not an archive");
  ASSERT_TRUE(make_directories(ml() / "code"));
  const Result<CodeFacts> facts =
      fetch_code(assignment_,
                 {.command = {}, .program = "x.py", .submit_directory = "s3://bucket/code.tar.gz"},
                 *store_, ml());
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().code, Code::kInvalidArgument);
  EXPECT_THAT(facts.error().message, HasSubstr("s3://bucket/code.tar.gz"));
}

TEST_F(TransfersTest, NamesTheFirstFilesInOrder) {
  const Path root = directory_.path() / "named";
  ASSERT_TRUE(make_directories(root / "model/deep"));
  EXPECT_THAT(first_names(root, "model"), testing::IsEmpty());
  ASSERT_TRUE(write_file(root / "model/deep/z", "1"));
  ASSERT_TRUE(write_file(root / "model/a", "1"));
  std::filesystem::create_symlink("/etc/passwd", root / "model/out");
  std::filesystem::create_symlink("a", root / "model/same");
  EXPECT_THAT(first_names(root, "model"), testing::ElementsAre("a", "deep/z", "same"));
  for (int i = 0; i < 400; ++i) {
    ASSERT_TRUE(write_file(root / "model" / ("n" + std::to_string(i)), ""));
  }
  EXPECT_EQ(first_names(root, "model").size(), 300u);
  std::filesystem::create_directory_symlink(root / "model", root / "linked");
  EXPECT_THAT(first_names(root, "linked"), testing::IsEmpty());
}

TEST_F(TransfersTest, SendsFilesAsTheyAre) {
  const Path model = ml() / "model";
  ASSERT_TRUE(make_directories(model / "sub"));
  ASSERT_TRUE(write_file(model / "sub/weights", "12345"));
  fs::create_symlink("sub/weights", model / "latest");
  const auto sent = upload_artifact(*store_, {.s3_uri = "s3://bucket/out/model", .form = "files"},
                                    model, "/opt/ml/model");
  ASSERT_TRUE(sent) << sent.error().message;
  EXPECT_EQ(store_->head("bucket", "out/model/sub/weights")->size, 5u);
  EXPECT_EQ(store_->head("bucket", "out/model/latest")->size, 5u);
}

class ArtifactForms : public TransfersTest, public testing::WithParamInterface<std::string> {
 protected:
  Result<LeftOut> send() {
    return upload_artifact(*store_, {.s3_uri = "s3://bucket/out/model", .form = GetParam()}, model_,
                           "/opt/ml/model");
  }

  // "name content", of the archive's files or of the objects.
  std::map<std::string, std::string> sent() {
    std::map<std::string, std::string> found;
    if (GetParam() == "files") {
      const auto page = store_->list("bucket", {.prefix = "out/model/"});
      for (const auto& object : page->objects) {
        found[object.key.substr(10)] = *s3::get_text(*store_, "bucket", object.key);
      }
      return found;
    }
    const Path out = directory_.path() / "unpacked";
    const std::string archive = *s3::get_text(*store_, "bucket", "out/model");
    EXPECT_TRUE(make_directories(out));
    EXPECT_TRUE(write_file(directory_.path() / "archive", archive));
    EXPECT_TRUE(extract_archive(directory_.path() / "archive", out));
    for (const auto& entry : fs::recursive_directory_iterator(out)) {
      if (entry.is_regular_file()) {
        found[entry.path().lexically_relative(out).string()] = *read_file(entry.path());
      }
    }
    return found;
  }

  Path model_ = ml() / "model";
};

using Files = std::map<std::string, std::string>;

TEST_P(ArtifactForms, LeaveOutALinkOutOfTheTreeAndSendTheRest) {
  ASSERT_TRUE(make_directories(model_ / "sub"));
  ASSERT_TRUE(write_file(model_ / "sub/weights", "12345"));
  fs::create_symlink("/etc/passwd", model_ / "sub/x");
  const auto left_out = send();
  ASSERT_TRUE(left_out) << left_out.error().message;
  EXPECT_EQ(left_out->text(),
            "\"sub/x\" is a link to \"/etc/passwd\", which leads out of the directory");
  EXPECT_EQ(sent(), (Files{{"sub/weights", "12345"}}));
}

TEST_P(ArtifactForms, LeaveOutAPipeAndSendTheRest) {
  ASSERT_TRUE(make_directories(model_));
  ASSERT_TRUE(write_file(model_ / "a", "before"));
  ASSERT_TRUE(write_file(model_ / "z", "behind"));
  ASSERT_EQ(mkfifo((model_ / "pipe").c_str(), 0600), 0);
  const auto left_out = send();
  ASSERT_TRUE(left_out) << left_out.error().message;
  EXPECT_EQ(left_out->text(), "\"pipe\" is a pipe");
  EXPECT_EQ(sent(), (Files{{"a", "before"}, {"z", "behind"}}));
}

TEST_P(ArtifactForms, SayThatTheRestIsThere) {
  const LeftOut left_out{.count = 1, .named = {"\"pipe\" is a pipe"}};
  const Error error = left_out_error(left_out, {.s3_uri = "s3://b/k", .form = GetParam()}, "/m");
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  const std::string rest = GetParam() == "files" ? "was uploaded" : "is in the archive";
  EXPECT_EQ(error.message, "/m holds something that cannot be uploaded; the rest " + rest +
                               ". Left out: \"pipe\" is a pipe");
}

INSTANTIATE_TEST_SUITE_P(Forms, ArtifactForms, testing::Values("whole", "member", "files"));

// As an object it would have to be a copy of what it leads to.
TEST_F(TransfersTest, LeavesOutALinkToNoFileAmongObjects) {
  const Path model = ml() / "model";
  ASSERT_TRUE(make_directories(model / "sub"));
  ASSERT_TRUE(write_file(model / "weights", "12345"));
  fs::create_symlink("nowhere", model / "dangling");
  fs::create_symlink("sub", model / "folder");
  const auto sent = upload_artifact(*store_, {.s3_uri = "s3://bucket/out/model", .form = "files"},
                                    model, "/opt/ml/model");
  ASSERT_TRUE(sent) << sent.error().message;
  EXPECT_EQ(sent->count, 2u);
  EXPECT_THAT(sent->text(), HasSubstr("\"dangling\" is a link to \"nowhere\""));
  EXPECT_EQ(store_->head("bucket", "out/model/weights")->size, 5u);
}

TEST_F(TransfersTest, LeavesOutWhatNoKeyCanNameAndSendsTheRest) {
  const Path model = ml() / "model";
  const std::string deep = std::string(250, 'd') + "/" + std::string(250, 'e') + "/" +
                           std::string(250, 'f') + "/" + std::string(250, 'g');
  ASSERT_TRUE(make_directories(model / deep));
  ASSERT_TRUE(write_file(model / "a", "before"));
  ASSERT_TRUE(write_file(model / deep / std::string(50, 'h'), "long"));
  ASSERT_TRUE(write_file(model / "m\xff", "odd"));
  fs::create_symlink("a", model / "n\xff");
  ASSERT_TRUE(write_file(model / "z", "behind"));
  const auto sent = upload_artifact(*store_, {.s3_uri = "s3://bucket/out/model", .form = "files"},
                                    model, "/opt/ml/model");
  ASSERT_TRUE(sent) << sent.error().message;
  EXPECT_EQ(sent->count, 3u);
  EXPECT_THAT(sent->named, testing::Contains(HasSubstr("the key is not valid UTF-8")));
  EXPECT_THAT(sent->named, testing::Contains(HasSubstr("at most 1024 are allowed")));
  EXPECT_EQ(store_->list("bucket", {.prefix = "out/model/"})->objects.size(), 2u);
  EXPECT_EQ(store_->head("bucket", "out/model/z")->size, 6u);
}

TEST_F(TransfersTest, CountsALinkForADirectoryAsNothing) {
  ASSERT_TRUE(make_directories(ml()));
  EXPECT_FALSE(holds_files(ml(), "model"));
  fs::create_symlink("/etc", ml() / "model");
  EXPECT_FALSE(holds_files(ml(), "model"));
  ASSERT_TRUE(make_directories(ml() / "output/data"));
  EXPECT_FALSE(holds_files(ml(), "output/data"));
  ASSERT_TRUE(write_file(ml() / "output/data/x", "x"));
  EXPECT_TRUE(holds_files(ml(), "output/data"));
}

}  // namespace
}  // namespace trainyard::instance
