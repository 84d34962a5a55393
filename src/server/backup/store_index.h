// SPDX-License-Identifier: Apache-2.0
// What the index of an object store says about its content files, for those who copy or check a
// home from outside: read only, beside the server that writes it (s3/directory/directory_store.h)
// or without one. Knows nothing of buckets and keys.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/file.h"
#include "base/result.h"
#include "sql/connection.h"

namespace trainyard::server {

struct StoredContent {
  std::string id;  // 32 hex digits, lower case: safe as a part of a path
  std::uint64_t size = 0;
};

// Where the store keeps a content, below `objects`.
Path content_path(const Path& objects, const std::string& id);

class StoreIndex {
 public:
  using Visit = std::function<Result<void>(const StoredContent&)>;
  struct Totals {
    std::uint64_t contents = 0;
    std::uint64_t bytes = 0;
  };

  static Result<StoreIndex> open(const Path& file);

  Result<Totals> totals();
  // The contents of all objects and parts, as of one moment. Ends at the first error of `visit`.
  // kCorrupt for what is no id: an index may come from anybody.
  Result<void> each(const Visit& visit);
  // Those that another index does not name.
  Result<void> each_not_in(const Path& other, const Visit& visit);
  Result<bool> names(const std::string& id);

  sql::Connection& connection() { return connection_; }

 private:
  explicit StoreIndex(sql::Connection connection) : connection_(std::move(connection)) {}
  sql::Connection connection_;
};

}  // namespace trainyard::server
