// SPDX-License-Identifier: Apache-2.0
// What S3 says of an object in HTTP headers, both ways: the client reads answers and writes
// requests, the S3 face the other way round.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"
#include "s3/object_store.h"

namespace trainyard::s3 {

struct ObjectHeaders {
  std::string content_type;
  std::map<std::string, std::string> headers;  // as in ObjectInfo
};

// The headers that belong to the object; all others are left out.
ObjectHeaders read_object_headers(const http::Headers& from);
void write_object_headers(const std::string& content_type,
                          const std::map<std::string, std::string>& headers, http::Headers& to);

// x-amz-checksum-<kind>; one that has "-<parts>" is composite.
std::vector<Checksum> read_checksums(const http::Headers& from);
void write_checksums(const std::vector<Checksum>& checksums, http::Headers& to);

std::string quote_etag(std::string_view etag);
std::string unquote_etag(std::string_view etag);

}  // namespace trainyard::s3
