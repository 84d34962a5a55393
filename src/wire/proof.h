// SPDX-License-Identifier: Apache-2.0
// How the two ends of the instance protocol prove to each other that they know the instance's
// token, which itself never travels: an HMAC-SHA256 (RFC 2104) over each request and another one,
// bound to that of the request, over its answer. Who only listens at the server's address can
// neither take the token nor answer, and a request that he has kept is worth nothing later. Pure:
// the two ends keep the state (run, numbers); docs/wire.md has the page.
//
//   key     = HMAC(token, "yard-instance-key")                                     32 raw bytes
//   request = HMAC(key, "yard-request" LF version LF id LF run LF number LF method LF
//                       path[?query] LF epoch LF hex(SHA-256(body)))
//   answer  = HMAC(key, "yard-answer" LF version LF request's proof LF run LF status LF
//                       hex(SHA-256(body)))
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "wire/messages.h"

namespace trainyard::wire {

inline constexpr std::string_view kProofScheme = "Yard-HMAC-SHA256";
// Of answers: the proof in lower-case hex, and the server's run.
inline constexpr std::string_view kProofHeader = "Yard-Proof";
inline constexpr std::string_view kRunHeader = "Yard-Run";

// Of random bytes, an id is made; in hex on the wire.
inline constexpr std::size_t kTokenIdBytes = 16;
// A token is "<id>.<secret>", 32 and 64 hexadecimal digits. The server keeps none: it makes the
// secret from the id again, so that it can still tell an instance that was replaced long ago, in
// words that prove themselves, that it is over. `root` is a secret of the server.
std::string make_token(std::string_view root, std::string_view id);

// Whose requests these are: what an instance keeps of its token.
struct Speaker {
  std::string id;   // public
  std::string key;  // 32 bytes; never written anywhere, nor made from what the server writes
};
// kInvalidArgument for what make_token() has not made; the message does not hold the text.
Result<Speaker> speaker_of(std::string_view token);

// What a request says of itself in its Authorization header.
struct Claim {
  std::string id;            // of the token
  std::string run = {};      // of the server, as its last answer named it; empty: none was heard
  std::uint64_t number = 0;  // 1, 2, ... in the order of the instance's requests
  std::string proof = {};    // lower-case hex
};
// "Yard-HMAC-SHA256 Id=..., Run=..., Number=..., Proof=..."
std::string to_header(const Claim& claim);
// kDenied, subject "token", for any other form.
Result<Claim> claim_from_header(std::string_view header);

// What a request's proof covers besides its claim.
struct Asked {
  std::string_view method;
  std::string_view target;         // path and query, as on the wire
  std::string_view epoch;          // kEpochHeader's value; empty without one
  std::string body_hash;           // sha256_hex() of the body
  int version = kProtocolVersion;  // kProtocolHeader's value
};
std::string prove_request(std::string_view key, const Claim& claim, const Asked& asked);

struct Answered {
  int status = 200;
  std::string_view run;
  std::string_view body;
  int version = kProtocolVersion;  // the request's
};
// `request_proof` as prove_request() gave it.
std::string prove_answer(std::string_view key, std::string_view request_proof,
                         const Answered& answered);

}  // namespace trainyard::wire
