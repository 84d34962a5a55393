// SPDX-License-Identifier: Apache-2.0
#include "instance/remote_shell/handshake.h"

#include "base/hash.h"

namespace trainyard::instance {
namespace {

std::string proof_of(std::string_view secret, std::string_view side, std::string_view server_nonce,
                     std::string_view client_nonce) {
  std::string text(side);
  return hmac_sha256(secret, text.append(server_nonce).append(client_nonce));
}

Error refused() {
  return {Code::kDenied, "the peer does not know this attempt's secret"};
}

}  // namespace

Result<std::string> answer_hello(std::string_view secret, std::string_view hello,
                                 std::string_view client_nonce) {
  if (hello.size() != kNonceBytes || secret.empty()) {
    return refused();
  }
  return std::string(client_nonce) + proof_of(secret, "client", hello, client_nonce);
}

Result<std::string> answer_proof(std::string_view secret, std::string_view server_nonce,
                                 std::string_view proof) {
  if (proof.size() < kNonceBytes || secret.empty()) {
    return refused();
  }
  const std::string_view client_nonce = proof.substr(0, kNonceBytes);
  const std::string expected = proof_of(secret, "client", server_nonce, client_nonce);
  if (!equal_in_constant_time(proof.substr(kNonceBytes), expected)) {
    return refused();
  }
  return proof_of(secret, "server", server_nonce, client_nonce);
}

Result<void> check_welcome(std::string_view secret, std::string_view server_nonce,
                           std::string_view client_nonce, std::string_view welcome) {
  if (!equal_in_constant_time(welcome, proof_of(secret, "server", server_nonce, client_nonce))) {
    return refused();
  }
  return {};
}

}  // namespace trainyard::instance
