// SPDX-License-Identifier: Apache-2.0
#include "control/decide/source_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/encoding.h"
#include "control/testing/harness.h"
#include "formats/tar_gz.h"

namespace trainyard::control {
namespace {

using ::testing::HasSubstr;

class SourceCheck : public ::testing::Test {
 protected:
  SourceCheck() {
    harness_.close();
    const Path tree = directory_.path() / "tree";
    EXPECT_TRUE(make_directories(tree / "lib"));
    EXPECT_TRUE(write_file(tree / "main.py", "print()"));
    EXPECT_TRUE(write_file(tree / "lib" / "train.py", "print()"));
    std::string archive;
    EXPECT_TRUE(write_tar_gz(tree, {}, [&](std::span<const std::byte> bytes) -> Result<void> {
      archive.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return {};
    }));
    harness_.put("code.tar.gz", archive);
    harness_.put("cut.tar.gz", archive.substr(0, archive.size() / 2));
    EXPECT_TRUE(make_directories(directory_.path() / "old"));
    EXPECT_TRUE(write_file(directory_.path() / "old" / "t\xe4st.py", "print()"));  // Latin-1
    std::string old;
    EXPECT_TRUE(write_tar_gz(
        directory_.path() / "old", {}, [&](std::span<const std::byte> bytes) -> Result<void> {
          old.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          return {};
        }));
    harness_.put("old.tar.gz", old);
  }

  Result<void> check(const std::string& key, const std::string& entry_point) {
    return check_source(harness_.objects(),
                        {.archive = "s3://bucket/" + key, .entry_point = entry_point});
  }

  Harness harness_;
  TempDir directory_ = *TempDir::make();
};

TEST_F(SourceCheck, AcceptsAnEntryPointThatIsThere) {
  EXPECT_TRUE(check("code.tar.gz", "main.py"));
  EXPECT_TRUE(check("code.tar.gz", "./lib/train.py"));
  EXPECT_TRUE(check("code.tar.gz", ""));
}

TEST_F(SourceCheck, NamesTheEntryPointAndWhatIsThereInstead) {
  const auto checked = check("code.tar.gz", "train.py");
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::kInvalidArgument);
  EXPECT_THAT(checked.error().message, HasSubstr("the entry point train.py"));
  EXPECT_THAT(checked.error().message, HasSubstr("s3://bucket/code.tar.gz"));
  EXPECT_THAT(checked.error().message, HasSubstr("main.py"));
}

TEST_F(SourceCheck, NamesFilesOfAnyBytesInText) {
  const auto checked = check("old.tar.gz", "train.py");
  ASSERT_FALSE(checked);
  EXPECT_TRUE(is_utf8(checked.error().message)) << checked.error().message;
  EXPECT_THAT(checked.error().message, HasSubstr("t\xef\xbf\xbdst.py"));
}

TEST_F(SourceCheck, RefusesAnArchiveThatIsNotThere) {
  EXPECT_EQ(check("none.tar.gz", "main.py").error().code, Code::kNotFound);
}

TEST_F(SourceCheck, RefusesWhatIsNoArchiveAsTheUsersFault) {
  EXPECT_EQ(check("data/a.txt", "main.py").error().code, Code::kInvalidArgument);
  EXPECT_EQ(check("cut.tar.gz", "none.py").error().code, Code::kInvalidArgument);
}

struct Encoding {
  std::string_view value;
  bool is_archive;
};
class SourceOf : public ::testing::TestWithParam<Encoding> {};

TEST_P(SourceOf, ReadsJsonAndRawText) {
  Job job = new_job("demo");
  job.request["HyperParameters"] = {{"sagemaker_submit_directory", std::string(GetParam().value)},
                                    {"sagemaker_program", "\"train.py\""}};
  const auto source = source_of(job);
  ASSERT_EQ(source.has_value(), GetParam().is_archive);
  if (source) {
    EXPECT_EQ(source->archive, "s3://bucket/code.tar.gz");
    EXPECT_EQ(source->entry_point, "train.py");
  }
}

INSTANTIATE_TEST_SUITE_P(Table, SourceOf,
                         ::testing::Values(Encoding{"\"s3://bucket/code.tar.gz\"", true},
                                           Encoding{"s3://bucket/code.tar.gz", true},
                                           Encoding{"\"/opt/ml/input/data/code/sourcedir.tar.gz\"",
                                                    false},
                                           Encoding{"", false}, Encoding{"{\"a\": 1}", false}));

}  // namespace
}  // namespace trainyard::control
