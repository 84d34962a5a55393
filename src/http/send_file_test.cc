// SPDX-License-Identifier: Apache-2.0
// Answers from files: the right bytes at any pace, and a file that fails never passes for whole.
#include <atomic>
#include <future>
#include <latch>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"
#include "http/client.h"
#include "http/internal/transport.h"
#include "http/test_peer.h"

namespace trainyard::http {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

constexpr std::string_view kAsk = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

std::string pattern(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) {
    text[i] = static_cast<char>(i * 131 >> 7);
  }
  return text;
}

// A file without a name.
Fd file_of(std::string_view content) {
  auto folder = TempDir::make();
  EXPECT_TRUE(folder);
  auto file = open_file(folder->path() / "f", O_RDWR | O_CREAT);
  EXPECT_TRUE(file && write_all(file->get(), content));
  return std::move(*file);
}

// Sends a part of a file as its whole answer, and tells what came of it.
struct FileServer {
  FileServer(Fd file, FilePart asked, ServerOptions options = {})
      : file_(std::move(file)),
        part_(asked),
        server([this](std::unique_ptr<Exchange> exchange) { answer(*exchange); }, options) {}

  void answer(Exchange& exchange) {
    const bool is_chunked = exchange.request().path == "/chunked";
    Result<void> sent = exchange.start({}, is_chunked ? std::nullopt : std::optional(part_.length));
    if (sent) {
      sent = exchange.send_file(file_.get(), part_.offset, part_.length);
    }
    if (sent) {
      sent = exchange.finish();
    }
    code = sent ? 0 : static_cast<int>(sent.error().code) + 1;
  }

  bool ends_with(Code expected) {
    return eventually([&] { return code == static_cast<int>(expected) + 1; });
  }

  Fd file_;
  FilePart part_;
  std::atomic<int> code = -1;  // 0: sent; else the error's code + 1
  TestServer server;
};

struct Range {
  std::uint64_t offset;
  std::uint64_t length;
  const char* path;
};

class FileRanges : public testing::TestWithParam<Range> {};

TEST_P(FileRanges, ArriveExactly) {
  const std::string content = pattern(std::size_t{3} << 20);
  const auto [offset, length, path] = GetParam();
  FileServer files(file_of(content), {.offset = offset, .length = length});
  const auto client = Client::make();
  for (int i = 0; i < 2; ++i) {  // the connection goes on
    const auto response = client->send({.url = files.server.url(path)});
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_TRUE(response->body == content.substr(offset, length));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Parts, FileRanges,
    testing::Values(Range{0, 0, "/"}, Range{0, 1, "/"}, Range{5, 10'240, "/"},
                    Range{1, 32'768, "/"}, Range{1, 32'769, "/"}, Range{4'097, 1'000'003, "/"},
                    Range{0, std::uint64_t{3} << 20, "/"}, Range{(3u << 20) - 1, 1, "/"},
                    Range{0, 10'240, "/chunked"}, Range{9, 2'000'000, "/chunked"}));

TEST(SendFile, HeadHasTheLengthAndNoByteOfTheFile) {
  FileServer files(file_of("0123456789"), {.offset = 2, .length = 5});
  RawPeer peer(files.server.port);
  peer.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(peer.read_until("\r\n\r\n"), HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(peer.read_answer(), EndsWith("\r\n\r\n23456"));
}

TEST(SendFile, AReaderWithPausesGetsEveryByte) {
  const std::string content = pattern(std::size_t{16} << 20);
  FileServer files(file_of(content), {.offset = 0, .length = content.size()});
  RawPeer peer(files.server.port);
  peer.send(kAsk);
  peer.read_until("\r\n\r\n");
  std::string got = peer.read_exactly(1);
  std::this_thread::sleep_for(20ms);
  got += peer.read_exactly(content.size() - 1);
  EXPECT_TRUE(got == content);
}

TEST(SendFile, ASlowReaderHoldsNoWorkerAndGetsEveryByte) {
  const std::string content = pattern(std::size_t{32} << 20);
  FileServer files(file_of(content), {.offset = 0, .length = content.size()}, {.max_workers = 1});
  RawPeer slow(files.server.port);
  slow.send(kAsk);
  slow.read_until("\r\n\r\n");
  RawPeer other(files.server.port);
  other.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(other.read_until("\r\n\r\n"), HasSubstr("HTTP/1.1 200 OK"));
  EXPECT_TRUE(slow.read_exactly(content.size()) == content);
  slow.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");  // its connection goes on
  EXPECT_THAT(slow.read_until("\r\n\r\n"), HasSubstr("HTTP/1.1 200 OK"));
}

TEST(SendFile, AFileThatIsCutAfterTheHandlerHasGoneBreaksOff) {
  const std::string content = pattern(std::size_t{32} << 20);
  FileServer files(file_of(content), {.offset = 0, .length = content.size()});
  RawPeer peer(files.server.port);
  peer.send(kAsk);
  peer.read_until("\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return files.code == 0; }));
  ASSERT_EQ(::ftruncate(files.file_.get(), 1), 0);
  EXPECT_LT(peer.read_to_end().size(), content.size());
}

TEST(SendFile, AReaderThatStopsAfterTheHandlerHasGoneIsGivenUp) {
  const std::string content(std::size_t{32} << 20, 'x');
  FileServer files(file_of(content), {.offset = 0, .length = content.size()},
                   {.io_timeout = 100ms});
  RawPeer peer(files.server.port);
  peer.send(kAsk);
  ASSERT_TRUE(eventually([&] { return files.code == 0; }));
  std::this_thread::sleep_for(250ms);  // reading is what would keep it alive
  EXPECT_LT(peer.read_to_end().size(), content.size());
}

// The only worker for transfers is busy for longer than a peer may take for its next step.
TEST(SendFile, ARestThatWaitsForAWorkerIsNotGivenUp) {
  const std::string content = pattern(std::size_t{32} << 20);
  const Fd file = file_of(content);
  std::latch let_go{1};
  std::atomic<bool> is_busy = false;
  std::atomic<bool> is_left = false;
  TestServer server(
      [&](std::unique_ptr<Exchange> exchange) {
        if (exchange->request().method == "PUT") {
          is_busy = true;
          let_go.wait();
          return;
        }
        EXPECT_TRUE(exchange->start({}, content.size()));
        EXPECT_TRUE(exchange->send_file(file.get(), 0, content.size()));
        EXPECT_TRUE(exchange->finish());
        is_left = true;
      },
      {.max_workers = 1, .io_timeout = 200ms});
  RawPeer upload(server.port);
  upload.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n\r\nx");
  ASSERT_TRUE(eventually([&] { return is_busy.load(); }));
  RawPeer reader(server.port);
  reader.send(kAsk);
  ASSERT_TRUE(eventually([&] { return is_left.load(); }));
  std::this_thread::sleep_for(450ms);
  let_go.count_down();
  reader.read_until("\r\n\r\n");
  EXPECT_TRUE(reader.read_exactly(content.size()) == content);
}

constexpr std::string_view kAskChunked = "GET /chunked HTTP/1.1\r\nHost: h\r\n\r\n";

TEST(SendFile, AReaderThatStopsIsGivenUp) {
  const std::string content(std::size_t{32} << 20, 'x');
  FileServer files(file_of(content), {.offset = 0, .length = content.size()},
                   {.io_timeout = 200ms});
  RawPeer peer(files.server.port);
  peer.send(kAskChunked);
  EXPECT_TRUE(files.ends_with(Code::kDeadline));
  EXPECT_LT(peer.read_to_end().size(), content.size());
}

TEST(SendFile, APeerThatLeavesIsAnErrorAndNotTheEndOfTheProcess) {
  const std::string content(std::size_t{32} << 20, 'x');
  FileServer files(file_of(content), {.offset = 0, .length = content.size()});
  RawPeer peer(files.server.port);
  peer.send(kAsk);
  peer.read_until("\r\n\r\n");
  peer.close();
  EXPECT_TRUE(files.ends_with(Code::kUnavailable));
}

class ShortFiles : public testing::TestWithParam<std::uint64_t> {};

// The part is announced for a file that has been cut shorter: before the first byte or half-way.
TEST_P(ShortFiles, NeverPassForWhole) {
  const std::uint64_t length = GetParam();
  FileServer files(file_of(pattern(length / 2)), {.offset = 0, .length = length});
  for (const char* path : {"/", "/chunked"}) {
    const auto response = Client::make()->send({.url = files.server.url(path)});
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code, Code::kUnavailable);
    EXPECT_TRUE(files.ends_with(Code::kCorrupt));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ShortFiles, testing::Values(2, 20'000, 4'000'000));

TEST(SendFile, AFileThatIsCutWhileItIsSentBreaksOff) {
  const std::string content = pattern(std::size_t{32} << 20);
  FileServer files(file_of(content), {.offset = 0, .length = content.size()});
  RawPeer peer(files.server.port);
  peer.send(kAskChunked);
  peer.read_until("\r\n\r\n");
  ASSERT_EQ(::ftruncate(files.file_.get(), 1), 0);
  EXPECT_LT(peer.read_to_end().size(), content.size());
  EXPECT_TRUE(files.ends_with(Code::kCorrupt));
}

TEST(SendFile, AFileThatTheKernelCannotSendIsCopied) {
  auto file = open_file("/proc/self/cmdline", O_RDONLY);
  ASSERT_TRUE(file);
  std::string expected(std::size_t{1} << 20, '\0');
  const auto size = read_at(file->get(), std::as_writable_bytes(std::span(expected)), 0);
  ASSERT_TRUE(size && *size > 1);
  expected.resize(*size);
  FilePart part{.fd = file->get(), .offset = 0, .length = *size};
  int ends[2] = {};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  const Fd near(ends[0]);
  const Fd far(ends[1]);
  const auto transport = plain_transport(near.get());
  for (; part.length > 0;) {
    const auto step = transport->transmit_file(part);
    ASSERT_TRUE(step) << step.error().message;
    ASSERT_EQ(step->io, Io::kDone);
    part.offset += step->count;
    part.length -= step->count;
  }
  std::string got(expected.size() + 1, '\0');
  EXPECT_EQ(::recv(far.get(), got.data(), got.size(), 0), static_cast<ssize_t>(expected.size()));
  EXPECT_TRUE(got.starts_with(expected));
}

TEST(SendFile, KeepsToTheAnnouncedLength) {
  Fd file = file_of("0123456789");
  std::atomic<int> refused = 0;
  TestServer server([&](std::unique_ptr<Exchange> exchange) {
    EXPECT_FALSE(exchange->send_file(file.get(), 0, 1));  // not begun
    EXPECT_TRUE(exchange->start({}, 2));
    refused += exchange->send_file(file.get(), 0, 3) ? 0 : 1;
    refused += exchange->send_file(file.get(), 4, 2) ? 0 : 1;
    EXPECT_TRUE(exchange->finish());
  });
  const auto response = Client::make()->send({.url = server.url()});
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->body, "45");
  EXPECT_EQ(refused, 1);
}

// An Exchange of another kind reads and writes.
TEST(SendFile, WorksOverWriteAlone) {
  struct Written final : Exchange {
    const Request& request() const override { return request_; }
    std::optional<std::uint64_t> body_length() const override { return 0; }
    Result<std::size_t> read_body(std::span<std::byte> /*out*/) override { return std::size_t{0}; }
    void respond(Response /*response*/) override {}
    Result<void> start(Response /*head*/, std::optional<std::uint64_t> /*length*/) override {
      return {};
    }
    Result<void> write(std::span<const std::byte> bytes) override {
      text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return {};
    }
    Result<void> finish() override { return {}; }
    bool is_closed() const override { return false; }
    Request request_;
    std::string text;
  };
  const std::string content = pattern(200'000);
  const Fd file = file_of(content);
  Written exchange;
  ASSERT_TRUE(exchange.send_file(file.get(), 3, 190'000));
  EXPECT_TRUE(exchange.text == content.substr(3, 190'000));
  EXPECT_EQ(exchange.send_file(file.get(), 3, 200'000).error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace trainyard::http
