// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "http/internal/sigv4_canonical.h"
#include "http/signing_keys.h"
#include "http/sigv4.h"

namespace trainyard::http {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const std::string kId = "AKIDEXAMPLEKEY000001";
const std::string kSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const std::string kBody = R"({"TrainingJobName": "demo-1"})";
const SigningScope kS3{.region = "us-east-1", .service = "s3"};
const SigningScope kJson{.region = "us-east-1", .service = "sagemaker"};

WallTime at(std::string_view text) {
  return *parse_basic_iso8601(text);
}
const WallTime kNow = at("20261129T201205Z");

// Knows one key, with whatever token and expiry the test gives it.
KeyLookup knowing(const std::string& token = {}, std::optional<WallTime> expires = {}) {
  return [=](std::string_view id) -> std::optional<KnownKey> {
    if (id != kId) {
      return std::nullopt;
    }
    return KnownKey{kSecret, token, expires};
  };
}

Credentials credentials(const std::string& token = {}) {
  return {kId, kSecret, token};
}

Request json_request() {
  Request request{.method = "POST", .path = "/"};
  request.headers.add("Host", "127.0.0.1:5611");
  request.headers.add("X-Amz-Target", "SageMaker.StopTrainingJob");
  request.headers.add("Content-Type", "application/x-amz-json-1.1");
  return request;
}

Request signed_json(const std::string& token = {}) {
  Request request = json_request();
  sign(request, sha256_hex(kBody), credentials(token), kJson, kNow);
  return request;
}

Request get(std::string path, std::string query = {}) {
  Request request{.method = "GET", .path = std::move(path), .query = std::move(query)};
  request.headers.add("Host", "127.0.0.1:5611");
  return request;
}

Request presigned(std::chrono::seconds valid_for = 900s, const std::string& query = {}) {
  Request request = get("/yard-data/big", query);
  request.query = presign(request, credentials(), kS3, kNow, valid_for);
  return request;
}

AuthError failure_of(const Request& request, std::string_view hash,
                     const KeyLookup& keys = knowing(), WallTime now = kNow) {
  const auto result = verify(request, hash, keys, now);
  EXPECT_TRUE(std::holds_alternative<AuthError>(result)) << "it was accepted";
  return std::holds_alternative<AuthError>(result) ? std::get<AuthError>(result) : AuthError{};
}

bool is_good(const Request& request, std::string_view hash, const KeyLookup& keys = knowing(),
             WallTime now = kNow) {
  const auto result = verify(request, hash, keys, now);
  if (const auto* error = std::get_if<AuthError>(&result)) {
    ADD_FAILURE() << error->message;
  }
  return std::holds_alternative<Verified>(result);
}

// Replaces text in the one place where it must be.
void alter(std::string& text, std::string_view from, std::string_view to) {
  const std::size_t place = text.find(from);
  ASSERT_NE(place, std::string::npos) << from;
  text.replace(place, from.size(), to);
}

void alter_header(Request& request, const std::string& name, std::string_view from,
                  std::string_view to) {
  std::string value(request.headers.get(name));
  alter(value, from, to);
  request.headers.set(name, value);
}

// --- requests that botocore 1.44.8 signed -----------------------------------------------------

TEST(VerifyBotocore, HeaderSignatureForS3) {
  Request request{.method = "PUT", .path = "/yard-data/train/%C3%A4%2B1.txt"};
  request.headers.add("Host", "127.0.0.1:5611");
  request.headers.add("Content-Type", "text/plain");
  request.headers.add("Expect", "100-continue");
  request.headers.add("X-Amz-Date", "20261129T201205Z");
  request.headers.add("X-Amz-Content-SHA256",
                      "73cb3858a687a8494ca3323053016282f3dad39d42cf62ca4e79dda2aac7d9ac");
  request.headers.add("Authorization",
                      "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLEKEY000001/20261129/us-east-1/s3/"
                      "aws4_request, SignedHeaders=content-type;host;x-amz-content-sha256;"
                      "x-amz-date, Signature=0251d50bd1f6b1e07e262869397b87d41d00d0f56358a8fe3c"
                      "30703d389b8326");
  const auto result = verify(request, "", knowing(), kNow);
  ASSERT_TRUE(std::holds_alternative<Verified>(result));
  const auto& verified = std::get<Verified>(result);
  EXPECT_EQ(verified.access_key_id, kId);
  EXPECT_EQ(verified.scope.service, "s3");
  EXPECT_EQ(verified.payload_hash, sha256_hex("x\n"));
  EXPECT_FALSE(verified.presigned);
}

TEST(Verify, ASecretThatWasChangedIsNotMistakenForTheOneBefore) {
  SigningKeys derived;
  Request request = get("/bucket/key");
  sign(request, kUnsignedPayload, credentials(), kS3, kNow);
  const KeyLookup changed = [](std::string_view) {
    return std::optional(KnownKey{.secret_access_key = "another"});
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(std::holds_alternative<Verified>(verify(request, "", knowing(), kNow, &derived)));
    EXPECT_TRUE(std::holds_alternative<AuthError>(verify(request, "", changed, kNow, &derived)));
  }
}

TEST(VerifyBotocore, HeaderSignatureWithTokenForSageMaker) {
  Request request = json_request();
  request.headers.add("X-Amz-Date", "20261129T201205Z");
  request.headers.add("X-Amz-Security-Token", "TOKEN/+=");
  request.headers.add("Authorization",
                      "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLEKEY000001/20261129/us-east-1/"
                      "sagemaker/aws4_request, SignedHeaders=content-type;host;x-amz-date;"
                      "x-amz-security-token;x-amz-target, Signature=f98b9c54c65239a2b57e8f35e52f"
                      "45a55587640fa4340ed39621febd9e3438b6");
  EXPECT_TRUE(is_good(request, sha256_hex(kBody), knowing("TOKEN/+=")));
}

TEST(VerifyBotocore, PresignedWithTokenAndAnUnusualPath) {
  const Request request =
      get("/yard-data//a%20b/../c",
          "list-type=2&prefix=train%2F&uploads=&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="
          "AKIDEXAMPLEKEY000001%2F20261129%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date="
          "20261129T201205Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host&X-Amz-Security-Token="
          "TOKEN%2F%2B%3D&X-Amz-Signature="
          "cdb96696b29cae38021c81bb1a8af03c26240166d22613c88d40d1a1a677f8d9");
  EXPECT_TRUE(is_good(request, "", knowing("TOKEN/+="), kNow + 899s));
}

TEST(VerifyBotocore, SignatureVersionTwoInTheQuery) {
  Request request = get("/yard-data/big",
                        "AWSAccessKeyId=AKIDEXAMPLEKEY000001&Signature="
                        "bSR3sIo4MDeCVJv3xR1wlaxd3BY%3D&Expires=1795983734");
  const WallTime expiry(std::chrono::seconds(1'795'983'734));
  const auto result = verify(request, "", knowing(), expiry);
  ASSERT_TRUE(std::holds_alternative<Verified>(result));
  EXPECT_EQ(std::get<Verified>(result).scope.service, "s3");
  EXPECT_EQ(std::get<Verified>(result).payload_hash, kUnsignedPayload);
  EXPECT_TRUE(std::get<Verified>(result).presigned);

  EXPECT_EQ(failure_of(request, "", knowing(), expiry + 1s).failure, AuthFailure::kExpired);
  EXPECT_EQ(failure_of(request, "", knowing("t"), expiry).failure, AuthFailure::kBadToken);
  request.path += "x";
  EXPECT_EQ(failure_of(request, "", knowing(), expiry).failure, AuthFailure::kMismatch);
  alter(request.query, "AKID", "AKIX");
  EXPECT_EQ(failure_of(request, "", knowing(), expiry).failure, AuthFailure::kUnknownKey);
  alter(request.query, "Expires=1", "Expires=x");
  EXPECT_EQ(failure_of(request, "", knowing(), expiry).failure, AuthFailure::kMalformed);
}

TEST(VerifyBotocore, SignatureVersionTwoOfAPartWithToken) {
  Request request = get("/yard-data/a%20b",
                        "partNumber=2&uploadId=x%2By&other=1&uploads&AWSAccessKeyId="
                        "AKIDEXAMPLEKEY000001&Signature=zGqnFhFXNYoymS3qZCoBEzbAXsg%3D&"
                        "content-type=text%2Fplain&x-amz-security-token=TOKEN%2F%2B%3D&"
                        "Expires=1795983734");
  request.method = "PUT";
  EXPECT_TRUE(is_good(request, "", knowing("TOKEN/+=")));
  alter(request.query, "partNumber=2", "partNumber=3");
  EXPECT_EQ(failure_of(request, "", knowing("TOKEN/+=")).failure, AuthFailure::kMismatch);
}

// --- what may change, and what may not --------------------------------------------------------

TEST(Verify, AcceptsReorderedHeadersAndOtherSpellings) {
  const Request request = signed_json();
  Request reordered = request;
  reordered.headers = {};
  const auto& fields = request.headers.fields();
  for (auto field = fields.rbegin(); field != fields.rend(); ++field) {
    reordered.headers.add(field->first, "  " + field->second + " ");
  }
  reordered.headers.add("User-Agent", "aws-cli");
  EXPECT_TRUE(is_good(request, sha256_hex(kBody)));
  const std::string authorization(request.headers.get("Authorization"));
  reordered.headers.set("Authorization", authorization);
  reordered.headers.set("X-Amz-Date", "20261129T201205Z");
  EXPECT_TRUE(is_good(reordered, sha256_hex(kBody)));
}

TEST(Verify, RefusesAnAlteredBody) {
  const AuthError error = failure_of(signed_json(), sha256_hex(kBody + " "));
  EXPECT_EQ(error.failure, AuthFailure::kMismatch);
  EXPECT_EQ(error.message,
            "The request signature we calculated does not match the signature you provided. Check "
            "your AWS Secret Access Key and signing method. Consult the service documentation for "
            "details.");
}

TEST(Verify, RefusesAnAlteredRequest) {
  const std::string hash = sha256_hex(kBody);
  Request target = signed_json();
  alter_header(target, "X-Amz-Target", "Stop", "Delete");
  EXPECT_EQ(failure_of(target, hash).failure, AuthFailure::kMismatch);
  Request host = signed_json();
  alter_header(host, "Host", ":5611", ":5612");
  EXPECT_EQ(failure_of(host, hash).failure, AuthFailure::kMismatch);
  Request repeated = signed_json();
  repeated.headers.add("X-Amz-Target", "SageMaker.DeleteTrainingJob");
  EXPECT_EQ(failure_of(repeated, hash).failure, AuthFailure::kMismatch);
  Request method = signed_json();
  method.method = "GET";
  EXPECT_EQ(failure_of(method, hash).failure, AuthFailure::kMismatch);
  Request query = signed_json();
  query.query = "a=b";
  EXPECT_EQ(failure_of(query, hash).failure, AuthFailure::kMismatch);
}

TEST(Verify, TheScopeIsPartOfTheSignature) {
  const std::string hash = sha256_hex(kBody);
  for (const auto& [from, to] :
       {std::pair("/us-east-1/", "/eu-west-1/"), std::pair("/sagemaker/", "/logs/")}) {
    Request request = signed_json();
    alter_header(request, "Authorization", from, to);
    EXPECT_EQ(failure_of(request, hash).failure, AuthFailure::kMismatch);
  }
  Request request = signed_json();
  alter_header(request, "Authorization", "/20261129/", "/20261128/");
  const AuthError error = failure_of(request, hash);
  EXPECT_EQ(error.failure, AuthFailure::kMalformed);
  EXPECT_THAT(error.message, HasSubstr("'20261128' != '20261129'"));
}

TEST(Verify, HostMustBeSigned) {
  Request request = signed_json();
  alter_header(request, "Authorization", "content-type;host;", "content-type;");
  EXPECT_EQ(failure_of(request, sha256_hex(kBody)).failure, AuthFailure::kMalformed);
}

TEST(Verify, NoAmzHeaderMayBeAddedUnsigned) {
  Request request = get("/b/k");
  sign(request, kEmptyHash, credentials(), kS3, kNow);
  request.headers.add("x-amz-copy-source", "other/secret");
  const AuthError error = failure_of(request, "");
  EXPECT_EQ(error.failure, AuthFailure::kMalformed);
  EXPECT_THAT(error.message, HasSubstr("not signed: x-amz-copy-source"));
}

TEST(Verify, RefusesAnUnknownKey) {
  Request request = signed_json();
  alter_header(request, "Authorization", "KEY000001", "KEY000002");
  const AuthError error = failure_of(request, sha256_hex(kBody));
  EXPECT_EQ(error.failure, AuthFailure::kUnknownKey);
  EXPECT_EQ(error.message, "The security token included in the request is invalid.");
}

TEST(Verify, RefusesAClockThatIsTwentyMinutesOffAndSaysBothTimes) {
  const std::string hash = sha256_hex(kBody);
  const AuthError late = failure_of(signed_json(), hash, knowing(), kNow + 20min);
  EXPECT_EQ(late.failure, AuthFailure::kSkewed);
  EXPECT_EQ(late.message,
            "Signature expired: 20261129T201205Z is now earlier than "
            "20261129T201705Z (20261129T203205Z - 15 min.)");
  const AuthError early = failure_of(signed_json(), hash, knowing(), kNow - 20min);
  EXPECT_EQ(early.failure, AuthFailure::kSkewed);
  EXPECT_EQ(early.message,
            "Signature not yet current: 20261129T201205Z is still later than "
            "20261129T200705Z (20261129T195205Z + 15 min.)");
  EXPECT_TRUE(is_good(signed_json(), hash, knowing(), kNow + 15min));
  EXPECT_TRUE(is_good(signed_json(), hash, knowing(), kNow - 15min));
}

TEST(Verify, AcceptsADateHeaderInsteadOfAmzDate) {
  Request request = signed_json();
  request.headers.remove("X-Amz-Date");
  EXPECT_EQ(failure_of(request, sha256_hex(kBody)).failure, AuthFailure::kMalformed);
  request.headers.add("Date", "Sun, 29 Nov 2026 20:12:05 GMT");
  EXPECT_EQ(failure_of(request, sha256_hex(kBody)).failure, AuthFailure::kMismatch);
}

// --- tokens -----------------------------------------------------------------------------------

TEST(Verify, ATokenMustBeTheKeysAndUnexpired) {
  const std::string hash = sha256_hex(kBody);
  EXPECT_TRUE(is_good(signed_json("token"), hash, knowing("token")));
  EXPECT_EQ(failure_of(signed_json(), hash, knowing("token")).failure, AuthFailure::kBadToken);
  EXPECT_EQ(failure_of(signed_json("other"), hash, knowing("token")).failure,
            AuthFailure::kBadToken);
  EXPECT_EQ(failure_of(signed_json("token"), hash, knowing("")).failure, AuthFailure::kBadToken);
  EXPECT_EQ(failure_of(signed_json("token"), hash, knowing("token", kNow)).failure,
            AuthFailure::kExpiredToken);
  EXPECT_TRUE(is_good(signed_json("token"), hash, knowing("token", kNow + 1s)));
}

TEST(Verify, AForgerLearnsNothingOfTheToken) {
  Request request = signed_json("other");
  alter_header(request, "Authorization", "Signature=", "Signature=0");
  EXPECT_EQ(failure_of(request, sha256_hex(kBody), knowing("token")).failure,
            AuthFailure::kMismatch);
}

// --- presigned --------------------------------------------------------------------------------

TEST(VerifyPresigned, HoldsUntilItExpires) {
  EXPECT_TRUE(is_good(presigned(), "", knowing(), kNow + 900s));
  const AuthError error = failure_of(presigned(), "", knowing(), kNow + 901s);
  EXPECT_EQ(error.failure, AuthFailure::kExpired);
  EXPECT_THAT(error.message, HasSubstr("20261129T202705Z"));
  EXPECT_EQ(failure_of(presigned(), "", knowing(), kNow - 20min).failure, AuthFailure::kSkewed);
  EXPECT_TRUE(is_good(presigned(604'800s), "", knowing(), kNow + 167h));
}

TEST(VerifyPresigned, RefusesTampering) {
  Request path = presigned();
  path.path = "/yard-data/small";
  EXPECT_EQ(failure_of(path, "").failure, AuthFailure::kMismatch);
  Request longer = presigned();
  alter(longer.query, "X-Amz-Expires=900", "X-Amz-Expires=90000");
  EXPECT_EQ(failure_of(longer, "").failure, AuthFailure::kMismatch);
  Request more = presigned();
  more.query += "&versionId=1";
  EXPECT_EQ(failure_of(more, "").failure, AuthFailure::kMismatch);
  Request hashed = presigned();
  hashed.headers.add("X-Amz-Content-SHA256", std::string(kEmptyHash));
  EXPECT_EQ(failure_of(hashed, "").failure, AuthFailure::kMismatch);
}

TEST(VerifyPresigned, TheOrderOfTheQueryIsFree) {
  Request request = presigned(900s, "response-content-type=a%2Fb");
  alter(request.query, "response-content-type=a%2Fb&", "");
  request.query += "&response-content-type=a%2fb";
  EXPECT_TRUE(is_good(request, ""));
}

class BadExpiries : public testing::TestWithParam<const char*> {};

TEST_P(BadExpiries, AreMalformed) {
  Request request = presigned();
  alter(request.query, "X-Amz-Expires=900", std::string("X-Amz-Expires=") + GetParam());
  EXPECT_EQ(failure_of(request, "").failure, AuthFailure::kMalformed);
}

INSTANTIATE_TEST_SUITE_P(Values, BadExpiries, testing::Values("0", "604801", "-5", "x", ""));

// --- S3's rules -------------------------------------------------------------------------------

class S3Paths : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(S3Paths, AreSignedAsSent) {
  Request request = get(GetParam().first, GetParam().second);
  sign(request, kUnsignedPayload, credentials(), kS3, kNow);
  EXPECT_TRUE(is_good(request, ""));
}

INSTANTIATE_TEST_SUITE_P(Paths, S3Paths,
                         testing::Values(std::pair("/b//k", "a&b="), std::pair("//", ""),
                                         std::pair("/b/./k/../x", "uploads"),
                                         std::pair("/b/%C3%A4%2B1.txt", ""),
                                         std::pair("/b/(raw)*'!", "prefix=a%2Fb"),
                                         std::pair("/b/lower%c3%a4", "")));

TEST(VerifyS3, AcceptsAClientThatSignsTheStrictSpelling) {
  Request request = get("/b/%28x%29");
  sign(request, kUnsignedPayload, credentials(), kS3, kNow);
  request.path = "/b/(x)";
  EXPECT_TRUE(is_good(request, ""));
}

TEST(VerifyS3, WantsAPayloadHash) {
  Request request = get("/b/k");
  sign(request, kEmptyHash, credentials(), kS3, kNow);
  Request without = request;
  without.headers.remove("X-Amz-Content-SHA256");
  EXPECT_THAT(failure_of(without, "").message, HasSubstr("x-amz-content-sha256"));
  Request odd = get("/b/k");
  sign(odd, "SOME-PAYLOAD", credentials(), kS3, kNow);
  EXPECT_EQ(failure_of(odd, "").failure, AuthFailure::kMalformed);
}

TEST(VerifyS3, GivesTheSeedOfAStreamedBody) {
  Request request = get("/b/k");
  sign(request, kStreamingSigned, credentials(), kS3, kNow);
  const auto result = verify(request, "", knowing(), kNow);
  ASSERT_TRUE(std::holds_alternative<Verified>(result));
  const auto& verified = std::get<Verified>(result);
  EXPECT_EQ(verified.payload_hash, kStreamingSigned);
  EXPECT_EQ(verified.seed_signature.size(), 64u);
  EXPECT_EQ(verified.signing_key, signing_key(kSecret, "20261129T201205Z", kS3));
  EXPECT_EQ(verified.date, "20261129T201205Z");
}

// --- malformed --------------------------------------------------------------------------------

TEST(Verify, SaysWhatIsMissing) {
  EXPECT_EQ(failure_of(get("/"), "").failure, AuthFailure::kMissing);
  Request request = get("/");
  request.headers.add("Authorization", "AWS4-HMAC-SHA256 Credential=a/b/c/d/aws4_request");
  EXPECT_EQ(failure_of(request, "").message,
            "Authorization header requires 'Signature' parameter. Authorization header requires "
            "'SignedHeaders' parameter.");
  request.headers.set("Authorization", "Basic abc");
  EXPECT_EQ(failure_of(request, "").failure, AuthFailure::kMalformed);
  request.headers.set("Authorization",
                      "AWS4-HMAC-SHA256 Credential=abc, SignedHeaders=host, Signature=0");
  EXPECT_EQ(failure_of(request, "").failure, AuthFailure::kMalformed);
}

TEST(Verify, RefusesTwoMechanismsAtOnce) {
  Request request = presigned();
  sign(request, kUnsignedPayload, credentials(), kS3, kNow);
  EXPECT_THAT(failure_of(request, "").message, HasSubstr("Only one auth mechanism allowed"));
}

TEST(Verify, NoMessageHoldsASecret) {
  Request request = signed_json("token-of-the-client");
  alter_header(request, "Authorization", "Signature=", "Signature=0");
  const std::string message = failure_of(request, sha256_hex(kBody)).message;
  EXPECT_THAT(message, testing::Not(HasSubstr(kSecret)));
  EXPECT_THAT(message, testing::Not(HasSubstr("token-of")));
}

}  // namespace
}  // namespace trainyard::http
