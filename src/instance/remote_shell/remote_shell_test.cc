// SPDX-License-Identifier: Apache-2.0
// The parts as values, then whole remote shells over the loopback, in this process.
#include <array>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/text.h"
#include "base/thread.h"
#include "instance/remote_shell/acceptor.h"
#include "instance/remote_shell/handshake.h"
#include "instance/remote_shell/remote_command.h"
#include "instance/remote_shell/shell_client.h"
#include "instance/remote_shell/shell_session.h"
#include "instance/testing/sleepers.h"

namespace trainyard::instance {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<std::string>;

bool take_next(FrameReader& reader, Frame& out) {
  std::optional<Frame> frame = reader.next().value_or(std::nullopt);
  if (!frame) {
    return false;
  }
  out = std::move(*frame);
  return true;
}

TEST(FrameReader, GivesTheSameFramesHoweverTheBytesAreCut) {
  const std::string bytes = encode_frame(FrameKind::kOutput, std::string("a\0b", 3)) +
                            encode_frame(FrameKind::kInput, "") +
                            encode_frame(FrameKind::kFinished, std::string(70'000, 'x'));
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    FrameReader reader;
    std::vector<std::size_t> sizes;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      reader.push(std::string_view(bytes).substr(at, piece));
      for (Frame frame; take_next(reader, frame);) {
        sizes.push_back(frame.payload.size());
      }
    }
    EXPECT_THAT(sizes, ElementsAre(3, 0, 70'000));
  }
}

TEST(FrameReader, RefusesALengthThatNobodySends) {
  FrameReader reader;
  reader.push("SSH-2.0-OpenSSH\r\n");
  EXPECT_EQ(reader.next().error().code, Code::kCorrupt);
}

TEST(Handshake, ProvesBothSides) {
  const std::string hello(kNonceBytes, 's');
  const std::string own(kNonceBytes, 'c');
  const Result<std::string> proof = answer_hello("secret", hello, own);
  ASSERT_TRUE(proof);
  EXPECT_EQ(proof->find("secret"), std::string::npos);
  const Result<std::string> welcome = answer_proof("secret", hello, *proof);
  ASSERT_TRUE(welcome);
  EXPECT_TRUE(check_welcome("secret", hello, own, *welcome));
}

TEST(Handshake, RefusesEveryoneElse) {
  const std::string hello(kNonceBytes, 's');
  const std::string own(kNonceBytes, 'c');
  const std::string proof = *answer_hello("secret", hello, own);
  EXPECT_EQ(answer_proof("another", hello, proof).error().code, Code::kDenied);
  // A proof that was overheard is of no use later.
  EXPECT_FALSE(answer_proof("secret", std::string(kNonceBytes, 't'), proof));
  EXPECT_FALSE(answer_proof("secret", hello, ""));
  EXPECT_FALSE(answer_proof("secret", hello, std::string(kNonceBytes, 'c')));
  // Nor is the client's proof when it is sent back to it.
  EXPECT_FALSE(check_welcome("secret", hello, own, proof.substr(kNonceBytes)));
  // Without a secret there is no trust at all.
  EXPECT_FALSE(answer_hello("", hello, own));
  EXPECT_FALSE(answer_proof("", hello, proof));
}

TEST(RemoteCommand, TakesMpirunsWordsAsTheyAre) {
  const auto command =
      remote_command({" orted", "-mca", "ess", "\"env\"", "--mca", "x", "\"$(id)\"q;`id`\""}, {});
  ASSERT_TRUE(command) << command.error().message;
  EXPECT_THAT(command->argv,
              ElementsAre("orted", "-mca", "ess", "env", "--mca", "x", "$(id)\"q;`id`"));
}

TEST(RemoteCommand, AppliesThePrefixOfAnotherOpenMpi) {
  const auto command = remote_command(
      {" PATH=/opt/mpi/bin:$PATH ; export PATH ; "
       "LD_LIBRARY_PATH=/opt/mpi/lib:${LD_LIBRARY_PATH:-} ; export LD_LIBRARY_PATH ;  "
       " /opt/mpi/bin/orted",
       "-mca"},
      {{"PATH", "/usr/bin"}, {"KEPT", "a b"}});
  ASSERT_TRUE(command) << command.error().message;
  EXPECT_THAT(command->argv, ElementsAre("/opt/mpi/bin/orted", "-mca"));
  EXPECT_EQ(command->environment, (Variables{{"PATH", "/opt/mpi/bin:/usr/bin"},
                                             {"LD_LIBRARY_PATH", "/opt/mpi/lib:"},
                                             {"KEPT", "a b"}}));
}

TEST(RemoteCommand, RefusesWhatWouldNeedAShell) {
  for (const char* text : {"", ";", "A=$(id) ; orted", "orted ; reboot", "A=${B ; orted"}) {
    EXPECT_EQ(remote_command({text}, {}).error().code, Code::kInvalidArgument) << text;
  }
  EXPECT_FALSE(remote_command({}, {}));
}

// What one remote command has shown.
struct Shown {
  Result<ExitStatus> status = Error{};
  std::string output;
  std::string errors;
};

class RemoteShellTest : public testing::Test {
 protected:
  void SetUp() override {
    auto acceptor = Acceptor::listen(
        {.address = "127.0.0.1"}, "secret", [](Connection peer, const std::stop_token& stop) {
          const Result<Frame> first = peer.next(kHandshakePatience, stop);
          if (first && first->kind == FrameKind::kCommand) {
            run_shell_session(peer, first->payload,
                              {.environment = {{"PATH", "/usr/bin:/bin"}, {"WHERE", "there"}},
                               .directory = "/",
                               .prefix = {}},
                              stop);
          }
        });
    ASSERT_TRUE(acceptor) << acceptor.error().message;
    acceptor_ = std::move(*acceptor);
  }

  Connection connect() {
    Result<Connection> peer = dial(acceptor_->endpoint(), "secret");
    EXPECT_TRUE(peer) << peer.error().message;
    return peer ? std::move(*peer) : Connection(Fd());
  }

  static std::jthread collect(const Fd& from, std::string& into) {
    return start_thread("collect", [&from, &into](const std::stop_token&) {
      std::array<std::byte, 4096> chunk;
      for (auto got = read_some(from.get(), chunk); got && *got > 0;
           got = read_some(from.get(), chunk)) {
        into.append(reinterpret_cast<const char*>(chunk.data()), *got);
      }
    });
  }

  // `input` is read by the command as its standard input.
  Shown run(const Words& words, const std::string& input = {}, int signals = -1) {
    Shown shown;
    Pipe in = *make_pipe();
    Pipe out = *make_pipe();
    Pipe err = *make_pipe();
    Connection peer = connect();
    const std::jthread first = collect(out.read_end, shown.output);
    const std::jthread second = collect(err.read_end, shown.errors);
    const std::jthread feeder = start_thread(
        "feed",
        [to = std::make_shared<Fd>(std::move(in.write_end)), &input](const std::stop_token&) {
          EXPECT_TRUE(write_all(to->get(), input));
          to->reset();
        });
    shown.status = run_remotely(peer, words,
                                {.input = in.read_end.get(),
                                 .output = out.write_end.get(),
                                 .errors = err.write_end.get(),
                                 .signals = signals});
    out.write_end.reset();
    err.write_end.reset();
    return shown;
  }

  std::unique_ptr<Acceptor> acceptor_;
};

// One word is not split, so a script comes as it is.
Words script(const std::string& text) {
  return {"/bin/sh", "-c", "\"" + text + "\""};
}

bool ends_within(const std::string& sleeper, std::chrono::seconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (sleeps_somewhere(sleeper) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return !sleeps_somewhere(sleeper);
}

TEST_F(RemoteShellTest, GivesOutputErrorsAndExitStatus) {
  const Shown shown = run(script("echo $WHERE; pwd; echo oops >&2; exit 3"));
  ASSERT_TRUE(shown.status) << shown.status.error().message;
  EXPECT_EQ(shown.status->code, 3);
  EXPECT_EQ(shown.output, "there\n/\n");
  EXPECT_EQ(shown.errors, "oops\n");
}

TEST_F(RemoteShellTest, TellsTheSignalThatEndedTheCommand) {
  const Shown shown = run(script("kill -SEGV $$"));
  ASSERT_TRUE(shown.status);
  EXPECT_EQ(shown.status->signal, SIGSEGV);
}

TEST_F(RemoteShellTest, CarriesAMebibyteBothWays) {
  std::string input(1 << 20, '\0');
  for (std::size_t i = 0; i < input.size(); ++i) {
    input[i] = static_cast<char>(i * 7 + i / 256);
  }
  const Shown shown = run({"cat"}, input);
  ASSERT_TRUE(shown.status);
  EXPECT_EQ(shown.status->code, 0);
  EXPECT_EQ(shown.output.size(), input.size());
  EXPECT_TRUE(shown.output == input);
}

TEST_F(RemoteShellTest, PassesSignalsOn) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &set, &before);
  const Fd signals(signalfd(-1, &set, SFD_CLOEXEC));
  raise(SIGUSR1);
  const Shown shown = run(script("trap 'echo heard; exit 5' USR1; while :; do sleep 0.05; done"),
                          {}, signals.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(shown.status);
  // The signal may come before the trap does.
  EXPECT_TRUE(shown.status->code == 5 || shown.status->signal == SIGUSR1);
}

TEST_F(RemoteShellTest, KillsTheCommandWhenThePeerHangsUp) {
  {
    Connection peer = connect();
    ASSERT_TRUE(peer.send(FrameKind::kCommand,
                          R"(["/bin/sh","-c","trap '' HUP TERM; echo up; sleep 86391.25; :"])"));
    const Result<Frame> up = peer.next(std::chrono::seconds(10));
    ASSERT_TRUE(up);
    EXPECT_EQ(up->payload, "up\n");
  }
  EXPECT_TRUE(ends_within("86391.25", std::chrono::seconds(10)));
}

TEST_F(RemoteShellTest, KillsItsCommandsWhenItEndsItself) {
  Connection peer = connect();
  ASSERT_TRUE(peer.send(FrameKind::kCommand, R"(["/bin/sh","-c","echo up; sleep 86390.25; :"])"));
  ASSERT_TRUE(peer.next(std::chrono::seconds(10)));
  acceptor_.reset();
  EXPECT_TRUE(ends_within("86390.25", std::chrono::seconds(10)));
  EXPECT_FALSE(peer.next(std::chrono::seconds(10)));
}

TEST_F(RemoteShellTest, DoesNotWaitForADaemonOfTheCommand) {
  const Shown shown = run(script("sleep 86384.25 & echo $!"));  // it holds the output open
  ASSERT_TRUE(shown.status);
  EXPECT_EQ(shown.status->code, 0);
  const Result<std::int64_t> daemon = parse_int(trim(shown.output));
  ASSERT_TRUE(daemon) << shown.output;
  EXPECT_EQ(kill(static_cast<pid_t>(*daemon), SIGKILL), 0);
}

TEST_F(RemoteShellTest, SaysWhenACommandCannotBeStarted) {
  const Shown shown = run({"no-such-program"});
  ASSERT_TRUE(shown.status);
  EXPECT_EQ(shown.status->code, 127);
  EXPECT_THAT(shown.errors, HasSubstr("no-such-program"));
}

TEST_F(RemoteShellTest, RunsNothingForWhoDoesNotKnowTheSecret) {
  const Result<Connection> peer = dial(acceptor_->endpoint(), "another");
  ASSERT_FALSE(peer);
  EXPECT_EQ(peer.error().code, Code::kDenied);
}

// Somebody who skips the proof and asks at once gets no answer beyond the hello.
TEST_F(RemoteShellTest, RunsNothingWithoutAProof) {
  Result<Fd> socket = connect_to(acceptor_->endpoint());
  ASSERT_TRUE(socket);
  Connection peer(std::move(*socket));
  EXPECT_EQ(peer.next(std::chrono::seconds(10))->kind, FrameKind::kHello);
  ASSERT_TRUE(peer.send(FrameKind::kCommand, R"(["sleep","86389.25"])"));
  EXPECT_EQ(peer.next(std::chrono::seconds(10)).error().code, Code::kUnavailable);
  EXPECT_FALSE(sleeps_somewhere("86389.25"));
}

TEST(Dial, SaysThatNobodyListensYet) {
  Endpoint endpoint{.address = "127.0.0.1"};
  ASSERT_TRUE(listen_at(endpoint));  // and closed at once
  EXPECT_EQ(dial(endpoint, "secret").error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace trainyard::instance
