// SPDX-License-Identifier: Apache-2.0
#include "http/tls.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/mutex.h"
#include "base/text.h"
#include "http/internal/tls_context.h"

namespace trainyard::http {
namespace {

// Key agreement that keeps old traffic closed when the key leaks, and authenticated ciphers.
constexpr const char* kCiphersOfTls12 = "ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL";
constexpr std::string_view kProtocol = "http/1.1";

Error bad(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}

// Refuses to ask the terminal; remembers in `asked` that the key wanted a passphrase.
int no_passphrase(char* /*out*/, int /*size*/, int /*writing*/, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

int choose_protocol(SSL* /*ssl*/, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* offered, unsigned int size, void* /*unused*/) {
  for (unsigned int at = 0; at < size; at += offered[at] + 1u) {
    const std::string_view name(reinterpret_cast<const char*>(offered + at + 1),
                                std::min<std::size_t>(offered[at], size - at - 1));
    if (name == kProtocol) {
      *out = offered + at + 1;
      *out_size = offered[at];
      return SSL_TLSEXT_ERR_OK;
    }
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

struct Bio {
  explicit Bio(std::string_view text)
      : bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))) {}
  std::unique_ptr<BIO, OpenSslFree<BIO_free_all>> bio;
};

Result<std::vector<Certificate>> read_chain(const Path& path) {
  YARD_TRY(const std::string text, read_file(path, std::size_t{1} << 20));
  const Bio in(text);
  std::vector<Certificate> chain;
  while (X509* one = PEM_read_bio_X509(in.bio.get(), nullptr, nullptr, nullptr)) {
    chain.emplace_back(one);
  }
  ERR_clear_error();  // the last one only tells of the end
  if (chain.empty()) {
    return bad(path.string() + " holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)");
  }
  return chain;
}

Result<PrivateKey> read_key(const Path& path) {
  YARD_TRY(const std::string text, read_file(path, std::size_t{1} << 20));
  const Bio in(text);
  bool asked = false;
  PrivateKey key(PEM_read_bio_PrivateKey(in.bio.get(), nullptr, no_passphrase, &asked));
  ERR_clear_error();  // it may quote the file
  if (asked) {
    return bad(
        fmt::format("the key in {} is encrypted, and a server has nobody to ask for its "
                    "passphrase: decrypt it with  openssl pkey -in {} -out NEW",
                    path.string(), path.string()));
  }
  if (key == nullptr) {
    return bad(path.string() + " holds no private key in PEM form (-----BEGIN PRIVATE KEY-----)");
  }
  return key;
}

WallTime to_time(const ASN1_TIME* time) {
  std::tm parts{};
  ASN1_TIME_to_tm(time, &parts);
  return WallTime(std::chrono::seconds(::timegm(&parts)));
}

// One pair as read, checked.
struct Pair {
  SslContext context;
  Certificate certificate;
  bool has_own_root = false;
};

Result<void> check_dates(const X509* certificate, const Path& path, WallTime now) {
  const WallTime from = to_time(X509_get0_notBefore(certificate));
  const WallTime to = to_time(X509_get0_notAfter(certificate));
  if (now >= to) {
    return bad(fmt::format("the certificate in {} expired on {}: renew it", path.string(),
                           to_http_date(to)));
  }
  if (now < from) {
    return bad(
        fmt::format("the certificate in {} is not valid before {}: is this machine's clock "
                    "right?",
                    path.string(), to_http_date(from)));
  }
  return {};
}

Result<SslContext> make_context() {
  SslContext context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr) {
    return Error{Code::kInternal, take_ssl_error("no TLS")};
  }
  SSL_CTX* const c = context.get();
  SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(c, kCiphersOfTls12);
  SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // An idle connection keeps no record buffers; sessions live in tickets, at the clients.
  SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                          SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_alpn_select_cb(c, choose_protocol, nullptr);
  return context;
}

Result<Pair> read_pair(const TlsFiles& files, WallTime now) {
  YARD_TRY(std::vector<Certificate> chain, read_chain(files.certificate));
  YARD_TRY(const PrivateKey key, read_key(files.key));
  YARD_TRY(check_dates(chain.front().get(), files.certificate, now));
  if (X509_check_private_key(chain.front().get(), key.get()) != 1) {
    ERR_clear_error();
    return bad(fmt::format("the key in {} is not that of the first certificate in {}",
                           files.key.string(), files.certificate.string()));
  }
  Pair pair;
  YARD_TRY(pair.context, make_context());
  SSL_CTX* const c = pair.context.get();
  bool fits = SSL_CTX_use_certificate(c, chain.front().get()) == 1 &&
              SSL_CTX_use_PrivateKey(c, key.get()) == 1;
  for (std::size_t i = 1; fits && i < chain.size(); ++i) {
    fits = SSL_CTX_add1_chain_cert(c, chain[i].get()) == 1;
  }
  if (!fits) {
    return bad(files.certificate.string() + ": " + take_ssl_error("not usable for a server"));
  }
  pair.has_own_root = X509_self_signed(chain.back().get(), 0) == 1;
  ERR_clear_error();
  pair.certificate = std::move(chain.front());
  return pair;
}

}  // namespace

std::string take_ssl_error(std::string_view otherwise) {
  const char* reason = ERR_reason_error_string(ERR_peek_error());
  std::string text(reason == nullptr ? otherwise : reason);
  ERR_clear_error();
  return text;
}

namespace {

class LoadedIdentity final : public TlsIdentity {
 public:
  LoadedIdentity(TlsFiles files, Clock& clock) : files_(std::move(files)), clock_(clock) {}

  Result<void> reload() override {
    YARD_TRY(Pair fresh, read_pair(files_, clock_.now()));
    auto pair = std::make_shared<const Pair>(std::move(fresh));
    const MutexLock lock(mutex_);
    pair_.swap(pair);
    return {};
  }

  WallTime expires() const override {
    return to_time(X509_get0_notAfter(current()->certificate.get()));
  }

  bool names(std::string_view host) const override {
    const auto pair = current();
    const std::string text(host);
    return X509_check_ip_asc(pair->certificate.get(), text.c_str(), 0) == 1 ||
           X509_check_host(pair->certificate.get(), text.data(), text.size(), 0, nullptr) == 1;
  }

  std::string first_name() const override;
  bool has_own_root() const override { return current()->has_own_root; }

  // New sessions hold a reference to the context, so a reload may drop it at any time.
  std::shared_ptr<const Pair> current() const {
    const MutexLock lock(mutex_);
    return pair_;
  }

 private:
  const TlsFiles files_;
  Clock& clock_;
  mutable Mutex mutex_;
  std::shared_ptr<const Pair> pair_ GUARDED_BY(mutex_);
};

std::string LoadedIdentity::first_name() const {
  const auto pair = current();
  const std::unique_ptr<GENERAL_NAMES, OpenSslFree<GENERAL_NAMES_free>> names(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(pair->certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_DNS) {
      continue;
    }
    const auto* data = ASN1_STRING_get0_data(name->d.dNSName);
    const std::string_view text(reinterpret_cast<const char*>(data),
                                static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
    if (!text.starts_with('*') && text.find('\0') == std::string_view::npos) {
      return std::string(text);
    }
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<TlsIdentity>> TlsIdentity::load(TlsFiles files, Clock& clock) {
  auto identity = std::make_shared<LoadedIdentity>(std::move(files), clock);
  YARD_TRY(identity->reload());
  return std::shared_ptr<TlsIdentity>(std::move(identity));
}

SslSession new_session(const TlsIdentity& identity) {
  // load() is the only maker.
  return SslSession(SSL_new(static_cast<const LoadedIdentity&>(identity).current()->context.get()));
}

}  // namespace trainyard::http
