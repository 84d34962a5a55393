// SPDX-License-Identifier: Apache-2.0
// OpenSSL's side of a TlsIdentity, for the listener and the transport.
#pragma once

#include <memory>
#include <string>

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "base/result.h"
#include "http/internal/transport.h"
#include "http/tls.h"

namespace trainyard::http {

template <auto Free>
struct OpenSslFree {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};

using SslContext = std::unique_ptr<SSL_CTX, OpenSslFree<SSL_CTX_free>>;
using SslSession = std::unique_ptr<SSL, OpenSslFree<SSL_free>>;
using Certificate = std::unique_ptr<X509, OpenSslFree<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, OpenSslFree<EVP_PKEY_free>>;

// What OpenSSL complains about first on this thread, cleared; `otherwise` when it is silent.
std::string take_ssl_error(std::string_view otherwise);

// A new session on the current pair of `identity`; null when memory is out.
SslSession new_session(const TlsIdentity& identity);

// TLS as the server over `socket`, a non-blocking descriptor that outlives it.
std::unique_ptr<Transport> tls_transport(int socket, const TlsIdentity& identity);

}  // namespace trainyard::http
