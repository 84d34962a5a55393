// SPDX-License-Identifier: Apache-2.0
// Contents that the index has let go and that stay nevertheless, because a program beside this one
// is copying the store (`trainyard backup`): what its copy of the index names is there when it
// comes to it, however often objects are replaced meanwhile. It says so by a pin, a shared lock of
// the system on <root>/pins, which goes with whoever has it. The store only asks, and never waits.
//
// Who copies takes the pin before it reads the index; the store asks after the transaction that let
// a content go. So if the copy names the content, the store finds the pin. Contents that stay are
// on the garbage list of the index all the time: a start of the store finds them again.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/result.h"

namespace trainyard::s3 {

// In the root of a store. One that an older program has used last has none.
inline constexpr const char* kPinsFile = "pins";

// Pins all contents until `pins`, that file, is closed. kUnavailable where the file system has no
// locks.
Result<void> pin_contents(const Fd& pins);

// Thread-safe.
class KeptBack {
 public:
  explicit KeptBack(Fd pins) : pins_(std::move(pins)) {}  // open for writing

  // Which files may go now: all of `useless`, which the index has let go, and up to `most_others`
  // of those that had to stay before. None while there is a pin.
  std::vector<std::string> let_go(std::vector<std::string> useless, std::size_t most_others);

 private:
  bool is_pinned() const;

  const Fd pins_;
  Mutex mutex_;
  std::vector<std::string> kept_ GUARDED_BY(mutex_);
};

}  // namespace trainyard::s3
