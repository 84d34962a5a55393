// SPDX-License-Identifier: Apache-2.0
// Keys in a listing as the client wants them: XML cannot say every character, percent-encoding can.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/encoding.h"
#include "base/result.h"
#include "store/call.h"

namespace trainyard::store {

inline constexpr std::size_t kListingPage = 1'000;

class ListingNames {
 public:
  static Result<ListingNames> asked_for_by(const Call& call) {
    const std::string_view type = call.target.get("encoding-type");
    if (!type.empty() && type != "url") {
      return Error{Code::kInvalidArgument, "Invalid Encoding Method specified in Request",
                   "argument"};
    }
    return ListingNames(!type.empty());
  }

  void add_type(s3::XmlWriter& xml) const {
    if (encoded_) {
      xml.add("EncodingType", "url");
    }
  }
  void add(s3::XmlWriter& xml, std::string_view element, std::string_view name) const {
    if (encoded_) {
      xml.add(element, uri_encode(name, true));
    } else {
      xml.add(element, name);
    }
  }
  void add_prefixes(s3::XmlWriter& xml, const std::vector<std::string>& prefixes) const {
    for (const std::string& prefix : prefixes) {
      xml.open("CommonPrefixes");
      add(xml, "Prefix", prefix);
      xml.close();
    }
  }

 private:
  explicit ListingNames(bool encoded) : encoded_(encoded) {}
  bool encoded_;
};

}  // namespace trainyard::store
