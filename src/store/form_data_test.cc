// SPDX-License-Identifier: Apache-2.0
#include "store/form_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/s3_support.h"

namespace trainyard::store {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr const char* kType = "multipart/form-data; boundary=b0";

std::string field(const std::string& name, const std::string& value) {
  return "--b0\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n";
}
std::string file(const std::string& content, const std::string& name = "f.txt") {
  return "--b0\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name +
         "\"\r\nContent-Type: text/plain\r\n\r\n" + content + "\r\n";
}

struct Read {
  Form form;
  std::string content;
};

Result<Read> read(const std::string& body, std::size_t step = 1'000'000, const char* type = kType) {
  YARD_TRY(FormReader reader, FormReader::open(type, s3::text_source(body, step)));
  Read done;
  YARD_TRY(done.form, reader.read_fields(SystemClock()));
  std::vector<std::byte> buffer(std::max<std::size_t>(step % 1'000, 1));
  while (done.form.has_file) {
    YARD_TRY(const std::size_t got, reader.read_file(buffer));
    if (got == 0) {
      break;
    }
    done.content.append(reinterpret_cast<const char*>(buffer.data()), got);
  }
  return done;
}

class FormPaces : public testing::TestWithParam<std::size_t> {};

TEST_P(FormPaces, GiveTheSame) {
  const std::string content = "line\r\n--b\r\n--b1 \r\r\n-\r\n" + s3::long_text(5'000) + "\r\n";
  const auto done =
      read(field("key", "k") + field("Empty", "") + file(content) + "--b0--\r\n", GetParam());
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_THAT(done->form.fields, UnorderedElementsAre(Pair("key", "k"), Pair("empty", "")));
  EXPECT_EQ(done->form.file_name, "f.txt");
  EXPECT_EQ(done->content, content);
}

INSTANTIATE_TEST_SUITE_P(Steps, FormPaces, testing::Values(1, 2, 3, 7, 61, 4'096, 999'999));

TEST(FormData, HandsOnALargeFileInPieces) {
  const std::string content = s3::long_text(1'000'003);
  EXPECT_EQ(read(file(content) + "--b0--", 70'001)->content, content);
}

TEST(FormData, TakesAnEmptyFileAndNoFile) {
  EXPECT_EQ(read(file("") + "--b0--\r\n")->content, "");
  const auto none = read(field("key", "k") + "--b0--\r\n");
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->form.has_file);
}

TEST(FormData, KeepsTheFileNameWithoutItsFolders) {
  EXPECT_EQ(read(file("x", "C:\\docs\\a b.txt") + "--b0--")->form.file_name, "a b.txt");
  EXPECT_EQ(read(file("x", "/home/me/\xC3\xA9") + "--b0--")->form.file_name, "\xC3\xA9");
  EXPECT_EQ(read(file("x", "say \\\"hi\\\".txt") + "--b0--")->form.file_name, "say \"hi\".txt");
  EXPECT_EQ(read(file("x", "a; name=\\\"key\\\"") + "--b0--")->form.file_name, "a; name=\"key\"");
}

TEST(FormData, OverlooksWhatStandsBehindTheFile) {
  const auto done = read(field("key", "k") + file("x") + field("key", "other") + "--b0--\r\nmore");
  ASSERT_TRUE(done);
  EXPECT_EQ(done->form.fields.at("key"), "k");
  EXPECT_EQ(done->content, "x");
}

TEST(FormData, TakesABoundaryInQuotes) {
  EXPECT_EQ(read("--a b\r\nContent-Disposition: form-data; name=file\r\n\r\nx\r\n--a b--", 3,
                 "Multipart/Form-Data; charset=utf-8; boundary=\"a b\"")
                ->content,
            "x");
}

class BadForm : public testing::TestWithParam<std::string> {};

TEST_P(BadForm, IsRefusedAtEveryPace) {
  for (const std::size_t step : {1'000'000, 1}) {
    const auto done = read(GetParam(), step);
    ASSERT_FALSE(done) << done->content;
    EXPECT_EQ(done.error().code, Code::kInvalidArgument);
    EXPECT_EQ(done.error().subject, "form");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Bodies, BadForm,
    testing::Values(
        "", "nonsense", "--b0", "--b0\r\n", "--b1\r\n", "\r\n" + file("x") + "--b0--",
        "preamble\r\n" + file("x") + "--b0--",           // text before the first boundary
        file("x"), file("x") + "--b0", file("x") + "-",  // no end
        file("x") + "--b0 \r\n",                         // blanks behind a boundary
        file("x") + "--b0\n", file("x") + "--b0-\r\n", file("x") + "--b0x\r\n" + "--b0--",
        field("key", "a") + field("key", "b") + file("x") + "--b0--",  // twice
        field("key", "a") + field("KEY", "b") + file("x") + "--b0--", "--b0\r\n\r\nvalue\r\n--b0--",
        "--b0\r\nContent-Type: text/plain\r\n\r\nvalue\r\n--b0--",
        "--b0\r\nContent-Disposition: attachment; name=\"a\"\r\n\r\nv\r\n--b0--",
        "--b0\r\nContent-Disposition: form-data\r\n\r\nv\r\n--b0--",
        "--b0\r\nContent-Disposition: form-data; name=\"\"\r\n\r\nv\r\n--b0--",
        "--b0\r\nContent-Disposition: form-data; name=\"a\r\n\r\nv\r\n--b0--",
        "--b0\r\nContent-Disposition: form-data; name=\"a\" x\r\n\r\nv\r\n--b0--",
        "--b0\r\nContent-Disposition: form-data; name=a\"b\r\n\r\nv\r\n--b0--",
        "--b0\r\nContent-Disposition: form-data; name=\"a\"; name=\"b\"\r\n\r\nv\r\n--b0--",
        "--b0\r\nContent-Disposition: form-data; name=\"a\"\r\n"
        "Content-Disposition: form-data; name=\"b\"\r\n\r\nv\r\n--b0--",
        "--b0\r\nContent-Disposition: form-data;\r\n name=\"a\"\r\n\r\nv\r\n--b0--",
        "--b0\nContent-Disposition: form-data; name=\"a\"\n\nv\n--b0--",
        "--b0\r\nContent-Disposition: form-data; name=\"a\nb\"\r\n\r\nv\r\n--b0--"));

class BadFormType : public testing::TestWithParam<const char*> {};

TEST_P(BadFormType, IsRefused) {
  EXPECT_EQ(FormReader::open(GetParam(), s3::text_source("")).error().subject, "form");
}

INSTANTIATE_TEST_SUITE_P(
    Types, BadFormType,
    testing::Values(
        "", "text/plain", "multipart/mixed; boundary=b", "multipart/form-data",
        "multipart/form-data; boundary=", "multipart/form-data; boundary=\"b",
        "multipart/form-data; boundary=a; boundary=b", "multipart/form-data; boundary",
        "multipart/form-data; boundary=\"a\r\nb\"", "multipart/form-data; boundary=\"blank \"",
        "multipart/form-data; "
        "boundary=01234567890123456789012345678901234567890123456789012345678901234567890"));

TEST(FormData, BoundsWhatStandsBeforeAndBehindTheFile) {
  for (const std::string& body :
       {field("key", std::string(30'000, 'v')), field(std::string(30'000, 'n'), "v"),
        std::string(200'000, 'x'), "--b0\r\nA: " + std::string(100'000, 'x')}) {
    const auto done = read(body, 1'000);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().subject, "form-fields");
  }
  std::string many;
  for (int i = 0; i < 1'000; ++i) {
    many += field(std::to_string(i), "v");
  }
  EXPECT_EQ(read(many + file("x") + "--b0--").error().subject, "form-fields");
  EXPECT_THAT(read(file("x") + "--b0--" + std::string(70'000, ' ')).error().message,
              HasSubstr("following"));
}

struct StandingClock final : Clock {
  WallTime now() const override { return {}; }
  SteadyTime steady_now() const override { return steady; }
  SteadyTime steady{};
};

// A byte each second.
FormSource slow_source(const std::string& body, StandingClock& clock) {
  return [wire = s3::text_source(body, 1), &clock](std::span<std::byte> out) {
    clock.steady += std::chrono::seconds(1);
    return wire(out);
  };
}

TEST(FormData, WaitsForTheFieldsOnlySoLong) {
  StandingClock clock;
  const auto start = clock.steady_now();
  auto reader = FormReader::open(kType, slow_source(field("key", "k") + file("x"), clock));
  EXPECT_EQ(reader->read_fields(clock).error().code, Code::kDeadline);
  EXPECT_EQ(clock.steady_now() - start, std::chrono::seconds(31));
}

TEST(FormData, WaitsForTheFileAsLongAsItComes) {
  StandingClock clock;
  const std::string body = file(std::string(100, 'x')) + "--b0--";
  const std::size_t head = file("").size() - 2;
  auto slow = slow_source(body.substr(head), clock);
  auto reader = FormReader::open(kType,
                                 [quick = s3::text_source(body.substr(0, head)),
                                  slow](std::span<std::byte> out) mutable -> Result<std::size_t> {
                                   YARD_TRY(const std::size_t got, quick(out));
                                   return got > 0 ? Result<std::size_t>(got) : slow(out);
                                 });
  ASSERT_TRUE(reader->read_fields(clock));
  std::vector<std::byte> out(1'000);
  std::size_t passed = 0;
  for (std::size_t got = 1; got > 0; passed += got) {
    const auto read = reader->read_file(out);
    ASSERT_TRUE(read) << read.error().message;
    got = *read;
  }
  EXPECT_EQ(passed, 100u);
}

TEST(FormData, HandsOnTheErrorsOfItsSource) {
  const auto gone = [](std::span<std::byte>) -> Result<std::size_t> {
    return Error{Code::kUnavailable, "gone", "peer"};
  };
  EXPECT_EQ(FormReader::open(kType, gone)->read_fields(SystemClock()).error().subject, "peer");
}

}  // namespace
}  // namespace trainyard::store
