// SPDX-License-Identifier: Apache-2.0
#include "http/sigv4_form.h"

#include <gtest/gtest.h>

namespace trainyard::http {
namespace {

constexpr const char* kId = "AKIAIOSFODNN7EXAMPLE";

// The example of the S3 API reference, "Example: browser-based upload using HTTP POST".
SignedForm example() {
  return {
      .policy =
          "eyAiZXhwaXJhdGlvbiI6ICIyMDE1LTEyLTMwVDEyOjAwOjAwLjAwMFoiLA0KICAiY29uZGl0aW9ucyI6IFsNCiAg"
          "ICB7ImJ1Y2tldCI6ICJzaWd2NGV4YW1wbGVidWNrZXQifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRrZXkiLCAi"
          "dXNlci91c2VyMS8iXSwNCiAgICB7ImFjbCI6ICJwdWJsaWMtcmVhZCJ9LA0KICAgIHsic3VjY2Vzc19hY3Rpb25f"
          "cmVkaXJlY3QiOiAiaHR0cDovL3NpZ3Y0ZXhhbXBsZWJ1Y2tldC5zMy5hbWF6b25hd3MuY29tL3N1Y2Nlc3NmdWxf"
          "dXBsb2FkLmh0bWwifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRDb250ZW50LVR5cGUiLCAiaW1hZ2UvIl0sDQog"
          "ICAgeyJ4LWFtei1tZXRhLXV1aWQiOiAiMTQzNjUxMjM2NTEyNzQifSwNCiAgICB7IngtYW16LXNlcnZlci1zaWRl"
          "LWVuY3J5cHRpb24iOiAiQUVTMjU2In0sDQogICAgWyJzdGFydHMtd2l0aCIsICIkeC1hbXotbWV0YS10YWciLCAi"
          "Il0sDQoNCiAgICB7IngtYW16LWNyZWRlbnRpYWwiOiAiQUtJQUlPU0ZPRE5ON0VYQU1QTEUvMjAxNTEyMjkvdXMt"
          "ZWFzdC0xL3MzL2F3czRfcmVxdWVzdCJ9LA0KICAgIHsieC1hbXotYWxnb3JpdGhtIjogIkFXUzQtSE1BQy1TSEEy"
          "NTYifSwNCiAgICB7IngtYW16LWRhdGUiOiAiMjAxNTEyMjlUMDAwMDAwWiIgfQ0KICBdDQp9",
      .algorithm = "AWS4-HMAC-SHA256",
      .credential = "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request",
      .date = "20151229T000000Z",
      .signature = "8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e"};
}

WallTime at(std::string_view text) {
  return *parse_basic_iso8601(text);
}

// "" when the form is good; otherwise the name of the failure.
std::string failure(const SignedForm& form, std::string_view now = "20151229T120000Z",
                    const KnownKey& key = {"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}) {
  const auto found = verify_form(
      form, [&](std::string_view id) { return id == kId ? std::optional(key) : std::nullopt; },
      at(now));
  if (std::holds_alternative<Verified>(found)) {
    return "";
  }
  constexpr const char* kNames[] = {"missing",       "malformed", "unknown key", "bad token",
                                    "expired token", "skewed",    "expired",     "mismatch"};
  return kNames[static_cast<int>(std::get<AuthError>(found).failure)];
}

TEST(VerifyForm, TakesThePublishedExample) {
  EXPECT_EQ(failure(example()), "");
}

TEST(VerifyForm, RefusesWhatWasAltered) {
  SignedForm form = example();
  form.policy += "=";
  EXPECT_EQ(failure(form), "mismatch");
  form = example();
  form.signature.back() = '0';
  EXPECT_EQ(failure(form), "mismatch");
  EXPECT_EQ(failure(example(), "20151229T120000Z", {"another"}), "mismatch");
  form = example();
  form.credential.replace(0, 4, "BKIA");
  EXPECT_EQ(failure(form), "unknown key");
}

TEST(VerifyForm, RefusesWhatItCannotRead) {
  for (const auto member : {&SignedForm::algorithm, &SignedForm::credential, &SignedForm::date}) {
    SignedForm form = example();
    form.*member = "";
    EXPECT_EQ(failure(form), "malformed");
  }
  SignedForm form = example();
  form.date = "20151230T000000Z";
  EXPECT_EQ(failure(form), "malformed");
  form = example();
  form.credential = "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/sagemaker/aws4_request";
  EXPECT_EQ(failure(form), "malformed");
}

TEST(VerifyForm, HoldsForAWeek) {
  EXPECT_EQ(failure(example(), "20160105T000000Z"), "");
  EXPECT_EQ(failure(example(), "20160105T000001Z"), "expired");
  EXPECT_EQ(failure(example(), "20151228T234500Z"), "");
  EXPECT_EQ(failure(example(), "20151228T234459Z"), "skewed");
}

TEST(VerifyForm, WantsTheTokenOfATemporaryKey) {
  const KnownKey key{.secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                     .session_token = "token",
                     .expires = at("20151229T130000Z")};
  SignedForm form = example();
  EXPECT_EQ(failure(form, "20151229T120000Z", key), "bad token");
  form.token = "token";
  EXPECT_EQ(failure(form, "20151229T120000Z", key), "");
  EXPECT_EQ(failure(form, "20151229T130000Z", key), "expired token");
}

}  // namespace
}  // namespace trainyard::http
