// SPDX-License-Identifier: Apache-2.0
#include "server/backup/store_index.h"

#include "base/encoding.h"

namespace trainyard::server {
namespace {

constexpr std::size_t kIdDigits = 32;

bool is_id(const std::string& text) {
  return text.size() == kIdDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Result<void> visit_all(sql::Statement& statement, const StoreIndex::Visit& visit) {
  while (true) {
    YARD_TRY(const bool found, statement.step());
    if (!found) {
      return {};
    }
    StoredContent content = {.id = statement.text(0),
                             .size = static_cast<std::uint64_t>(statement.integer(1))};
    if (!is_id(content.id)) {
      return Error{Code::kCorrupt, "the index of the object store names a content \"" +
                                       to_valid_utf8(content.id) + "\", which is no id of one"};
    }
    YARD_TRY(visit(content));
  }
}

}  // namespace

Path content_path(const Path& objects, const std::string& id) {
  return objects / "data" / id.substr(0, 2) / id;
}

Result<StoreIndex> StoreIndex::open(const Path& file) {
  YARD_TRY(sql::Connection connection, sql::Connection::open(file, sql::Access::kRead));
  return StoreIndex(std::move(connection));
}

Result<StoreIndex::Totals> StoreIndex::totals() {
  YARD_TRY(sql::Statement sum,
           connection_.prepare("SELECT count(*), coalesce(sum(size), 0) FROM (SELECT size FROM "
                               "objects UNION ALL SELECT size FROM parts)"));
  YARD_TRY(sum.step());
  return Totals{.contents = static_cast<std::uint64_t>(sum.integer(0)),
                .bytes = static_cast<std::uint64_t>(sum.integer(1))};
}

Result<void> StoreIndex::each(const Visit& visit) {
  YARD_TRY(sql::Statement all,
           connection_.prepare("SELECT content, size FROM objects UNION ALL SELECT content, size "
                               "FROM parts"));
  return visit_all(all, visit);
}

Result<void> StoreIndex::each_not_in(const Path& other, const Visit& visit) {
  {
    YARD_TRY(sql::Statement attach, connection_.prepare("ATTACH :file AS other"));
    YARD_TRY(attach.bind_text("file", other.native()).run());
  }
  const auto compare = [&]() -> Result<void> {
    YARD_TRY(sql::Statement only_here,
             connection_.prepare("SELECT content, size FROM main.objects UNION ALL SELECT content, "
                                 "size FROM main.parts EXCEPT SELECT content, size FROM "
                                 "other.objects EXCEPT SELECT content, size FROM other.parts"));
    return visit_all(only_here, visit);
  };
  Result<void> done = compare();
  YARD_TRY(connection_.execute("DETACH other"));
  return done;
}

Result<bool> StoreIndex::names(const std::string& id) {
  YARD_TRY(sql::Statement one,
           connection_.prepare("SELECT 1 FROM objects WHERE content = :id UNION ALL SELECT 1 FROM "
                               "parts WHERE content = :id LIMIT 1"));
  return one.bind_bytes("id", id).step();
}

}  // namespace trainyard::server
