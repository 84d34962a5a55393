// SPDX-License-Identifier: Apache-2.0
// What an import asks of the index: many objects at a time, in the order of their keys, so that
// each page of the table is touched once.
#include "s3/directory/index.h"
#include "s3/directory/index_rows.h"

namespace trainyard::s3 {

Result<std::vector<std::optional<KnownFile>>> Index::known(const std::string& bucket,
                                                           const std::vector<std::string>& keys) {
  YARD_TRY(Reader connection, reader());
  YARD_TRY(const std::int64_t id, bucket_id(*connection, bucket));
  YARD_TRY(Statement query,
           connection->prepare("SELECT size, modified FROM objects WHERE bucket=?1 AND key=?2"));
  std::vector<std::optional<KnownFile>> found(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    YARD_TRY(const bool is_there, query.bind(1, id).bind_bytes(2, keys[i]).step());
    if (is_there) {
      found[i] = {.size = static_cast<std::uint64_t>(query.integer(0)),
                  .modified = to_time(query.integer(1))};
    }
    query.reset();
  }
  return found;
}

Result<Contents> Index::put_objects(const std::string& bucket, const std::vector<ObjectRow>& rows) {
  return replace([&](Connection& connection, Contents& dropped) -> Result<void> {
    YARD_TRY(const std::int64_t id, bucket_id(connection, bucket));
    for (const ObjectRow& row : rows) {
      YARD_TRY(replace_object(connection, id, row, {}, dropped));
    }
    return {};
  });
}

}  // namespace trainyard::s3
