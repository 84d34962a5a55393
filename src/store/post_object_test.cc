// SPDX-License-Identifier: Apache-2.0
// Uploads by HTML forms, through a real server.
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/s3_server.h"

namespace trainyard::store {
namespace {

using testing::HasSubstr;

// A form as a page would have it, signed when it is sent.
struct PostedForm {
  std::vector<std::pair<std::string, std::string>> fields = {{"key", "k"}};
  std::string conditions = R"({"key": "k"})";  // beside those that every form needs
  std::string file = "hello";
  std::string file_name = "f.txt";
  Duration valid_for = std::chrono::minutes(5);
  Duration age{0};
  std::string secret = {};  // empty: the right one
  // Done to all fields before they are written.
  std::function<void(std::map<std::string, std::string>&)> tamper = {};
};

struct PostObject : S3ServerTest {
  std::string stored(const std::string& key = "k") {
    return s3::get_text(*store, "bucket", key).value_or("(none)");
  }

  std::map<std::string, std::string> signed_fields(const PostedForm& form) {
    const std::string date = to_basic_iso8601(clock.now() - form.age);
    const std::string day = date.substr(0, 8);
    const std::string credential = std::string(kKey) + "/" + day + "/us-east-1/s3/aws4_request";
    const std::string policy = to_base64(
        R"({"expiration": ")" + to_iso8601(clock.now() + form.valid_for) +
        R"(", "conditions": [{"bucket": "bucket"}, {"x-amz-algorithm": "AWS4-HMAC-SHA256"}, )" +
        R"({"x-amz-credential": ")" + credential + R"("}, {"x-amz-date": ")" + date + R"("}, )" +
        form.conditions + "]}");
    std::string key = "AWS4" + (form.secret.empty() ? std::string(kSecret) : form.secret);
    for (const std::string& part :
         {day, std::string("us-east-1"), std::string("s3"), std::string("aws4_request")}) {
      key = hmac_sha256(key, part);
    }
    std::map<std::string, std::string> fields = {
        {"x-amz-algorithm", "AWS4-HMAC-SHA256"},
        {"x-amz-credential", credential},
        {"x-amz-date", date},
        {"policy", policy},
        {"x-amz-signature", to_hex(hmac_sha256(key, policy))}};
    fields.insert(form.fields.begin(), form.fields.end());
    if (form.tamper) {
      form.tamper(fields);
    }
    return fields;
  }

  static std::string field(const std::string& name, const std::string& value) {
    return "--b0\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n";
  }
  static std::string file(const PostedForm& form) {
    return "--b0\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + form.file_name +
           "\"\r\n\r\n" + form.file + "\r\n";
  }
  std::string body(const PostedForm& form) {
    std::string text;
    for (const auto& [name, value] : signed_fields(form)) {
      text += field(name, value);
    }
    return text + file(form) + "--b0--\r\n";
  }
  http::Response post_body(const std::string& text, const std::string& path = "/bucket",
                           const std::string& query = {}) {
    http::Request head{.method = "POST", .path = path, .query = query};
    head.headers.set("Host", host());
    head.headers.set("Content-Type", "multipart/form-data; boundary=b0");
    return send_as_is(head, text);
  }
  http::Response post(const PostedForm& form) { return post_body(body(form)); }
};

TEST_F(PostObject, StoresTheFileWithWhatTheFieldsSay) {
  const auto response = post(
      {.fields = {{"key", "k"},
                  {"Content-Type", "text/x"},
                  {"Cache-Control", "no-store"},
                  {"X-Amz-Meta-Who", "me"},
                  {"acl", "private"},
                  {"x-amz-checksum-algorithm", "CRC32"},
                  {"tagging",
                   "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>"}},
       .conditions = R"({"key": "k"}, {"content-type": "text/x"}, ["eq", "$Cache-Control",
           "no-store"], ["starts-with", "$x-amz-meta-who", ""], {"acl": "private"},
           ["starts-with", "$tagging", ""], {"x-amz-checksum-algorithm": "CRC32"})"});
  EXPECT_EQ(outcome(response), "204") << response.body;
  EXPECT_EQ(response.headers.get("ETag"), "\"5d41402abc4b2a76b9719d911017c592\"");
  EXPECT_EQ(response.headers.get("Location"), "http://" + host() + "/bucket/k");
  EXPECT_EQ(response.headers.get("x-amz-checksum-crc32"), "NhCmhg==");
  EXPECT_EQ(stored(), "hello");
  const auto info = store->head("bucket", "k");
  EXPECT_EQ(info->content_type, "text/x");
  EXPECT_EQ(info->headers.at("Cache-Control"), "no-store");
  EXPECT_EQ(info->headers.at("x-amz-meta-who"), "me");
  EXPECT_EQ(info->tags.at("a"), "1");
}

TEST_F(PostObject, PutsTheNameOfTheFileIntoTheKey) {
  const auto response = post({.fields = {{"key", "user/${filename}"}},
                              .conditions = R"(["starts-with", "$key", "user/"])",
                              .file_name = "C:\\x\\a b.txt"});
  EXPECT_EQ(outcome(response), "204") << response.body;
  EXPECT_EQ(stored("user/a b.txt"), "hello");
  // The condition is judged on the name that comes out.
  EXPECT_EQ(outcome(post({.fields = {{"key", "${filename}"}},
                          .conditions = R"(["starts-with", "$key", "user/"])"})),
            "403 AccessDenied");
}

TEST_F(PostObject, AnswersAsTheFormWantsIt) {
  const auto with_status = [&](const std::string& status) {
    return post({.fields = {{"key", "k"}, {"success_action_status", status}},
                 .conditions = R"({"key": "k"}, ["starts-with", "$success_action_status", ""])"});
  };
  EXPECT_EQ(with_status("200").status, 200);
  EXPECT_EQ(with_status("204").status, 204);
  EXPECT_EQ(with_status("500").status, 204);
  const auto created = with_status("201");
  EXPECT_EQ(created.status, 201);
  EXPECT_THAT(created.body, HasSubstr("<PostResponse><Location>http://" + host() +
                                      "/bucket/k</Location><Bucket>bucket</Bucket><Key>k</Key>"));
  const auto with_redirect = [&](const std::string& url) {
    return post({.fields = {{"key", "k"}, {"success_action_redirect", url}},
                 .conditions = R"({"key": "k"}, ["starts-with", "$success_action_redirect", ""])"});
  };
  const auto sent = with_redirect("https://example.com/done?a=1#end");
  EXPECT_EQ(sent.status, 303);
  EXPECT_EQ(sent.headers.get("Location"),
            "https://example.com/done?a=1&bucket=bucket&key=k&"
            "etag=%225d41402abc4b2a76b9719d911017c592%22#end");
  EXPECT_EQ(with_redirect("javascript:alert(1)").status, 204);
  EXPECT_EQ(with_redirect("http://x/\r\nSet-Cookie: a=b").status, 204);
}

TEST_F(PostObject, KeepsTheLengthInItsRange) {
  const auto of_range = [&](const std::string& range) {
    return outcome(
        post({.conditions = R"({"key": "k"}, ["content-length-range", )" + range + "]"}));
  };
  EXPECT_EQ(of_range("0, 4"), "400 EntityTooLarge");
  EXPECT_EQ(of_range("6, 9"), "400 EntityTooSmall");
  EXPECT_EQ(stored(), "(none)");
  EXPECT_EQ(of_range("5, 5"), "204");
}

TEST_F(PostObject, IsDeniedWithTheReason) {
  const auto extra = post({.fields = {{"key", "k"}, {"x-amz-meta-a", "1"}}});
  EXPECT_EQ(outcome(extra), "403 AccessDenied");
  EXPECT_THAT(extra.body, HasSubstr("Extra input fields: x-amz-meta-a"));
  const auto other = post({.fields = {{"key", "other"}}});
  EXPECT_EQ(outcome(other), "403 AccessDenied");
  EXPECT_THAT(other.body, HasSubstr("Policy Condition failed: [&quot;eq&quot;, &quot;$key"));
  const auto late = post({.valid_for = std::chrono::seconds(-1)});
  EXPECT_EQ(outcome(late), "403 AccessDenied");
  EXPECT_THAT(late.body, HasSubstr("Policy expired"));
  EXPECT_EQ(outcome(post({.age = std::chrono::hours(24 * 7 + 1)})), "403 AccessDenied");
  EXPECT_EQ(stored(), "(none)");
}

TEST_F(PostObject, CannotBeTamperedWith) {
  const auto tampered = [&](const std::string& name, const std::string& value) {
    return outcome(post({.tamper = [&](auto& fields) { fields[name] = value; }}));
  };
  EXPECT_EQ(tampered("policy", to_base64(R"({"expiration": "2099-01-01T00:00:00Z"})")),
            "403 SignatureDoesNotMatch");
  EXPECT_EQ(tampered("x-amz-signature", std::string(64, 'a')), "403 SignatureDoesNotMatch");
  EXPECT_EQ(tampered("x-amz-signature", ""), "403 SignatureDoesNotMatch");
  EXPECT_EQ(tampered("x-amz-algorithm", "AWS4-HMAC-SHA512"), "400 AuthorizationHeaderMalformed");
  EXPECT_EQ(tampered("x-amz-date", "20200101T000000Z"), "400 AuthorizationHeaderMalformed");
  EXPECT_EQ(tampered("x-amz-credential", "nobody"), "400 AuthorizationHeaderMalformed");
  EXPECT_EQ(outcome(post({.secret = "another-secret"})), "403 SignatureDoesNotMatch");
  EXPECT_EQ(stored(), "(none)");
}

TEST_F(PostObject, NeedsEachFieldOfItsSignature) {
  const auto without = [&](const std::string& name) {
    return post({.tamper = [&](auto& fields) { fields.erase(name); }});
  };
  for (const char* name :
       {"key", "policy", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature"}) {
    const auto response = without(name);
    EXPECT_EQ(outcome(response), "400 InvalidArgument") << name;
    EXPECT_THAT(response.body, HasSubstr(std::string("a field named '") + name));
  }
  EXPECT_EQ(outcome(post_body(field("key", "k") + file({}) + "--b0--")), "403 AccessDenied");
  EXPECT_EQ(outcome(post({.tamper = [](auto& fields) { fields["signature"] = "v2"; }})),
            "400 InvalidRequest");
}

TEST_F(PostObject, TakesNoFieldBehindTheFile) {
  std::string late;
  for (const auto& [name, value] : signed_fields({})) {
    late += field(name, value);
  }
  EXPECT_EQ(outcome(post_body(file({}) + late + "--b0--")), "403 AccessDenied");
  EXPECT_EQ(outcome(post_body(late + "--b0--")), "400 InvalidArgument");
  EXPECT_EQ(stored(), "(none)");
}

TEST_F(PostObject, RefusesBrokenForms) {
  const std::string good = body({});
  EXPECT_EQ(outcome(post_body("")), "400 MalformedPOSTRequest");
  EXPECT_EQ(outcome(post_body(good.substr(0, good.size() - 10))), "400 MalformedPOSTRequest");
  EXPECT_EQ(outcome(post_body("x" + good)), "400 MalformedPOSTRequest");
  EXPECT_EQ(outcome(post_body(field("key", std::string(50'000, 'k')))),
            "400 MaxPostPreDataLengthExceeded");
  EXPECT_EQ(outcome(post({.conditions = R"({"key": 5})"})), "400 InvalidPolicyDocument");
  EXPECT_EQ(outcome(post({.fields = {{"key", ""}}, .conditions = R"({"key": ""})"})),
            "400 InvalidArgument");
  EXPECT_EQ(outcome(post({.fields = {{"key", "k"}, {"x-amz-meta-a", "1\r\nX: 2"}},
                          .conditions = R"({"key": "k"}, ["starts-with", "$x-amz-meta-a", ""])"})),
            "400 InvalidArgument");
  EXPECT_EQ(outcome(post({.fields = {{"key", "k"}, {"acl", "public-read"}},
                          .conditions = R"({"key": "k"}, {"acl": "public-read"})"})),
            "501 NotImplemented");
  EXPECT_EQ(stored(), "(none)");
  EXPECT_EQ(content_files(), 0u);
}

TEST_F(PostObject, RefusesFieldsThatTheNameOfTheFileMakesLong) {
  std::string names;
  for (int i = 0; i < 100; ++i) {
    names += "${filename}";
  }
  const auto with_name = [&](std::size_t length) {
    return outcome(post({.fields = {{"key", "k"}, {"x-ignore-a", names}},
                         .conditions = R"({"key": "k"})",
                         .file_name = std::string(length, 'n')}));
  };
  EXPECT_EQ(with_name(100), "204");
  EXPECT_EQ(with_name(210), "400 MaxPostPreDataLengthExceeded");
}

// Half a minute passes whenever it is looked at.
struct HastyClock final : Clock {
  WallTime now() const override { return SystemClock().now(); }
  SteadyTime steady_now() const override { return SteadyTime(++looks * std::chrono::seconds(31)); }
  mutable std::atomic<int> looks = 0;
};

TEST_F(PostObject, RefusesFieldsThatComeTooSlowly) {
  HastyClock hasty;
  service = std::make_unique<S3Service>(*store, Options{}, hasty);
  EXPECT_EQ(outcome(post({})), "400 RequestTimeout");
  EXPECT_EQ(stored(), "(none)");
}

TEST_F(PostObject, ComparesChecksumsThatTheFormBrings) {
  const auto with_sum = [&](const std::string& name, const std::string& value) {
    return outcome(post({.fields = {{"key", "k"}, {name, value}},
                         .conditions = R"({"key": "k"}, {")" + name + R"(": ")" + value + "\"}"}));
  };
  EXPECT_EQ(with_sum("x-amz-checksum-crc32", "AAAAAA=="), "400 BadDigest");
  EXPECT_EQ(with_sum("x-amz-checksum-crc32", "AA"), "400 InvalidArgument");
  EXPECT_EQ(with_sum("content-md5", to_base64(std::string(16, 'x'))), "400 BadDigest");
  EXPECT_EQ(stored(), "(none)");
  EXPECT_EQ(with_sum("x-amz-checksum-crc32", "NhCmhg=="), "204");
}

TEST_F(PostObject, GoesToABucketThatIsThereAndToNothingElse) {
  EXPECT_EQ(outcome(post_body(body({}), "/none")), "403 AccessDenied");
  EXPECT_EQ(outcome(post_body(body({}), "/bucket/k")), "405 MethodNotAllowed");
  EXPECT_EQ(outcome(post_body(body({}), "/bucket", "delete")), "405 MethodNotAllowed");
  EXPECT_EQ(outcome(post_body(body({}), "/")), "405 MethodNotAllowed");
  EXPECT_EQ(outcome(post_body(body({}), "/bucket/")), "204");
}

TEST_F(PostObject, TakesALargeFileWithoutHoldingIt) {
  const std::string large = s3::long_text(3'000'000);
  EXPECT_EQ(outcome(post({.file = large})), "204");
  EXPECT_EQ(stored(), large);
}

TEST_F(PostObject, OfAPageOfAnotherOriginMayBeRead) {
  ASSERT_TRUE(store->set_bucket_setting(
      "bucket", "cors",
      "<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>POST"
      "</AllowedMethod></CORSRule></CORSConfiguration>"));
  http::Request head{.method = "POST", .path = "/bucket"};
  head.headers.set("Host", host());
  head.headers.set("Origin", "https://page.example");
  head.headers.set("Content-Type", "multipart/form-data; boundary=b0");
  EXPECT_EQ(send_as_is(head, body({})).headers.get("Access-Control-Allow-Origin"), "*");
}

}  // namespace
}  // namespace trainyard::store
