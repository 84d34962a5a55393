// SPDX-License-Identifier: Apache-2.0
// multipart/form-data (RFC 7578) as an HTML form sends a file: fields first, then one file, whose
// bytes are handed on as they come. Pure but for the source and the clock. What two parsers could
// cut differently is refused: text before the first boundary, blanks or other text behind one, line
// ends that are no CR LF, a field or a header that comes twice, a boundary that is announced twice.
//
//   --<boundary> CRLF <headers> CRLF CRLF <value> CRLF --<boundary> CRLF ... CRLF --<boundary>--
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace trainyard::store {

// Fills `out` with the next bytes of the body; 0 at its end.
using FormSource = std::function<Result<std::size_t>(std::span<std::byte> out)>;

struct Form {
  std::map<std::string, std::string> fields = {};  // names in lower case
  bool has_file = false;
  std::string file_name = {};  // as sent, without folders
};

// Whether a Content-Type is that of such a form, with or without a boundary.
bool is_form_data(std::string_view content_type);

// Errors of a form: kInvalidArgument with subject "form"; kExhausted with subject "form-fields"
// when what stands before the file, or behind it, is longer than these; kDeadline when the fields
// take longer than kMostTime. Those of the source pass through.
class FormReader {
 public:
  static constexpr std::size_t kMostBeforeFile = std::size_t{20} << 10;
  static constexpr std::size_t kMostBehindFile = std::size_t{64} << 10;
  // Nobody knows who sends the fields before all are there.
  static constexpr std::chrono::seconds kMostTime{30};

  static Result<FormReader> open(std::string_view content_type, FormSource wire);

  // Once, first: all fields up to the file, which is the field called "file".
  Result<Form> read_fields(const Clock& clock);
  // Then: the bytes of the file; 0 at its end, when the rest of the body has been read, too. What
  // stands behind the file is ignored, as S3 does.
  Result<std::size_t> read_file(std::span<std::byte> out);

 private:
  FormReader(std::string_view boundary, FormSource wire);

  struct Head {
    std::string name;
    std::string file_name = {};
  };
  Result<Form> read_all_fields();
  std::string_view held() const;
  Result<bool> fill();
  Result<void> require(std::size_t bytes);
  Result<std::string> take_until(std::string_view mark);
  Result<bool> is_last_delimiter();
  Result<Head> read_head();
  Result<void> skip_rest();

  std::string delimiter_;  // with the line end before it
  FormSource wire_;
  std::function<bool()> is_late_ = {};  // while the fields are read
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0;  // what was read and not taken yet is [begin_, end_)
  std::size_t end_ = 0;
  std::size_t before_file_ = 0;  // bytes taken
  bool is_done_ = false;
};

}  // namespace trainyard::store
