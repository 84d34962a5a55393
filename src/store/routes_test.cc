// SPDX-License-Identifier: Apache-2.0
#include "store/routes.h"

#include <gtest/gtest.h>

namespace trainyard::store {
namespace {

Result<Operation> choose(const std::string& method, const std::string& path,
                         const std::string& query) {
  const http::Request request{.method = method, .path = path, .query = query};
  YARD_TRY(const Target target, parse_target(request));
  return choose_operation(request, target);
}

struct Chosen {
  const char* method;
  const char* path;
  const char* query;
  Handler handler;
};

class Routes : public testing::TestWithParam<Chosen> {};

TEST_P(Routes, LeadToTheOperation) {
  const auto operation = choose(GetParam().method, GetParam().path, GetParam().query);
  ASSERT_TRUE(operation) << operation.error().message;
  EXPECT_EQ(operation->run, GetParam().handler);
}

INSTANTIATE_TEST_SUITE_P(
    Requests, Routes,
    testing::Values(Chosen{"GET", "/b/k", "", get_object},
                    Chosen{"GET", "/b/k", "x-id=GetObject&partNumber=1", get_object},
                    Chosen{"GET", "/b/k", "response-expires=&versionId=null", get_object},
                    Chosen{"GET", "/b/k", "unheard-of=1", get_object},
                    Chosen{"GET", "/b", "prefix=&delimiter=", list_objects_v1},
                    Chosen{"GET", "/b", "list-type=2&start-after=", list_objects_v2},
                    Chosen{"GET", "/b", "uploads&prefix=", list_uploads},
                    Chosen{"GET", "/b", "versions", list_object_versions},
                    Chosen{"GET", "/b", "policyStatus", get_absent_configuration},
                    Chosen{"PUT", "/b/k", "tagging&versionId=null", put_object_tagging},
                    Chosen{"PUT", "/b/k", "uploadId=u&partNumber=1", upload_part},
                    Chosen{"DELETE", "/b", "lifecycle", delete_absent_configuration},
                    Chosen{"GET", "/", "max-buckets=2&prefix=", list_buckets}));

struct Refusal {
  const char* method;
  const char* path;
  const char* query;
  const char* named;  // in the message
};

class Refusals : public testing::TestWithParam<Refusal> {};

TEST_P(Refusals, NameWhatIsNotServed) {
  const auto operation = choose(GetParam().method, GetParam().path, GetParam().query);
  ASSERT_FALSE(operation);
  EXPECT_EQ(operation.error().code, Code::kUnimplemented);
  EXPECT_NE(operation.error().message.find(": " + std::string(GetParam().named)), std::string::npos)
      << operation.error().message;
}

INSTANTIATE_TEST_SUITE_P(Requests, Refusals,
                         testing::Values(Refusal{"PUT", "/b", "policy", "policy"},
                                         Refusal{"PUT", "/b", "lifecycle", "lifecycle"},
                                         Refusal{"PUT", "/b", "uploads", "uploads"},
                                         Refusal{"PUT", "/b/k", "retention", "retention"},
                                         Refusal{"PUT", "/b/k", "uploads", "uploads"},
                                         Refusal{"GET", "/b/k", "torrent", "torrent"},
                                         Refusal{"GET", "/b/k", "uploads", "uploads"},
                                         Refusal{"HEAD", "/b/k", "uploadId=1", "uploadId"},
                                         Refusal{"POST", "/b/k", "select&select-type=2", "select"},
                                         Refusal{"POST", "/b/k", "restore", "restore"},
                                         Refusal{"DELETE", "/b/k", "acl", "acl"},
                                         Refusal{"GET", "/b", "acl&tagging", "tagging"},
                                         Refusal{"GET", "/b", "inventory&id=1", "inventory"},
                                         Refusal{"GET", "/b/k", "brandNewThing", "brandNewThing"},
                                         Refusal{"PUT", "/b/k", "brandNewThing=", "brandNewThing"},
                                         Refusal{"DELETE", "/b", "brandNewThing",
                                                 "brandNewThing"}));

TEST(RouteChecks, KnowOneVersionOfAnObject) {
  EXPECT_EQ(choose("GET", "/b/k", "versionId=3").error().subject, "version");
  EXPECT_EQ(choose("DELETE", "/b/k", "versionId=3").error().subject, "version");
  EXPECT_TRUE(choose("DELETE", "/b/k", "versionId=null"));
  EXPECT_EQ(choose("PUT", "/b/k", "versionId=null").error().subject, "argument");
}

TEST(RouteChecks, NeverTakeAPartForAnObject) {
  EXPECT_EQ(choose("PUT", "/b/k", "partNumber=1").error().subject, "argument");
  EXPECT_EQ(choose("DELETE", "/b/k", "partNumber=1").error().subject, "argument");
}

}  // namespace
}  // namespace trainyard::store
