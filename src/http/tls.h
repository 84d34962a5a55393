// SPDX-License-Identifier: Apache-2.0
// The certificate and key with which a listener proves who it is, and the making of a pair for
// those who have none. A listener asks for the current pair at each new connection, so reload() is
// seen by the next one and disturbs none. TLS 1.2 and 1.3, forward secrecy only, ALPN http/1.1.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/result.h"

namespace trainyard::http {

struct TlsFiles {
  Path certificate;  // PEM: the server's own first, then those that vouch for it
  Path key;          // PEM, not encrypted
};

// Thread-safe.
class TlsIdentity {
 public:
  // kInvalidArgument, naming the file and the way out: not PEM, a key that is encrypted or belongs
  // to another certificate, a certificate that is not valid at `clock`'s time or too weak. `clock`
  // is borrowed for life.
  static Result<std::shared_ptr<TlsIdentity>> load(TlsFiles files, Clock& clock);
  virtual ~TlsIdentity() = default;

  // Reads the files again. After an error the old pair stays in use.
  virtual Result<void> reload() = 0;
  virtual WallTime expires() const = 0;
  // Whether the certificate is good for that IP address or DNS name.
  virtual bool names(std::string_view host) const = 0;
  // Its first DNS name that is no pattern; empty without any.
  virtual std::string first_name() const = 0;
  // Whether the certificate file ends in a root, so that it is itself the bundle that clients need.
  virtual bool has_own_root() const = 0;
};

struct CertificateRequest {
  std::vector<std::string> names;  // DNS names and IP addresses that clients will use
  std::chrono::days lifetime{825};
};

struct CertificatePair {
  std::string certificate;  // PEM: the server's, then the root that vouches for it
  std::string key;          // PEM
};

// A pair for a server without a certificate authority. The root that vouches for the certificate is
// made for it alone and its key is forgotten, so trusting the file trusts nothing else. Each DNS
// name also gets its pattern "*.name", for S3 in the virtual-host style. P-256 keys; extensions as
// RFC 5280, 4.2 asks. kInvalidArgument for a name that is neither an address nor a host name.
Result<CertificatePair> make_certificate(const CertificateRequest& request, WallTime now);

}  // namespace trainyard::http
