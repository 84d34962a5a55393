// SPDX-License-Identifier: Apache-2.0
// The access keys of a store that runs alone, in the file that AWS clients read themselves
// ("[name]", aws_access_key_id, aws_secret_access_key): each profile is one key.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/random.h"
#include "base/result.h"

namespace trainyard::server {

using AccessKeys = std::map<std::string, std::string, std::less<>>;  // id to secret

// kInvalidArgument, with the line, for what is not such a file; also when it names no key, or one
// whose secret is shorter than 16 characters.
Result<AccessKeys> parse_keys(std::string_view text);

// Makes the file with one new key, for its owner only, when it is not there.
Result<AccessKeys> load_or_make_keys(const Path& file, Random& random);

}  // namespace trainyard::server
