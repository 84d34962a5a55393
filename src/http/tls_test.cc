// SPDX-License-Identifier: Apache-2.0
// TLS listeners and the certificates that they show: whom they let in, what they refuse and what
// they say to it.
#include "http/tls.h"

#include <atomic>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "http/client.h"
#include "http/internal/tls_context.h"
#include "http/test_peer.h"
#include "testing/fake_clock.h"

namespace trainyard::http {
namespace {

using ::testing::HasSubstr;

const WallTime kNow = SystemClock().now();

// A pair on disk and what is made of it.
struct Pki {
  explicit Pki(std::vector<std::string> names = {"127.0.0.1", "localhost"}) {
    auto made = TempDir::make();
    EXPECT_TRUE(made);
    folder = std::make_unique<TempDir>(std::move(*made));
    write(make_certificate({.names = std::move(names)}, kNow));
  }

  void write(const Result<CertificatePair>& pair) {
    ASSERT_TRUE(pair) << pair.error().message;
    EXPECT_TRUE(write_file(files().certificate, pair->certificate));
    EXPECT_TRUE(write_file(files().key, pair->key, 0600));
  }

  TlsFiles files() const { return {folder->path() / "cert.pem", folder->path() / "key.pem"}; }
  Result<std::shared_ptr<TlsIdentity>> load() { return TlsIdentity::load(files(), clock); }

  std::unique_ptr<TempDir> folder;
  testing::FakeClock clock{kNow};
};

struct TlsServer {
  explicit TlsServer(Handler handler, const ServerOptions& options = {}) {
    auto loaded = pki.load();
    EXPECT_TRUE(loaded);
    identity = *loaded;
    auto started = Server::start(options, std::move(handler));
    server = std::move(*started);
    port = *server->listen("127.0.0.1", 0, "tls", identity);
  }

  std::string url(std::string_view path = "/") const {
    return "https://127.0.0.1:" + std::to_string(port) + std::string(path);
  }
  std::unique_ptr<Client> client() const { return Client::make(pki.files().certificate); }

  Pki pki;
  std::shared_ptr<TlsIdentity> identity;
  std::unique_ptr<Server> server;
  std::uint16_t port = 0;
};

// What comes of a handshake that offers exactly that: the protocol agreed on, or "refused".
struct Offer {
  int version = TLS1_2_VERSION;
  std::string alpn = {};
  const char* ciphers = "DEFAULT:@SECLEVEL=0";
};

std::string shake_hands(std::uint16_t port, const Offer& offer) {
  const RawPeer peer(port);
  const SslContext context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_cipher_list(context.get(), offer.ciphers);
  SSL_CTX_set_min_proto_version(context.get(), offer.version);
  SSL_CTX_set_max_proto_version(context.get(), offer.version);
  const SslSession ssl(SSL_new(context.get()));
  SSL_set_alpn_protos(ssl.get(), reinterpret_cast<const unsigned char*>(offer.alpn.data()),
                      static_cast<unsigned int>(offer.alpn.size()));
  SSL_set_fd(ssl.get(), peer.fd());
  const bool done = SSL_connect(ssl.get()) == 1;
  ERR_clear_error();
  return done ? SSL_get_version(ssl.get()) : "refused";
}

TEST(Tls, ServesTheClientsThatTrustItsRoot) {
  TlsServer server(echo);
  const auto client = server.client();
  for (int i = 0; i < 3; ++i) {
    const auto answer = client->send({.method = "POST", .url = server.url("/a"), .body = "hi"});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->body, "POST /a hi");
  }
}

TEST(Tls, IsRefusedByThoseWhoTrustSomebodyElse) {
  const TlsServer server(echo);
  const Pki other;
  const auto answer = Client::make(other.files().certificate)->send({.url = server.url()});
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("certificate"));
}

TEST(Tls, CarriesLargeBodiesBothWays) {
  TlsServer server(echo);
  const auto client = server.client();
  std::string body(1'000'003, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) {
    body[i] = static_cast<char>(i * 131 >> 7);
  }
  const auto answer = client->send({.method = "PUT", .url = server.url("/b"), .body = body});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE(answer->body == "PUT /b " + body);
}

TEST(Tls, AnswersFromFilesExactly) {
  const std::string content(3'000'000, 'q');
  const auto folder = TempDir::make();
  ASSERT_TRUE(write_file(folder->path() / "f", content));
  const auto file = open_file(folder->path() / "f", O_RDONLY);
  TlsServer server([&](std::unique_ptr<Exchange> exchange) {
    const std::uint64_t length = exchange->request().path == "/short" ? 4'000'000 : 2'999'990;
    EXPECT_TRUE(exchange->start({}, length));
    if (exchange->send_file(file->get(), 10, length)) {
      EXPECT_TRUE(exchange->finish());
    }
  });
  const auto client = server.client();
  const auto whole = client->send({.url = server.url("/whole")});
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_TRUE(whole->body == content.substr(10));
  EXPECT_FALSE(client->send({.url = server.url("/short")}));
}

TEST(Tls, ASlowReaderGetsEveryByteAndStopsNobody) {
  const std::string big(std::size_t{16} << 20, 'x');
  TlsServer server(
      [&](std::unique_ptr<Exchange> exchange) {
        exchange->respond({.body = exchange->request().path == "/big" ? big : "small"});
      },
      {.max_workers = 1});
  std::atomic<std::size_t> got = 0;
  std::atomic<bool> may_go_on = false;
  std::jthread slow([&] {
    ClientRequest request{.url = server.url("/big")};
    request.download = [&](std::span<const std::byte> bytes) -> Result<void> {
      got += bytes.size();
      EXPECT_TRUE(eventually([&] { return may_go_on.load(); }));
      return {};
    };
    EXPECT_TRUE(server.client()->send(request));
  });
  EXPECT_TRUE(eventually([&] { return got > 0; }));
  const auto other = server.client()->send({.url = server.url("/small")});
  EXPECT_TRUE(other && other->body == "small");
  may_go_on = true;
  slow.join();
  EXPECT_EQ(got, big.size());
}

TEST(Tls, TellsAClientThatSpeaksPlainHttp) {
  const TlsServer server(echo);
  RawPeer peer(server.port);
  peer.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string answer = peer.read_to_end();
  EXPECT_THAT(answer, ::testing::StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_THAT(answer, ::testing::EndsWith("use an https:// address\n"));
}

TEST(Tls, EndsGarbageAndHandshakesThatNeverEnd) {
  const TlsServer server(echo, {.io_timeout = 100ms});
  RawPeer garbage(server.port);
  garbage.send(std::string(300, '\x5a'));
  EXPECT_LT(garbage.read_to_end().size(), 16u);  // an alert at most
  RawPeer silent(server.port);
  EXPECT_TRUE(silent.sees_end());
  RawPeer half(server.port);
  half.send(std::string("\x16\x03\x01\x02\x00\x01", 6));
  EXPECT_TRUE(half.sees_end());
}

TEST(Tls, ASlowHandshakeHoldsNobodyUp) {
  const TlsServer server(echo, {.io_threads = 1, .max_workers = 1});
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 50; ++i) {
    peers.push_back(std::make_unique<RawPeer>(server.port));
    peers.back()->send(std::string("\x16\x03\x01", 3));
  }
  EXPECT_TRUE(server.client()->send({.url = server.url()}));
}

TEST(Tls, AgreesOnNothingOld) {
  const TlsServer server(echo);
  EXPECT_EQ(shake_hands(server.port, {.version = TLS1_VERSION}), "refused");
  EXPECT_EQ(shake_hands(server.port, {.version = TLS1_1_VERSION}), "refused");
  EXPECT_EQ(shake_hands(server.port, {.version = TLS1_2_VERSION}), "TLSv1.2");
  EXPECT_EQ(shake_hands(server.port, {.version = TLS1_3_VERSION}), "TLSv1.3");
  EXPECT_EQ(shake_hands(server.port, {.ciphers = "AES128-SHA"}), "refused");
  EXPECT_EQ(shake_hands(server.port, {.ciphers = "ECDHE-ECDSA-AES128-SHA256"}), "refused");
}

TEST(Tls, NegotiatesHttp11OrNothing) {
  const TlsServer server(echo);
  EXPECT_EQ(shake_hands(server.port, {.alpn = "\x08http/1.1"}), "TLSv1.2");
  EXPECT_EQ(shake_hands(server.port, {.alpn = "\x02h2\x08http/1.1"}), "TLSv1.2");
  EXPECT_EQ(shake_hands(server.port, {.alpn = "\x02h2"}), "refused");
}

TEST(Tls, ANewPairIsShownToTheNextConnectionAndDisturbsNone) {
  TlsServer server(echo);
  const auto client = server.client();
  ASSERT_TRUE(client->send({.url = server.url()}));
  server.pki.write(make_certificate({.names = {"127.0.0.1"}}, kNow));
  ASSERT_TRUE(server.identity->reload());
  EXPECT_TRUE(client->send({.url = server.url()}));  // on its connection
  EXPECT_TRUE(server.client()->send({.url = server.url()}));
}

TEST(Tls, ABadNewPairLeavesTheOldOne) {
  TlsServer server(echo);
  const auto client = server.client();
  const auto other = make_certificate({.names = {"127.0.0.1"}}, kNow);
  ASSERT_TRUE(write_file(server.pki.files().key, other->key));
  EXPECT_FALSE(server.identity->reload());
  EXPECT_TRUE(client->send({.url = server.url()}));
}

TEST(TlsIdentity, KnowsItsNamesAndItsEnd) {
  Pki pki({"train.example.com", "10.1.2.3", "::1"});
  const auto loaded = pki.load();
  ASSERT_TRUE(loaded) << loaded.error().message;
  const TlsIdentity& identity = **loaded;
  EXPECT_TRUE(identity.names("train.example.com"));
  EXPECT_TRUE(identity.names("bucket.train.example.com"));
  EXPECT_TRUE(identity.names("10.1.2.3"));
  EXPECT_TRUE(identity.names("::1"));
  EXPECT_FALSE(identity.names("127.0.0.1"));
  EXPECT_FALSE(identity.names("example.com"));
  EXPECT_EQ(identity.first_name(), "train.example.com");
  EXPECT_TRUE(identity.has_own_root());
  EXPECT_GT(identity.expires(), kNow + std::chrono::days(824));
}

std::string complaint_about(Pki& pki) {
  const auto loaded = pki.load();
  return loaded ? "" : loaded.error().message;
}

TEST(TlsIdentity, SaysWhatIsWrongWithTheFiles) {
  Pki pki;
  const std::string key = *read_file(pki.files().key);
  ASSERT_TRUE(write_file(pki.files().key, make_certificate({.names = {"a"}}, kNow)->key));
  EXPECT_THAT(complaint_about(pki), HasSubstr("is not that of the first certificate"));
  ASSERT_TRUE(write_file(pki.files().key, "no key"));
  EXPECT_THAT(complaint_about(pki), HasSubstr("holds no private key in PEM form"));
  ASSERT_TRUE(write_file(pki.files().key, key));
  ASSERT_TRUE(write_file(pki.files().certificate, key));
  EXPECT_THAT(complaint_about(pki), HasSubstr("holds no certificate in PEM form"));
  std::filesystem::remove(pki.files().certificate);
  EXPECT_THAT(complaint_about(pki), HasSubstr("cert.pem"));
}

TEST(TlsIdentity, RefusesAnEncryptedKeyWithTheWayOut) {
  Pki pki;
  const std::string plain = *read_file(pki.files().key);
  const std::unique_ptr<BIO, OpenSslFree<BIO_free_all>> in(
      BIO_new_mem_buf(plain.data(), static_cast<int>(plain.size())));
  const PrivateKey key(PEM_read_bio_PrivateKey(in.get(), nullptr, nullptr, nullptr));
  const std::unique_ptr<BIO, OpenSslFree<BIO_free_all>> out(BIO_new(BIO_s_mem()));
  PEM_write_bio_PKCS8PrivateKey(out.get(), key.get(), EVP_aes_256_cbc(), "secret", 6, nullptr,
                                nullptr);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  ASSERT_TRUE(write_file(pki.files().key, {data, static_cast<std::size_t>(size)}));
  const std::string complaint = complaint_about(pki);
  EXPECT_THAT(complaint, HasSubstr("is encrypted"));
  EXPECT_THAT(complaint, HasSubstr("openssl pkey -in"));
}

TEST(TlsIdentity, RefusesACertificateThatIsNotValidNow) {
  Pki pki;
  pki.clock.advance(std::chrono::days(826));
  EXPECT_THAT(complaint_about(pki), HasSubstr("expired on"));
  pki.clock.advance(-std::chrono::days(826 + 2));
  EXPECT_THAT(complaint_about(pki), HasSubstr("is not valid before"));
}

TEST(TlsIdentity, RefusesAKeyThatIsTooWeak) {
  Pki pki;
  const PrivateKey key(EVP_RSA_gen(1024));
  const Certificate weak(X509_new());
  X509_gmtime_adj(X509_getm_notBefore(weak.get()), -3'600);
  X509_gmtime_adj(X509_getm_notAfter(weak.get()), 3'600);
  X509_set_pubkey(weak.get(), key.get());
  X509_sign(weak.get(), key.get(), EVP_sha256());
  const std::unique_ptr<BIO, OpenSslFree<BIO_free_all>> out(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(out.get(), weak.get());
  char* data = nullptr;
  long size = BIO_get_mem_data(out.get(), &data);
  ASSERT_TRUE(write_file(pki.files().certificate, {data, static_cast<std::size_t>(size)}));
  const std::unique_ptr<BIO, OpenSslFree<BIO_free_all>> key_out(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(key_out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  size = BIO_get_mem_data(key_out.get(), &data);
  ASSERT_TRUE(write_file(pki.files().key, {data, static_cast<std::size_t>(size)}));
  EXPECT_THAT(complaint_about(pki), HasSubstr("too small"));
}

TEST(MakeCertificate, RefusesWhatIsNoName) {
  for (const char* name : {"", "a b", "-a", "a..b", "*.a", "a,IP:1.2.3.4", "999.1.1.1/8", "ä"}) {
    const auto made = make_certificate({.names = {name}}, kNow);
    ASSERT_FALSE(made) << name;
    EXPECT_EQ(made.error().code, Code::kInvalidArgument);
  }
  EXPECT_FALSE(make_certificate({}, kNow));
}

TEST(MakeCertificate, KeepsTheKeyOfTheRootToNobody) {
  const auto pair = make_certificate({.names = {"a"}}, kNow);
  ASSERT_TRUE(pair);
  EXPECT_EQ(pair->key.find("PRIVATE KEY", 30), pair->key.rfind("PRIVATE KEY"));
  EXPECT_EQ(pair->certificate.find("KEY"), std::string::npos);
}

}  // namespace
}  // namespace trainyard::http
