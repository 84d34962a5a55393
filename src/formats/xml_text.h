// SPDX-License-Identifier: Apache-2.0
// Text inside XML 1.0 elements, the same for every answer in XML (S3, STS, errors).
#pragma once

#include <string>
#include <string_view>

namespace trainyard {

// Valid XML 1.0 text whose parsed form is `text`, but for what XML cannot say: invalid UTF-8 and
// control characters become U+FFFD.
std::string xml_text(std::string_view text);

}  // namespace trainyard
