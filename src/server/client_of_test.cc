// SPDX-License-Identifier: Apache-2.0
#include "server/client_of.h"

#include <gtest/gtest.h>

namespace trainyard::server {
namespace {

bool is_known(std::string_view key) {
  return key == "AKONE" || key == "AKTWO";
}

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
  EXPECT_EQ(client_of(request(header_of("AKONE")), is_known), "10.0.0.7 AKONE");
  EXPECT_EQ(client_of(request(header_of("AKTWO")), is_known), "10.0.0.7 AKTWO");
}

TEST(ClientOf, FindsTheKeyOfAPresignedRequest) {
  EXPECT_EQ(client_of(request("", "a=b&X-Amz-Credential=AKONE%2F20261130%2Fus-east-1"), is_known),
            "10.0.0.7 AKONE");
  EXPECT_EQ(client_of(request("", "AWSAccessKeyId=AKTWO&Signature=x"), is_known), "10.0.0.7 AKTWO");
}

TEST(ClientOf, CountsInventedKeysAsOne) {
  EXPECT_EQ(client_of(request(header_of("AKTHREE")), is_known), "10.0.0.7");
  EXPECT_EQ(client_of(request(header_of("AKFOUR")), is_known), "10.0.0.7");
  EXPECT_EQ(client_of(request("nonsense"), is_known), "10.0.0.7");
  EXPECT_EQ(client_of(request(""), is_known), "10.0.0.7");
}

TEST(ClientOf, KeepsInstancesApartFromWhatElseTheirMachineAsks) {
  http::Request out = request("Bearer secret-token");
  out.path = "/yard/v1/reports";
  EXPECT_EQ(client_of(out, is_known), "10.0.0.7 yard");
}

TEST(ClientOf, KnowsAddressesOfBothFamilies) {
  http::Request out = request("");
  out.peer = "[::1]:41234";
  EXPECT_EQ(client_of(out, is_known), "[::1]");
}

}  // namespace
}  // namespace trainyard::server
