// SPDX-License-Identifier: Apache-2.0
// A rendezvous store for ranks that are threads of one process. The store server keeps its keys in
// one, too.
#pragma once

#include <map>

#include "base/mutex.h"
#include "comm/rendezvous/store.h"

namespace trainyard::comm {

class MemoryStore final : public RendezvousStore {
 public:
  Result<std::string> claim(const std::string& key, const std::string& value) override;
  Result<std::vector<std::string>> wait_for(const std::vector<std::string>& keys,
                                            std::chrono::milliseconds time) override;
  Result<bool> has(const std::string& key) override;
  std::string where() const override { return "this process"; }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::map<std::string, std::string> values_ GUARDED_BY(mutex_);
};

}  // namespace trainyard::comm
