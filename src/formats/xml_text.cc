// SPDX-License-Identifier: Apache-2.0
#include "formats/xml_text.h"

#include "base/encoding.h"

namespace trainyard {

std::string xml_text(std::string_view text) {
  std::string out;
  for (const char c : to_valid_utf8(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\r':  // as itself it would be read back as a line feed
        out += "&#xD;";
        break;
      case '\t':
      case '\n':
        out += c;
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += "\xEF\xBF\xBD";
        } else {
          out += c;
        }
    }
  }
  return out;
}

}  // namespace trainyard
