// SPDX-License-Identifier: Apache-2.0
// For tests only: the server's side of wire/proof.h, for stand-ins of servers, and the token of the
// instance that they know.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "base/result.h"
#include "http/message.h"
#include "wire/messages.h"
#include "wire/proof.h"

namespace trainyard::instance {

inline std::string test_token() {
  return wire::make_token("root", std::string(32, 'a'));
}

inline wire::Speaker test_speaker() {
  return *wire::speaker_of(test_token());
}

inline const std::string kTestRun(32, '1');

// The claim of a request to `target` (path and query), when its proof holds.
inline Result<wire::Claim> proven_claim(const std::string& method, const std::string& target,
                                        const http::Headers& headers, const std::string& body) {
  YARD_TRY(wire::Claim claim, wire::claim_from_header(headers.get("Authorization")));
  const std::string proof = wire::prove_request(test_speaker().key, claim,
                                                {.method = method,
                                                 .target = target,
                                                 .epoch = headers.get(wire::kEpochHeader),
                                                 .body_hash = sha256_hex(body)});
  if (claim.id != test_speaker().id || proof != claim.proof) {
    return Error{Code::kDenied, "no proof"};
  }
  return claim;
}

// The answer to a request with this claim, with its proof.
inline http::Response proven_answer(const wire::Claim& claim, http::Response response,
                                    const std::string& run = kTestRun) {
  response.headers.set(wire::kProtocolHeader, std::to_string(wire::kProtocolVersion));
  response.headers.set(wire::kRunHeader, run);
  response.headers.set(
      wire::kProofHeader,
      wire::prove_answer(test_speaker().key, claim.proof,
                         {.status = response.status, .run = run, .body = response.body}));
  return response;
}

}  // namespace trainyard::instance
