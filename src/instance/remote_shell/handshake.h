// SPDX-License-Identifier: Apache-2.0
// Proves on both sides that the other one knows the attempt's secret, without sending it:
//
//   server  kHello    nonce S (32 random bytes)
//   client  kProof    nonce C (32 random bytes), HMAC-SHA256(secret, "client" S C)
//   server  kWelcome  HMAC-SHA256(secret, "server" S C)
//
// Pure. A side that gets a wrong proof hangs up without a word.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace trainyard::instance {

inline constexpr std::size_t kNonceBytes = 32;

// The payload of kProof. kDenied for a hello that is none.
Result<std::string> answer_hello(std::string_view secret, std::string_view hello,
                                 std::string_view client_nonce);
// The payload of kWelcome. kDenied for a wrong proof.
Result<std::string> answer_proof(std::string_view secret, std::string_view server_nonce,
                                 std::string_view proof);
// kDenied when the server does not know the secret.
Result<void> check_welcome(std::string_view secret, std::string_view server_nonce,
                           std::string_view client_nonce, std::string_view welcome);

}  // namespace trainyard::instance
