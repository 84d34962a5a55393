// SPDX-License-Identifier: Apache-2.0
#include "formats/tar_gz.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/random.h"
#include "base/subprocess.h"
#include "formats/archive.h"

namespace trainyard {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class TarGz : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(make_directories(tree_).has_value()); }

  void add(const std::string& name, std::string_view content) {
    ASSERT_TRUE(make_directories((tree_ / name).parent_path()).has_value());
    ASSERT_TRUE(write_file(tree_ / name, content).has_value());
  }

  Result<std::string> pack(const TarGzOptions& options = {}) {
    std::string out;
    YARD_TRY(left_out_, write_tar_gz(tree_, options, [&](std::span<const std::byte> bytes) {
               out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
               return Result<void>();
             }));
    return out;
  }

  // What Python's tarfile, the reader of most users, finds: "type name size" a line.
  std::string seen_by_python(std::string_view archive) const {
    const Path file = dir_.path() / "x.tar.gz";
    EXPECT_TRUE(write_file(file, archive).has_value());
    const auto output =
        run_command({.argv = {"/usr/bin/python3", "-c",
                              "import sys, tarfile\n"
                              "for m in tarfile.open(sys.argv[1], errorlevel=2):\n"
                              "  print(m.type.decode(), m.name, m.size, m.linkname)\n",
                              file.string()},
                     .env = {{"PYTHONUTF8", "1"}}},
                    std::chrono::seconds(30));
    EXPECT_TRUE(output->status.ok()) << output->err;
    return output->out;
  }

  TempDir dir_ = *TempDir::make();
  Path tree_ = dir_.path() / "tree";
  LeftOut left_out_;  // of the last pack()
};

TEST_F(TarGz, KeepsTheTreeInOrder) {
  add("b/model.bin", std::string(100'000, 'm'));
  add("b-c", "1");
  add("a", "");
  fs::create_symlink("b/model.bin", tree_ / "latest");
  fs::create_directory(tree_ / "z");
  EXPECT_EQ(seen_by_python(*pack()),
            "0 a 0 \n5 b 0 \n0 b/model.bin 100000 \n0 b-c 1 \n2 latest 0 b/model.bin\n5 z 0 \n");
}

TEST_F(TarGz, ComesBackByExtractingIt) {
  SeededRandom random(3);
  const std::string content = random.hex(300'000);
  add("sub/\xc3\xa4 \xe6\x97\xa5", content);
  add(std::string(120, 'n') + "/" + std::string(150, 'm'), "long");
  fs::create_symlink("../" + std::string(120, 'n'), tree_ / "sub/link");
  chmod((tree_ / "sub").c_str(), 0750);
  ASSERT_TRUE(write_file(dir_.path() / "x", *pack()).has_value());
  const Path out = dir_.path() / "out";
  ASSERT_TRUE(make_directories(out).has_value());
  ASSERT_TRUE(extract_archive(dir_.path() / "x", out).has_value());
  EXPECT_EQ(*read_file(out / "sub/\xc3\xa4 \xe6\x97\xa5"), content);
  EXPECT_EQ(*read_file(out / "sub/link" / std::string(150, 'm')), "long");
}

TEST_F(TarGz, IsTheSameForTheSameTree) {
  add("a", "x");
  add("b/c", "y");
  EXPECT_EQ(*pack(), *pack());
}

TEST_F(TarGz, HoldsNothingForAnEmptyTree) {
  EXPECT_EQ(seen_by_python(*pack()), "");
  EXPECT_FALSE(pack({.end_of_archive = false})->empty());
}

TEST_F(TarGz, JoinsTreesOfSeveralHosts) {
  add("algo-1", "one");
  const std::string first = *pack({.end_of_archive = false});
  fs::rename(tree_ / "algo-1", tree_ / "algo-2");
  const std::string second = *pack({.end_of_archive = false});
  fs::rename(tree_ / "algo-2", tree_ / "algo-3");
  const std::string last = *pack();
  EXPECT_EQ(seen_by_python(first + second + last), "0 algo-1 3 \n0 algo-2 3 \n0 algo-3 3 \n");
  ASSERT_TRUE(write_file(dir_.path() / "joined", first + second + last).has_value());
  EXPECT_EQ(list_archive(dir_.path() / "joined")->size(), 3u);
  const auto tar = run_command({.argv = {"tar", "-tzf", (dir_.path() / "joined").string()}},
                               std::chrono::seconds(30));
  EXPECT_EQ(tar->out, "algo-1\nalgo-2\nalgo-3\n");
  EXPECT_EQ(tar->err, "");
}

// While it lives this process can write no byte into any file.
class NoDiskSpace {
 public:
  NoDiskSpace() {
    previous_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &previous_);
    const rlimit none{.rlim_cur = 0, .rlim_max = previous_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &none);
  }
  ~NoDiskSpace() {
    setrlimit(RLIMIT_FSIZE, &previous_);
    std::signal(SIGXFSZ, previous_handler_);
  }
  NoDiskSpace(const NoDiskSpace&) = delete;
  NoDiskSpace& operator=(const NoDiskSpace&) = delete;

 private:
  rlimit previous_{};
  void (*previous_handler_)(int) = nullptr;
};

TEST_F(TarGz, NeedsNoTemporarySpace) {
  SeededRandom random(4);
  add("weights", random.hex(4 << 20));
  std::size_t packed = 0;
  bool could_write = true;
  {
    const NoDiskSpace none;
    could_write = write_file(dir_.path() / "probe", "x").has_value();
    const auto sink = [&](std::span<const std::byte> bytes) {
      packed += bytes.size();
      return Result<void>();
    };
    EXPECT_TRUE(write_tar_gz(tree_, {}, sink).has_value());
  }
  EXPECT_FALSE(could_write);
  EXPECT_GT(packed, std::size_t{4} << 20);
}

class TarGzLink : public TarGz, public testing::WithParamInterface<const char*> {};

TEST_P(TarGzLink, ThatLeavesTheTreeIsLeftOutByName) {
  add("sub/own", "x");
  fs::create_symlink(GetParam(), tree_ / "sub/foreign");
  EXPECT_EQ(seen_by_python(*pack()), "5 sub 0 \n0 sub/own 1 \n");
  EXPECT_EQ(left_out_.count, 1u);
  EXPECT_THAT(left_out_.text(), HasSubstr("\"sub/foreign\""));
}

INSTANTIATE_TEST_SUITE_P(Targets, TarGzLink,
                         testing::Values("/etc/passwd", "../../x", "../..", "a/../../../x"));

TEST_F(TarGz, KeepsALinkThatDangles) {
  fs::create_symlink("nowhere", tree_ / "dangling");
  EXPECT_EQ(seen_by_python(*pack()), "2 dangling 0 nowhere\n");
}

TEST_F(TarGz, LeavesOutByNameWhatIsNeitherFileNorDirectoryNorLink) {
  add("sub/z", "last");
  ASSERT_EQ(mkfifo((tree_ / "sub/pipe").c_str(), 0600), 0);
  EXPECT_EQ(seen_by_python(*pack()), "5 sub 0 \n0 sub/z 4 \n");
  EXPECT_EQ(left_out_.text(), "\"sub/pipe\" is a pipe");
}

TEST_F(TarGz, LeavesOutByNameWhatLiesTooDeep) {
  std::string deep = "d";
  for (int i = 0; i < 220; ++i) {
    deep += "/d";
  }
  add(deep + "/lost", "x");
  add("kept", "x");
  EXPECT_THAT(seen_by_python(*pack()), HasSubstr("0 kept 1 \n"));
  EXPECT_EQ(left_out_.count, 1u);
  EXPECT_THAT(left_out_.text(), HasSubstr("lies too deep for an archive"));
}

TEST_F(TarGz, NamesFiveOfWhatItLeavesOutAndCountsTheRest) {
  add("a", "x");
  fs::create_symlink("/etc/passwd", tree_ / "b");
  sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string path = (tree_ / "c").string();
  ASSERT_LT(path.size(), sizeof name.sun_path);
  path.copy(name.sun_path, path.size());
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  ASSERT_TRUE(pack());
  EXPECT_EQ(left_out_.text(),
            "\"b\" is a link to \"/etc/passwd\", which leads out of the directory; \"c\" is a "
            "socket");
  for (int i = 0; i < 10; ++i) {
    fs::create_symlink("/etc/passwd", tree_ / ("x" + std::to_string(i)));
  }
  EXPECT_EQ(seen_by_python(*pack()), "0 a 1 \n");
  EXPECT_THAT(left_out_.text(), testing::EndsWith("; and 7 more"));
}

// Reads until the large file is open, then changes it.
class TarGzChange : public TarGz {
 protected:
  Result<std::size_t> read_around(const std::function<void()>& change) {
    SeededRandom random(9);
    add("big", random.hex(512 << 10));
    YARD_TRY(TarGzReader reader, TarGzReader::open(tree_));
    std::vector<std::byte> buffer(1000);
    YARD_TRY(reader.read(buffer));
    change();
    for (;;) {
      YARD_TRY(const std::size_t got, reader.read(buffer));
      if (got == 0) {
        return got;
      }
    }
  }
};

TEST_F(TarGzChange, ToAShorterFileIsReported) {
  const auto read = read_around([&] { fs::resize_file(tree_ / "big", 900 << 10); });
  EXPECT_EQ(read.error().code, Code::kConflict);
  EXPECT_THAT(read.error().message, HasSubstr("\"big\""));
}

TEST_F(TarGzChange, ToALongerFileIsReported) {
  const auto read = read_around([&] { fs::resize_file(tree_ / "big", 2 << 20); });
  EXPECT_EQ(read.error().code, Code::kConflict);
}

TEST_F(TarGzChange, ToNothingIsNone) {
  EXPECT_TRUE(read_around([] {}).has_value());
}

TEST_F(TarGz, EndsWithTheSinksError) {
  add("a", "x");
  const auto written = write_tar_gz(tree_, {}, [](std::span<const std::byte>) -> Result<void> {
    return Error{Code::kExhausted, "full"};
  });
  EXPECT_EQ(written.error().message, "full");
}

TEST_F(TarGz, SaysThatTheTreeIsMissing) {
  EXPECT_EQ(TarGzReader::open(tree_ / "no").error().code, Code::kNotFound);
  add("file", "x");
  EXPECT_FALSE(TarGzReader::open(tree_ / "file").has_value());
  EXPECT_EQ(TarGzReader::open(tree_, {.level = 10}).error().code, Code::kInvalidArgument);
}

std::size_t resident_bytes() {
  const std::string statm = *read_file("/proc/self/statm");
  return static_cast<std::size_t>(std::stoul(statm.substr(statm.find(' ')))) * 4096;
}

TEST_F(TarGz, NeedsNoMemoryForALargeTree) {
  add("sparse", "");
  fs::resize_file(tree_ / "sparse", std::uintmax_t{64} << 20);
  const std::size_t before = resident_bytes();
  std::size_t most = 0;
  ASSERT_TRUE(write_tar_gz(tree_, {.level = 1}, [&](std::span<const std::byte>) {
                most = std::max(most, resident_bytes());
                return Result<void>();
              }).has_value());
  EXPECT_LT(most, before + (std::size_t{8} << 20));
}

TEST_F(TarGz, KeepsRandomTreesWhole) {
  SeededRandom random(21);
  for (int i = 0; i < 60; ++i) {
    std::string name;
    for (std::uint64_t depth = random.next() % 4; depth-- > 0;) {
      name += "d" + std::to_string(random.next() % 3) + "/";
    }
    add(name + "f" + std::to_string(i), random.hex(random.next() % 3000));
  }
  ASSERT_TRUE(write_file(dir_.path() / "x", *pack()).has_value());
  const auto output =
      run_command({.argv = {"/bin/sh", "-c", "mkdir out && tar -xzf x -C out && diff -r tree out"},
                   .env = {{"PATH", "/usr/bin:/bin"}},
                   .directory = dir_.path()},
                  std::chrono::seconds(30));
  EXPECT_TRUE(output->status.ok()) << output->out << output->err;
}

}  // namespace
}  // namespace trainyard
