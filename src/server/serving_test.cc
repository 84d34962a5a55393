// SPDX-License-Identifier: Apache-2.0
// How a process waits for its end, in processes that may end for it; and what it says of itself.
#include "server/serving.h"

#include <functional>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace trainyard::server {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

const WallTime kNow{std::chrono::days(20'000)};

class FixedClock final : public Clock {
 public:
  WallTime now() const override { return kNow; }
  SteadyTime steady_now() const override { return {}; }
};

void raise_in_process(int number) {
  ::kill(::getpid(), number);
}

// A certificate for train.example.com that ends in ten days.
class Identity final : public http::TlsIdentity {
 public:
  Result<void> reload() override {
    raise_in_process(SIGTERM);
    return reloaded;
  }
  WallTime expires() const override {
    if (++asked == last_question) {
      raise_in_process(SIGTERM);
    }
    return kNow + std::chrono::days(10);
  }
  bool names(std::string_view host) const override { return host == first_name(); }
  std::string first_name() const override { return name; }
  bool has_own_root() const override { return true; }

  std::string name = "train.example.com";
  Result<void> reloaded;
  int last_question = 0;
  mutable int asked = 0;
};

// For the process of a death test: serves until it is told to stop.
[[noreturn]] void serve(Identity& identity) {
  const sigset_t signals = begin_to_serve(true);
  if (identity.last_question == 0) {
    raise_in_process(SIGHUP);
  }
  ::_exit(wait_for_stop(signals, &identity, FixedClock(), 1ms));
}

TEST(WaitForStopDeathTest, ASecondSignalEndsTheProcess) {
  const auto stop_twice = [](int first, int second) {
    const sigset_t signals = begin_to_serve(false);
    raise_in_process(first);
    wait_for_stop(signals, nullptr, FixedClock());
    raise_in_process(second);
    ::_exit(0);
  };
  EXPECT_EXIT(stop_twice(SIGTERM, SIGTERM), testing::KilledBySignal(SIGTERM), "");
  EXPECT_EXIT(stop_twice(SIGTERM, SIGINT), testing::KilledBySignal(SIGINT), "");
}

TEST(StartGuardDeathTest, EndsAStartThatIsToldToStop) {
  const auto start_for_ever = [](int number) {
    begin_to_serve(true);
    const StartGuard guard;
    raise_in_process(SIGHUP);
    raise_in_process(number);
    while (true) {
      ::pause();
    }
  };
  for (const int number : {SIGTERM, SIGINT}) {
    EXPECT_EXIT(start_for_ever(number), testing::ExitedWithCode(0),
                "before the start was complete");
  }
}

TEST(StartGuardDeathTest, LeavesWhatComesAfterTheStartToWhoServes) {
  const auto start_and_stop = [] {
    const sigset_t signals = begin_to_serve(false);
    { const StartGuard guard; }
    raise_in_process(SIGTERM);
    ::_exit(wait_for_stop(signals, nullptr, FixedClock()));
  };
  EXPECT_EXIT(start_and_stop(), testing::ExitedWithCode(SIGTERM), "");
}

TEST(WaitForStopDeathTest, WarnsOfTheCertificateAgainAndAgain) {
  Identity identity;
  identity.last_question = 3;
  EXPECT_EXIT(serve(identity), testing::ExitedWithCode(SIGTERM),
              "expires on(.|\n)*expires on(.|\n)*expires on");
}

TEST(WaitForStopDeathTest, ReadsTheCertificateAgainAndWarns) {
  Identity identity;
  EXPECT_EXIT(serve(identity), testing::ExitedWithCode(SIGTERM), "valid until(.|\n)*expires on");
  identity.reloaded = Error{Code::kInvalidArgument, "not PEM"};
  EXPECT_EXIT(serve(identity), testing::ExitedWithCode(SIGTERM),
              "the old certificate stays in use: not PEM(.|\n)*expires on");
}

TEST(ExpiryWarning, BeginsAMonthBefore) {
  EXPECT_FALSE(expiry_warning(kNow + std::chrono::days(30), kNow));
  EXPECT_THAT(*expiry_warning(kNow + std::chrono::days(29), kNow), HasSubstr("expires on"));
  EXPECT_THAT(*expiry_warning(kNow, kNow), HasSubstr("expired on"));
}

TEST(AnnouncedUrl, IsOneThatClientsOfThisMachineReach) {
  EXPECT_EQ(announced_url("127.0.0.2", 80, nullptr), "http://127.0.0.2:80");
  EXPECT_EQ(announced_url("0.0.0.0", 80, nullptr), "http://127.0.0.1:80");
  EXPECT_EQ(announced_url("::", 80, nullptr), "http://127.0.0.1:80");
  EXPECT_EQ(announced_url("::1", 80, nullptr), "http://[::1]:80");
}

TEST(LocalUrl, IsTheAddressWhateverTheCertificateNames) {
  EXPECT_EQ(local_url("0.0.0.0", 443, true), "https://127.0.0.1:443");
  EXPECT_EQ(local_url("10.0.0.9", 443, true), "https://10.0.0.9:443");
  EXPECT_EQ(local_url("127.0.0.2", 80, false), "http://127.0.0.2:80");
}

TEST(AnnouncedUrl, HasANameOfTheCertificate) {
  Identity identity;
  EXPECT_EQ(announced_url("0.0.0.0", 443, &identity), "https://train.example.com:443");
  identity.name = "10.0.0.9";
  EXPECT_EQ(announced_url("10.0.0.9", 443, &identity), "https://10.0.0.9:443");
  identity.name = "";
  EXPECT_EQ(announced_url("10.0.0.9", 443, &identity), "https://10.0.0.9:443");
}

}  // namespace
}  // namespace trainyard::server
