// SPDX-License-Identifier: Apache-2.0
#include "store/upload_pages.h"

#include <gtest/gtest.h>

namespace trainyard::store {
namespace {

std::vector<s3::UploadInfo> uploads() {
  std::vector<s3::UploadInfo> all;
  for (const auto& [key, id] : std::vector<std::pair<std::string, std::string>>{
           {"a", "1"}, {"a", "2"}, {"c/x", "3"}, {"c/y", "4"}, {"e", "5"}, {"f/z", "6"}}) {
    all.push_back({.key = key, .upload_id = id});
  }
  return all;
}

// As a store answers; counts the uploads that it hands out.
UploadSource source_of(const std::vector<s3::UploadInfo>& all, std::size_t* given = nullptr) {
  return [all, given](const s3::UploadsAfter& after) -> Result<std::vector<s3::UploadInfo>> {
    std::vector<s3::UploadInfo> found;
    for (const s3::UploadInfo& upload : all) {
      const bool follows =
          upload.key > after.key ||
          (upload.key == after.key && !after.id.empty() && upload.upload_id > after.id);
      if (follows && upload.key.starts_with(after.prefix) && found.size() < after.limit) {
        found.push_back(upload);
      }
    }
    if (given != nullptr) {
      *given += found.size();
    }
    return found;
  };
}

// "a:1 c/ ..." of all pages, one line each.
std::string pages(UploadQuery query) {
  std::string text;
  for (int i = 0; i < 10; ++i) {
    const UploadPage page = *page_uploads(source_of(uploads()), query);
    for (const s3::UploadInfo& upload : page.uploads) {
      text += upload.key + ":" + upload.upload_id + " ";
    }
    for (const std::string& prefix : page.common_prefixes) {
      text += prefix + " ";
    }
    text += "\n";
    if (!page.truncated) {
      return text;
    }
    query.key_marker = page.next_key;
    query.id_marker = page.next_id;
  }
  return text + "no end";
}

TEST(UploadPages, HoldEachUploadOnce) {
  EXPECT_EQ(pages({.limit = 4}), "a:1 a:2 c/x:3 c/y:4 \ne:5 f/z:6 \n");
  EXPECT_EQ(pages({.limit = 1}), "a:1 \na:2 \nc/x:3 \nc/y:4 \ne:5 \nf/z:6 \n");
}

TEST(UploadPages, FoldWhatADelimiterHides) {
  EXPECT_EQ(pages({.delimiter = "/"}), "a:1 a:2 e:5 c/ f/ \n");
  EXPECT_EQ(pages({.delimiter = "/", .limit = 3}), "a:1 a:2 c/ \ne:5 f/ \n");
}

TEST(UploadPages, BeginBehindAKeyWhenNoIdIsGiven) {
  EXPECT_EQ(pages({.key_marker = "a"}), "c/x:3 c/y:4 e:5 f/z:6 \n");
  EXPECT_EQ(pages({.key_marker = "a", .id_marker = "1"}), "a:2 c/x:3 c/y:4 e:5 f/z:6 \n");
}

TEST(UploadPages, OfNothingAreNotTruncated) {
  EXPECT_FALSE(page_uploads(source_of(uploads()), {.limit = 0})->truncated);
  EXPECT_FALSE(page_uploads(source_of({}), {})->truncated);
}

TEST(UploadPages, JumpOverWhatAPrefixHides) {
  std::vector<s3::UploadInfo> all;
  for (int i = 100; i < 200; ++i) {
    all.push_back({.key = "a/" + std::to_string(i), .upload_id = "1"});
  }
  all.push_back({.key = "b", .upload_id = "1"});
  std::size_t given = 0;
  const auto page = page_uploads(source_of(all, &given), {.delimiter = "/", .limit = 3});
  ASSERT_TRUE(page);
  EXPECT_EQ(page->common_prefixes, std::vector<std::string>{"a/"});
  EXPECT_EQ(page->uploads.size(), 1u);
  EXPECT_FALSE(page->truncated);
  EXPECT_LE(given, 8u);
}

TEST(UploadPages, LoadNoMoreThanTheyHold) {
  std::vector<s3::UploadInfo> all;
  for (int i = 100; i < 200; ++i) {
    all.push_back({.key = "k" + std::to_string(i), .upload_id = "1"});
  }
  std::size_t given = 0;
  EXPECT_TRUE(page_uploads(source_of(all, &given), {.key_marker = "k150", .limit = 10})->truncated);
  EXPECT_EQ(given, 11u);
}

TEST(UploadPages, SayWhatTheStoreSays) {
  const auto page = page_uploads(
      [](const s3::UploadsAfter&) {
        return Error{Code::kNotFound, "none", "bucket"};
      },
      {});
  EXPECT_EQ(page.error().subject, "bucket");
}

}  // namespace
}  // namespace trainyard::store
