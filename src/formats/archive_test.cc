// SPDX-License-Identifier: Apache-2.0
#include "formats/archive.h"

#include <algorithm>
#include <cstring>

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "formats/archive_path.h"
#include "formats/locale.h"

namespace trainyard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

struct Member {
  std::string name;
  unsigned type = AE_IFREG;
  std::string content = {};
  std::string symlink = {};
  std::string hardlink = {};
  mode_t mode = 0644;
};

// Names go in as they are: the writer does not look at them.
std::string make_tar(const std::vector<Member>& members, bool gzip = true) {
  const Utf8Locale locale;
  archive* a = archive_write_new();
  archive_write_set_format_pax_restricted(a);
  if (gzip) {
    archive_write_add_filter_gzip(a);
  }
  std::string out(1 << 20, '\0');
  std::size_t used = 0;
  archive_write_open_memory(a, out.data(), out.size(), &used);
  for (const Member& member : members) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, member.name.c_str());
    archive_entry_set_filetype(entry, member.type);
    archive_entry_set_perm(entry, member.mode);
    archive_entry_set_mtime(entry, 1'000'000'000, 0);
    archive_entry_set_size(entry, static_cast<la_int64_t>(member.content.size()));
    if (!member.symlink.empty()) {
      archive_entry_set_symlink(entry, member.symlink.c_str());
    }
    if (!member.hardlink.empty()) {
      archive_entry_set_hardlink(entry, member.hardlink.c_str());
    }
    archive_write_header(a, entry);
    archive_write_data(a, member.content.data(), member.content.size());
    archive_entry_free(entry);
  }
  archive_write_close(a);
  archive_write_free(a);
  out.resize(used);
  return out;
}

// In pieces, as a network gives them.
ArchiveSource source_of_text(std::string text) {
  return [text = std::move(text), at = std::size_t{0}](std::span<std::byte> out) mutable {
    const std::size_t size = std::min({out.size(), text.size() - at, std::size_t{1000}});
    std::memcpy(out.data(), text.data() + at, size);
    at += size;
    return Result<std::size_t>(size);
  };
}

std::vector<std::string> names_of(const std::vector<ArchiveMember>& members) {
  std::vector<std::string> names;
  names.reserve(members.size());
  for (const ArchiveMember& member : members) {
    names.push_back(member.name);
  }
  return names;
}

class Extract : public testing::Test {
 protected:
  Result<void> extract(const std::vector<Member>& members, const ArchiveLimits& limits = {}) {
    return extract_archive(source_of_text(make_tar(members)), target_, limits);
  }

  // Everything below the directory that holds the target, to see what got out.
  std::vector<std::string> everything() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(dir_.path())) {
      names.push_back(fs::relative(entry.path(), dir_.path()));
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  void SetUp() override { ASSERT_TRUE(make_directories(target_).has_value()); }

  TempDir dir_ = *TempDir::make();
  Path target_ = dir_.path() / "target";
};

TEST(ListArchive, NamesTheMembers) {
  const std::string tar = make_tar({{.name = "./", .type = AE_IFDIR},
                                    {.name = "./train.py", .content = "print()"},
                                    {.name = "lib/", .type = AE_IFDIR},
                                    {.name = "lib/\xc3\xa4.py"},
                                    {.name = "latest", .type = AE_IFLNK, .symlink = "lib"}});
  const auto members = list_archive(source_of_text(tar));
  ASSERT_TRUE(members.has_value());
  EXPECT_THAT(names_of(*members), ElementsAre("", "train.py", "lib", "lib/\xc3\xa4.py", "latest"));
  EXPECT_EQ((*members)[1].size, 7u);
  EXPECT_EQ((*members)[1].kind, ArchiveMember::Kind::kFile);
  EXPECT_EQ((*members)[2].kind, ArchiveMember::Kind::kDirectory);
  EXPECT_EQ((*members)[4].kind, ArchiveMember::Kind::kLink);
}

TEST(ListArchive, ReadsFilesWithAndWithoutCompression) {
  const TempDir dir = *TempDir::make();
  ASSERT_TRUE(write_file(dir.path() / "a.tar", make_tar({{.name = "x"}}, false)).has_value());
  ASSERT_TRUE(write_file(dir.path() / "a.tar.gz", make_tar({{.name = "x"}})).has_value());
  EXPECT_THAT(names_of(*list_archive(dir.path() / "a.tar")), ElementsAre("x"));
  EXPECT_THAT(names_of(*list_archive(dir.path() / "a.tar.gz")), ElementsAre("x"));
  EXPECT_EQ(list_archive(dir.path() / "no").error().code, Code::kNotFound);
}

TEST(ListArchive, SaysThatATextIsNoArchive) {
  for (const char* text : {"", "import torch\n", "PK\x03\x04zip", "\x1f\x8b"}) {
    EXPECT_EQ(list_archive(source_of_text(text)).error().code, Code::kCorrupt) << text;
  }
}

TEST(ListArchive, PassesTheSourcesErrorOn) {
  const auto listed = list_archive([](std::span<std::byte>) -> Result<std::size_t> {
    return Error{Code::kDenied, "no such bucket", "bucket"};
  });
  EXPECT_EQ(listed.error().code, Code::kDenied);
  EXPECT_EQ(listed.error().message, "no such bucket");
}

TEST(ListArchive, NoticesWhereTheTextIsCutOff) {
  SeededRandom random(2);
  const std::string tar =
      make_tar({{.name = "a", .content = random.hex(5000)}, {.name = "b", .content = "x"}});
  EXPECT_EQ(list_archive(source_of_text(tar.substr(0, tar.size() / 2))).error().code,
            Code::kCorrupt);
}

TEST(ListArchive, EndsBombsEarly) {
  std::vector<Member> many(20, {.name = "x"});
  EXPECT_EQ(list_archive(source_of_text(make_tar(many)), {.members = 19}).error().subject, "limit");
  const std::string zeros(1 << 20, '\0');
  const std::string bomb =
      make_tar({{.name = "a", .content = zeros}, {.name = "b", .content = zeros}});
  const auto listed = list_archive(source_of_text(bomb), {.bytes = 1'500'000});
  EXPECT_EQ(listed.error().code, Code::kInvalidArgument);
  EXPECT_THAT(listed.error().message, HasSubstr("\"b\""));
}

TEST_F(Extract, RestoresFilesDirectoriesLinksModesAndTimes) {
  ASSERT_TRUE(extract({{.name = "bin/", .type = AE_IFDIR, .mode = 0555},
                       {.name = "bin/run", .content = "#!/bin/sh\n", .mode = 04755},
                       {.name = "new/deep/\xe6\x97\xa5", .content = "x"},
                       {.name = "latest", .type = AE_IFLNK, .symlink = "bin"},
                       {.name = "new/up", .type = AE_IFLNK, .symlink = "../bin/run"},
                       {.name = "same", .hardlink = "bin/run"}})
                  .has_value());
  EXPECT_EQ(*read_file(target_ / "bin/run"), "#!/bin/sh\n");
  EXPECT_EQ(*read_file(target_ / "latest/run"), "#!/bin/sh\n");
  EXPECT_EQ(*read_file(target_ / "new/up"), "#!/bin/sh\n");
  EXPECT_EQ(*read_file(target_ / "new/deep/\xe6\x97\xa5"), "x");
  struct stat status = {};
  ASSERT_EQ(stat((target_ / "same").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0755u);
  EXPECT_EQ(status.st_nlink, 2u);
  EXPECT_EQ(status.st_mtime, 1'000'000'000);
  ASSERT_EQ(stat((target_ / "bin").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0755u);
}

TEST_F(Extract, ReplacesWhatIsThere) {
  ASSERT_TRUE(write_file(target_ / "a", "old and longer").has_value());
  ASSERT_TRUE(extract({{.name = "a", .content = "new"}}).has_value());
  EXPECT_EQ(*read_file(target_ / "a"), "new");
}

TEST_F(Extract, LeavesTheProcessWhereItIs) {
  const Path before = fs::current_path();
  ASSERT_TRUE(extract({{.name = "a"}}).has_value());
  EXPECT_EQ(fs::current_path(), before);
}

struct Hostile {
  const char* label;
  std::vector<Member> members;
  const char* subject;
};

class ExtractHostile : public Extract, public testing::WithParamInterface<Hostile> {};

TEST_P(ExtractHostile, IsRefusedByNameAndNothingGetsOut) {
  const Hostile& hostile = GetParam();
  const auto extracted = extract(hostile.members);
  ASSERT_FALSE(extracted.has_value());
  EXPECT_EQ(extracted.error().code, Code::kInvalidArgument) << extracted.error().message;
  EXPECT_EQ(extracted.error().subject, hostile.subject) << extracted.error().message;
  EXPECT_THAT(extracted.error().message, HasSubstr("\"" + hostile.members.back().name + "\""));
  EXPECT_THAT(everything(), testing::Each(testing::StartsWith("target")));
}

INSTANTIATE_TEST_SUITE_P(
    Archives, ExtractHostile,
    testing::Values(
        Hostile{"Dots", {{.name = "../escaped"}}, "path"},
        Hostile{"InnerDots", {{.name = "a/../../escaped"}}, "path"},
        Hostile{"Absolute", {{.name = "/tmp/trainyard-escaped"}}, "path"},
        Hostile{
            "AbsoluteLink", {{.name = "x", .type = AE_IFLNK, .symlink = "/etc/passwd"}}, "link"},
        Hostile{"LinkUp", {{.name = "x", .type = AE_IFLNK, .symlink = "../escaped"}}, "link"},
        Hostile{"LinkUpInside",
                {{.name = "a/", .type = AE_IFDIR},
                 {.name = "a/x", .type = AE_IFLNK, .symlink = "../../escaped"}},
                "link"},
        Hostile{"LinkByAnotherLink",
                {{.name = "a/b/", .type = AE_IFDIR},
                 {.name = "a/b/top", .type = AE_IFLNK, .symlink = "../.."},
                 {.name = "a/b/x", .type = AE_IFLNK, .symlink = "top/../escaped"}},
                "link"},
        Hostile{"HardLinkUp", {{.name = "x", .hardlink = "../escaped"}}, "link"},
        Hostile{"HardLinkAbsolute", {{.name = "x", .hardlink = "/etc/passwd"}}, "link"},
        Hostile{"HardLinkThatMovesALink",
                {{.name = "a/b/", .type = AE_IFDIR},
                 {.name = "a/b/l", .type = AE_IFLNK, .symlink = "../../y"},
                 {.name = "x", .hardlink = "a/b/l"}},
                "link"},
        Hostile{"ThroughALink",
                {{.name = "d/", .type = AE_IFDIR},
                 {.name = "l", .type = AE_IFLNK, .symlink = "d"},
                 {.name = "l/x", .content = "x"}},
                "path"},
        Hostile{"Device", {{.name = "dev", .type = AE_IFCHR}}, "type"},
        Hostile{"Block", {{.name = "dev", .type = AE_IFBLK}}, "type"},
        Hostile{"NamedPipe", {{.name = "pipe", .type = AE_IFIFO}}, "type"}),
    [](const auto& hostile) { return std::string(hostile.param.label); });

TEST_F(Extract, DoesNotWriteThroughALinkThatWasThereBefore) {
  ASSERT_TRUE(make_directories(dir_.path() / "outside").has_value());
  fs::create_directory_symlink("../outside", target_ / "l");
  const auto extracted = extract({{.name = "l/x", .content = "x"}});
  EXPECT_EQ(extracted.error().code, Code::kInvalidArgument) << extracted.error().message;
  EXPECT_TRUE(fs::is_empty(dir_.path() / "outside"));
}

TEST_F(Extract, StopsAtTheLimits) {
  const auto extracted =
      extract({{.name = "a", .content = "x"}, {.name = "b", .content = std::string(5000, 'x')}},
              {.bytes = 4000});
  EXPECT_EQ(extracted.error().subject, "limit");
  EXPECT_THAT(everything(), ElementsAre("target", "target/a"));
}

TEST_F(Extract, SurvivesDamagedArchives) {
  const std::string good = make_tar({{.name = "a/", .type = AE_IFDIR},
                                     {.name = "a/x", .content = "some text"},
                                     {.name = "a/l", .type = AE_IFLNK, .symlink = "x"}},
                                    false);
  SeededRandom random(5);
  for (int round = 0; round < 300; ++round) {
    std::string bad = good;
    for (std::uint64_t damage = random.next() % 8; damage-- > 0;) {
      bad[random.next() % std::min<std::size_t>(bad.size(), 3072)] =
          static_cast<char>(random.next());
    }
    static_cast<void>(extract_archive(source_of_text(bad), target_, {.bytes = 1 << 20}));
    static_cast<void>(list_archive(source_of_text(bad)));
  }
  EXPECT_THAT(everything(), testing::Each(testing::StartsWith("target")));
}

TEST(CleanMemberName, KeepsNamesInside) {
  EXPECT_EQ(clean_member_name("./a//b/"), "a/b");
  EXPECT_EQ(clean_member_name("."), "");
  EXPECT_EQ(clean_member_name("a..b/..c"), "a..b/..c");
  EXPECT_EQ(clean_member_name("a/.."), std::nullopt);
  EXPECT_EQ(clean_member_name("/a"), std::nullopt);
}

TEST(LinkStaysInside, CountsTheStepsUp) {
  EXPECT_TRUE(link_stays_inside("a", "b"));
  EXPECT_TRUE(link_stays_inside("a/b/c", "../../d"));
  EXPECT_TRUE(link_stays_inside("a/b", "./../x"));
  EXPECT_FALSE(link_stays_inside("a", ".."));
  EXPECT_FALSE(link_stays_inside("a/b/c", "../../../d"));
  EXPECT_FALSE(link_stays_inside("a/b/c", "x/../y"));
  EXPECT_FALSE(link_stays_inside("a", ""));
  EXPECT_FALSE(link_stays_inside("a", "/a"));
}

}  // namespace
}  // namespace trainyard
