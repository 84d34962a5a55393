// SPDX-License-Identifier: Apache-2.0
// Turns a walk over the index in key order into one page of a listing: prefix, delimiter, where to
// begin, how many. For index.cc only.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "s3/object_store.h"
#include "sql/statement.h"

namespace trainyard::s3 {

// `walk` takes a bucket (1) and the least key (2), and gives key, size, etag, modified and
// description in key order. A listing begins behind `query.after`; where that is itself a common
// prefix, behind all that it stands for.
Result<ListPage> list_page(sql::Statement& walk, std::int64_t bucket, const ListQuery& query);

}  // namespace trainyard::s3
