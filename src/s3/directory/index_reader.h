// SPDX-License-Identifier: Apache-2.0
// A reading connection of an index, given back to the idle ones at the end. For index.cc and
// index_uploads.cc only.
#pragma once

#include <memory>
#include <utility>

#include "s3/directory/index.h"

namespace trainyard::s3 {

class Index::Reader {
 public:
  Reader(Index& index, std::unique_ptr<Connection> connection)
      : index_(&index), connection_(std::move(connection)) {}
  Reader(Reader&&) noexcept = default;
  ~Reader() {
    if (connection_ != nullptr) {
      index_->give_back(std::move(connection_));
    }
  }
  Connection& operator*() { return *connection_; }
  Connection* operator->() { return connection_.get(); }

 private:
  Index* index_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace trainyard::s3
