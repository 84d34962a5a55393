// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <cerrno>
#include <memory>

#include <gtest/gtest.h>

#include "base/check.h"

namespace trainyard {
namespace {

Result<int> half_of(int number) {
  if (number % 2 != 0) {
    return Error{Code::kInvalidArgument, "odd"};
  }
  return number / 2;
}

Result<int> quarter_of(int number) {
  YARD_TRY(const int half, half_of(number));
  YARD_TRY(const int quarter, half_of(half));
  return quarter;
}

Result<void> need_even(int number) {
  YARD_TRY(half_of(number));
  return {};
}

TEST(YardTry, GivesTheValueOrReturnsTheError) {
  EXPECT_EQ(*quarter_of(12), 3);
  EXPECT_EQ(quarter_of(6).error().message, "odd");
  EXPECT_TRUE(need_even(2).has_value());
  EXPECT_EQ(need_even(3).error().code, Code::kInvalidArgument);
}

TEST(Result, CarriesWhatCanOnlyBeMoved) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  const std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 7);
}

TEST(Error, SaysWhatWasBeingDone) {
  const Error error = Error{Code::kCorrupt, "bad magic", "key"}.in("reading shard 17");
  EXPECT_EQ(error.message, "while reading shard 17: bad magic");
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_EQ(error.subject, "key");
}

TEST(ErrnoError, TakesTheFittingCode) {
  EXPECT_EQ(errno_error("open", ENOENT).code, Code::kNotFound);
  EXPECT_EQ(errno_error("open", EEXIST).code, Code::kAlreadyExists);
  EXPECT_EQ(errno_error("open", EACCES).code, Code::kDenied);
  EXPECT_EQ(errno_error("open", EPERM).code, Code::kDenied);
  EXPECT_EQ(errno_error("write", ENOSPC).code, Code::kExhausted);
  EXPECT_EQ(errno_error("write", EDQUOT).code, Code::kExhausted);
  EXPECT_EQ(errno_error("open", EMFILE).code, Code::kExhausted);
  EXPECT_EQ(errno_error("mmap", ENOMEM).code, Code::kExhausted);
  EXPECT_EQ(errno_error("connect", ECONNREFUSED).code, Code::kUnavailable);
}

TEST(ErrnoError, SaysTheSystemsWordsEvenForUnknownNumbers) {
  EXPECT_EQ(errno_error("open x", ENOENT).message, "open x: No such file or directory");
  EXPECT_EQ(errno_error("open x", 9999).message, "open x: Unknown error 9999");
}

TEST(NameOf, HasAWordForEachCode) {
  EXPECT_EQ(name_of(Code::kInvalidArgument), "InvalidArgument");
  EXPECT_EQ(name_of(Code::kInternal), "Internal");
}

TEST(YardCheckDeathTest, PrintsThePlaceAndTheReason) {
  const int number = 3;
  EXPECT_DEATH(YARD_CHECK(number == 4, "numbers agree"),
               "result_test.cc:.*check failed: number == 4: numbers agree");
}

}  // namespace
}  // namespace trainyard
