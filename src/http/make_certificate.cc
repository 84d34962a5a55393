// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "base/text.h"
#include "http/internal/tls_context.h"
#include "http/tls.h"

namespace trainyard::http {
namespace {

constexpr std::chrono::hours kClockError{24};  // of clients' machines
constexpr std::size_t kMaxName = 253;

Error failed(std::string_view what) {
  return {Code::kInternal, "cannot make a certificate: " + take_ssl_error(what)};
}

bool is_address(const std::string& name) {
  in6_addr ignored{};
  return ::inet_pton(AF_INET, name.c_str(), &ignored) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), &ignored) == 1;
}

bool is_host_name(std::string_view name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  };
  if (name.empty() || name.size() > kMaxName) {
    return false;
  }
  for (const std::string_view label : split(name, '.')) {
    if (label.empty() || label.size() > 63 || label.front() == '-' || label.back() == '-') {
      return false;
    }
    for (const char c : label) {
      if (!is_allowed(c)) {
        return false;
      }
    }
  }
  return true;
}

// "DNS:a,DNS:*.a,IP:1.2.3.4", OpenSSL's notation. The names hold no comma.
Result<std::string> alternative_names(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    const std::string separator = out.empty() ? "" : ",";
    if (is_address(name)) {
      out += separator + "IP:" + name;
    } else if (is_host_name(name)) {
      out += separator + "DNS:" + name + ",DNS:*." + name;
    } else {
      return Error{Code::kInvalidArgument,
                   "'" + name + "' is neither an IP address nor a host name"};
    }
  }
  if (out.empty()) {
    return Error{Code::kInvalidArgument, "a certificate needs at least one name"};
  }
  return out;
}

struct Signer {
  X509* certificate = nullptr;
  EVP_PKEY* key = nullptr;
};

bool add_extension(X509* to, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, to, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, OpenSslFree<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return extension != nullptr && X509_add_ext(to, extension.get(), -1) == 1;
}

bool set_serial(X509* certificate) {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) {
    return false;
  }
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7f) | 0x40);  // positive, of full length
  const std::unique_ptr<BIGNUM, OpenSslFree<BN_free>> number(
      BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr));
  return number != nullptr &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

// Without extensions and unsigned.
Certificate blank(const std::string& common_name, EVP_PKEY* key, const CertificateRequest& request,
                  WallTime now) {
  Certificate made(X509_new());
  const auto from = std::chrono::system_clock::to_time_t(now - kClockError);
  const auto to = std::chrono::system_clock::to_time_t(now + request.lifetime);
  X509_NAME* const subject = X509_get_subject_name(made.get());
  const bool done =
      X509_set_version(made.get(), X509_VERSION_3) == 1 && set_serial(made.get()) &&
      ASN1_TIME_set(X509_getm_notBefore(made.get()), from) != nullptr &&
      ASN1_TIME_set(X509_getm_notAfter(made.get()), to) != nullptr &&
      X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(common_name.c_str()), -1,
                                 -1, 0) == 1 &&
      X509_set_pubkey(made.get(), key) == 1;
  return done ? std::move(made) : nullptr;
}

bool sign(X509* certificate, const Signer& by) {
  return X509_set_issuer_name(certificate, X509_get_subject_name(by.certificate)) == 1 &&
         X509_sign(certificate, by.key, EVP_sha256()) > 0;
}

std::string pem_of(X509* certificate) {
  const std::unique_ptr<BIO, OpenSslFree<BIO_free_all>> out(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(out.get(), certificate);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string pem_of(EVP_PKEY* key) {
  const std::unique_ptr<BIO, OpenSslFree<BIO_free_all>> out(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(out.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

}  // namespace

Result<CertificatePair> make_certificate(const CertificateRequest& request, WallTime now) {
  YARD_TRY(const std::string names, alternative_names(request.names));
  const PrivateKey root_key(EVP_EC_gen("P-256"));
  const PrivateKey key(EVP_EC_gen("P-256"));
  if (root_key == nullptr || key == nullptr) {
    return failed("no key");
  }
  // Each root has a name of its own: a client that trusts several looks them up by it.
  const std::string tag = std::to_string(now.time_since_epoch().count());
  const Certificate root = blank("Trainyard root " + tag, root_key.get(), request, now);
  const Certificate leaf = blank("Trainyard server", key.get(), request, now);
  if (root == nullptr || leaf == nullptr) {
    return failed("no certificate");
  }
  const bool root_done =
      add_extension(root.get(), root.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
      add_extension(root.get(), root.get(), NID_key_usage, "critical,keyCertSign,cRLSign") &&
      add_extension(root.get(), root.get(), NID_subject_key_identifier, "hash") &&
      sign(root.get(), {root.get(), root_key.get()});
  const bool leaf_done =
      root_done &&
      add_extension(leaf.get(), root.get(), NID_basic_constraints, "critical,CA:FALSE") &&
      add_extension(leaf.get(), root.get(), NID_key_usage, "critical,digitalSignature") &&
      add_extension(leaf.get(), root.get(), NID_ext_key_usage, "serverAuth") &&
      add_extension(leaf.get(), root.get(), NID_subject_key_identifier, "hash") &&
      add_extension(leaf.get(), root.get(), NID_authority_key_identifier, "keyid:always") &&
      add_extension(leaf.get(), root.get(), NID_subject_alt_name, names) &&
      sign(leaf.get(), {root.get(), root_key.get()});
  if (!leaf_done) {
    return failed("an extension was refused");
  }
  return CertificatePair{.certificate = pem_of(leaf.get()) + pem_of(root.get()),
                         .key = pem_of(key.get())};
}

}  // namespace trainyard::http
