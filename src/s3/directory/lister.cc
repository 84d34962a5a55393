// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/lister.h"

#include <algorithm>

#include "s3/directory/record.h"
#include "s3/names.h"

namespace trainyard::s3 {
namespace {

// The least text that is greater than everything that begins with `prefix`; none when there is no
// such text.
std::optional<std::string> successor(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xFF) {
    prefix.pop_back();
  }
  if (prefix.empty()) {
    return std::nullopt;
  }
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

// Walks one page in key order. Where a common prefix appears, the walk jumps behind it, so that a
// page costs as many steps as it has entries, however many keys a prefix hides.
class Lister {
 public:
  Lister(sql::Statement& query, const ListQuery& ask) : query_(query), ask_(ask) {}

  Result<ListPage> run(std::int64_t bucket) {
    bucket_ = bucket;
    if (ask_.limit == 0 || !seek_first()) {
      return std::move(page_);
    }
    while (true) {
      YARD_TRY(const bool found, query_.step());
      std::string key = found ? query_.text(0) : std::string();
      if (!found || !key.starts_with(ask_.prefix)) {
        return std::move(page_);
      }
      if (page_.objects.size() + page_.common_prefixes.size() == ask_.limit) {
        page_.truncated = true;
        page_.next_after = last_;
        return std::move(page_);
      }
      YARD_TRY(const bool goes_on, take(std::move(key)));
      if (!goes_on) {
        return std::move(page_);
      }
    }
  }

 private:
  // False when nothing can follow.
  bool seek_first() {
    std::string from = ask_.after.empty() ? ask_.prefix : ask_.after + '\0';
    const std::string common = common_prefix_of(ask_.after, ask_.prefix, ask_.delimiter);
    if (!common.empty() && common == ask_.after) {
      return seek_behind(common);
    }
    seek(std::max(from, ask_.prefix));
    return true;
  }

  // False when nothing can follow.
  Result<bool> take(std::string key) {
    const std::string common = common_prefix_of(key, ask_.prefix, ask_.delimiter);
    if (common.empty()) {
      last_ = key;
      page_.objects.push_back({.key = std::move(key),
                               .size = static_cast<std::uint64_t>(query_.integer(1)),
                               .etag = query_.text(2),
                               .last_modified = WallTime(Duration(query_.integer(3)))});
      YARD_TRY(page_.objects.back().checksums, described_checksums(query_.text(4)));
      return true;
    }
    last_ = common;
    page_.common_prefixes.push_back(common);
    return seek_behind(common);
  }

  bool seek_behind(const std::string& prefix) {
    const auto next = successor(prefix);
    if (next) {
      seek(*next);
    }
    return next.has_value();
  }

  void seek(std::string from) {
    query_.reset();
    from_ = std::move(from);
    query_.bind(1, bucket_).bind_bytes(2, from_);
  }

  sql::Statement& query_;
  const ListQuery& ask_;
  std::int64_t bucket_ = 0;
  std::string from_;
  std::string last_;
  ListPage page_;
};

}  // namespace

Result<ListPage> list_page(sql::Statement& walk, std::int64_t bucket, const ListQuery& query) {
  return Lister(walk, query).run(bucket);
}

}  // namespace trainyard::s3
