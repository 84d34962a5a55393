// SPDX-License-Identifier: Apache-2.0
#include "server/client_of.h"

#include <gtest/gtest.h>

namespace trainyard::server {
namespace {

bool is_known(std::string_view key) {
  return key == "AKONE" || key == "AKTWO";
}

const Known kKnown{.key = is_known, .instance = [](const http::Request& request) {
                     return request.headers.get("Authorization") == "Bearer secret-token";
                   }};

http::Request request(std::string authorization, std::string query = "") {
  http::Request out{.method = "GET", .path = "/", .query = std::move(query)};
  out.peer = "10.0.0.7:41234";
  if (!authorization.empty()) {
    out.headers.set("Authorization", std::move(authorization));
  }
  return out;
}

std::string header_of(const std::string& key) {
  return "AWS4-HMAC-SHA256 Credential=" + key + "/20261130/us-east-1/s3/aws4_request, Signature=0";
}

TEST(ClientOf, TellsKeysApart) {
  EXPECT_EQ(client_of(request(header_of("AKONE")), kKnown), "10.0.0.7 AKONE");
  EXPECT_EQ(client_of(request(header_of("AKTWO")), kKnown), "10.0.0.7 AKTWO");
}

TEST(ClientOf, FindsTheKeyOfAPresignedRequest) {
  EXPECT_EQ(client_of(request("", "a=b&X-Amz-Credential=AKONE%2F20261130%2Fus-east-1"), kKnown),
            "10.0.0.7 AKONE");
  EXPECT_EQ(client_of(request("", "AWSAccessKeyId=AKTWO&Signature=x"), kKnown), "10.0.0.7 AKTWO");
}

TEST(ClientOf, CountsAllStrangersAsOne) {
  for (const char* peer : {"10.0.0.7:1", "127.0.0.2:1", "[::1]:1"}) {
    for (const std::string& authorization :
         {header_of("AKTHREE"), std::string("nonsense"), std::string()}) {
      http::Request out = request(authorization);
      out.peer = peer;
      EXPECT_EQ(client_of(out, kKnown), "strangers");
      out.path = "/yard/v1/reports";
      EXPECT_EQ(client_of(out, kKnown), "strangers yard");
    }
  }
}

TEST(ClientOf, KeepsInstancesApartFromWhatElseTheirMachineAsks) {
  http::Request out = request("Bearer secret-token");
  out.path = "/yard/v1/reports";
  EXPECT_EQ(client_of(out, kKnown), "10.0.0.7 yard");
}

TEST(ClientOf, TakesABucketCalledYardForABucket) {
  http::Request out = request(header_of("AKONE"));
  out.path = "/yard/key";
  EXPECT_EQ(client_of(out, kKnown), "10.0.0.7 AKONE");
}

TEST(ClientOf, KnowsAddressesOfBothFamilies) {
  http::Request out = request(header_of("AKONE"));
  out.peer = "[::1]:41234";
  EXPECT_EQ(client_of(out, kKnown), "[::1] AKONE");
}

}  // namespace
}  // namespace trainyard::server
