// SPDX-License-Identifier: Apache-2.0
#include "wire/proof.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/encoding.h"
#include "base/hash.h"

namespace trainyard::wire {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kId(32, 'a');
const std::string kRun(32, '5');
const std::string kToken = make_token("root", kId);

Claim claim() {
  return {.id = kId, .run = kRun, .number = 7, .proof = {}};
}

Asked asked() {
  return {
      .method = "POST", .target = "/yard/v1/reports", .epoch = "2", .body_hash = sha256_hex("[]")};
}

std::string proof_of(const Claim& of, const Asked& what) {
  return prove_request(speaker_of(kToken)->key, of, what);
}

TEST(Token, IsMadeAgainFromItsIdAndTheRoot) {
  EXPECT_EQ(make_token("root", kId), kToken);
  EXPECT_NE(make_token("other", kId), kToken);
  EXPECT_NE(make_token("root", std::string(32, 'b')).substr(33), kToken.substr(33));
  EXPECT_EQ(speaker_of(kToken)->id, kId);
  EXPECT_EQ(speaker_of(kToken)->key, hmac_sha256(kToken, "yard-instance-key"));
}

// The server's database keeps hex(SHA-256(token)): who reads that cannot prove anything.
TEST(Token, HasAKeyThatItsHashDoesNotGive) {
  const std::string key = speaker_of(kToken)->key;
  EXPECT_NE(key, hash_of(HashKind::kSha256, kToken));
  EXPECT_NE(to_hex(key), sha256_hex(kToken));
}

TEST(Token, OfAnotherFormIsRefusedAndNotNamed) {
  for (const std::string& wrong :
       {std::string(), std::string("token"), kId, kId + ".", kToken + "0", kToken.substr(1),
        kId + kToken.substr(33), std::string(32, 'X') + kToken.substr(32)}) {
    const Result<Speaker> speaker = speaker_of(wrong);
    ASSERT_FALSE(speaker) << wrong;
    EXPECT_EQ(speaker.error().code, Code::kInvalidArgument);
    EXPECT_EQ(speaker.error().message, "the token of this instance is damaged");
  }
}

// By hand, after docs/wire.md, so that both ends cannot change it together by accident.
TEST(Proof, IsTheDocumentedOne) {
  const std::string key = hmac_sha256(kToken, "yard-instance-key");
  const std::string request =
      to_hex(hmac_sha256(key, "yard-request\n3\n" + kId + "\n" + kRun +
                                  "\n7\nPOST\n/yard/v1/reports\n2\n" + sha256_hex("[]")));
  EXPECT_EQ(proof_of(claim(), asked()), request);
  EXPECT_EQ(prove_answer(key, request, {.status = 200, .run = kRun, .body = "{}"}),
            to_hex(hmac_sha256(
                key, "yard-answer\n3\n" + request + "\n" + kRun + "\n200\n" + sha256_hex("{}"))));
}

TEST(Proof, IsOfTheVersionThatTheTwoTalkIn) {
  const std::string key = speaker_of(kToken)->key;
  Asked old = asked();
  old.version = 2;
  EXPECT_EQ(proof_of(claim(), old),
            to_hex(hmac_sha256(key, "yard-request\n2\n" + kId + "\n" + kRun +
                                        "\n7\nPOST\n/yard/v1/reports\n2\n" + sha256_hex("[]"))));
  EXPECT_EQ(prove_answer(key, "p", {.status = 200, .run = kRun, .body = "{}", .version = 2}),
            to_hex(hmac_sha256(key, "yard-answer\n2\np\n" + kRun + "\n200\n" + sha256_hex("{}"))));
}

TEST(Proof, CoversEveryPartOfARequest) {
  std::set<std::string> proofs = {proof_of(claim(), asked())};
  const auto with_claim = [&](auto change) {
    Claim other = claim();
    change(other);
    return proofs.insert(proof_of(other, asked())).second;
  };
  const auto with_asked = [&](auto change) {
    Asked other = asked();
    change(other);
    return proofs.insert(proof_of(claim(), other)).second;
  };
  EXPECT_TRUE(with_claim([](Claim& c) { c.id = std::string(32, 'b'); }));
  EXPECT_TRUE(with_claim([](Claim& c) { c.run = std::string(32, '6'); }));
  EXPECT_TRUE(with_claim([](Claim& c) { c.run = ""; }));
  EXPECT_TRUE(with_claim([](Claim& c) { c.number = 8; }));
  EXPECT_TRUE(with_asked([](Asked& a) { a.method = "GET"; }));
  EXPECT_TRUE(with_asked([](Asked& a) { a.target = "/yard/v1/credentials"; }));
  EXPECT_TRUE(with_asked([](Asked& a) { a.target = "/yard/v1/reports?after=1"; }));
  EXPECT_TRUE(with_asked([](Asked& a) { a.epoch = "3"; }));
  EXPECT_TRUE(with_asked([](Asked& a) { a.epoch = ""; }));
  EXPECT_TRUE(with_asked([](Asked& a) { a.body_hash = sha256_hex("[1]"); }));
  const std::string other_key = speaker_of(make_token("other", kId))->key;
  EXPECT_TRUE(proofs.insert(prove_request(other_key, claim(), asked())).second);
}

TEST(Proof, OfAnAnswerCoversItsRequestAndHoldsInOneDirectionOnly) {
  const std::string key = speaker_of(kToken)->key;
  const std::string request = proof_of(claim(), asked());
  const Answered good{.status = 200, .run = kRun, .body = "[]"};
  std::set<std::string> proofs = {request, prove_answer(key, request, good)};
  EXPECT_EQ(proofs.size(), 2U);
  const std::string other_run(32, '6');
  EXPECT_TRUE(
      proofs.insert(prove_answer(key, request, {.status = 403, .run = kRun, .body = "[]"})).second);
  EXPECT_TRUE(
      proofs.insert(prove_answer(key, request, {.status = 200, .run = other_run, .body = "[]"}))
          .second);
  EXPECT_TRUE(
      proofs.insert(prove_answer(key, request, {.status = 200, .run = kRun, .body = "{}"})).second);
  EXPECT_TRUE(proofs.insert(prove_answer(key, std::string(64, '0'), good)).second);
  EXPECT_TRUE(proofs.insert(prove_answer("other", request, good)).second);
}

TEST(Claim, SurvivesItsHeaderAndHoldsNothingOfTheSecret) {
  for (const std::string& run : {kRun, std::string()}) {
    Claim before = claim();
    before.run = run;
    before.proof = proof_of(before, asked());
    const std::string header = to_header(before);
    EXPECT_THAT(header, Not(HasSubstr(kToken.substr(33))));
    const Result<Claim> after = claim_from_header(header);
    ASSERT_TRUE(after) << header;
    EXPECT_EQ(to_header(*after), header);
    EXPECT_EQ(after->number, 7U);
  }
}

TEST(Claim, OfAnotherFormIsDenied) {
  const std::string proof(64, '0');
  const std::string good = "Yard-HMAC-SHA256 Id=" + kId + ", Run=, Number=1, Proof=" + proof;
  EXPECT_TRUE(claim_from_header(good));
  for (const std::string& wrong :
       {std::string(), std::string("Bearer x"), good + "0", good + ", X=1", good.substr(1),
        "Yard-HMAC-SHA256 Id=" + kId + ", Run=, Number=0, Proof=" + proof,
        "Yard-HMAC-SHA256 Id=" + kId + ", Run=, Number=-1, Proof=" + proof,
        "Yard-HMAC-SHA256 Id=" + kId + ", Run=x, Number=1, Proof=" + proof,
        "Yard-HMAC-SHA256 Id=a, Run=, Number=1, Proof=" + proof,
        "Yard-HMAC-SHA256 Run=, Id=" + kId + ", Number=1, Proof=" + proof}) {
    const Result<Claim> claimed = claim_from_header(wrong);
    ASSERT_FALSE(claimed) << wrong;
    EXPECT_EQ(claimed.error().code, Code::kDenied);
    EXPECT_EQ(claimed.error().subject, "token");
  }
}

}  // namespace
}  // namespace trainyard::wire
