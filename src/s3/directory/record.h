// SPDX-License-Identifier: Apache-2.0
// The part of an object or upload that the index stores as one text and never searches: content
// type, headers, checksums, parts. One item a line: a letter, then percent-encoded words.
//
//   t <content type>      h <name> <value>      c <kind> <base64> [composite]   g <tag> <value>
//   p <size> <how many> [<kind> <base64>]...   parts in a row that are alike
//   k <kind to compute>   f (full-object checksum)   a (only if absent)   o <owner>
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "s3/object_store.h"

namespace trainyard::s3 {

std::string encode_checksums(const std::vector<Checksum>& checksums);
Result<std::vector<Checksum>> decode_checksums(std::string_view text);

std::string encode_description(const ObjectInfo& info);
// The parts come last; kSkip does not look at them.
enum class Parts { kRead, kSkip };
Result<void> decode_description(std::string_view text, ObjectInfo& info,
                                Parts parts = Parts::kRead);

// Its checksums alone; the rest is not looked at.
Result<std::vector<Checksum>> described_checksums(std::string_view text);

// What an upload's creation says about the object to come.
std::string encode_options(const PutOptions& options);
Result<PutOptions> decode_options(std::string_view text);

}  // namespace trainyard::s3
