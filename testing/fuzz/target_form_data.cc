// SPDX-License-Identifier: Apache-2.0
// multipart/form-data bodies. The first byte chooses the pace; what stands before the first line
// feed is the Content-Type. A body gives the same fields, file and verdict at every pace, and keeps
// to its limits.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "store/form_data.h"
#include "testing/fuzz/fuzz.h"

namespace {

using trainyard::store::Form;
using trainyard::store::FormReader;

struct Outcome {
  std::string fields;
  std::string file;
  std::string error;
};

trainyard::store::FormSource source_of(std::string_view wire, std::size_t step) {
  return [wire, step](std::span<std::byte> out) mutable -> trainyard::Result<std::size_t> {
    YARD_CHECK(!out.empty(), "asked to fill nothing");
    const std::size_t some = std::min({step, out.size(), wire.size()});
    std::memcpy(out.data(), wire.data(), some);
    wire.remove_prefix(some);
    return some;
  };
}

std::string shown(const Form& form) {
  std::string text = form.file_name + (form.has_file ? "\nfile" : "");
  std::size_t bytes = 0;
  for (const auto& [name, value] : form.fields) {
    YARD_CHECK(!name.empty(), "a field without a name");
    bytes += name.size() + value.size();
    text += "\n" + name + "=" + value;
  }
  YARD_CHECK(bytes <= FormReader::kMostBeforeFile, "more fields than the limit");
  YARD_CHECK(form.file_name.find_first_of("/\\") == std::string::npos, "a file name with a folder");
  return text;
}

Outcome read(std::string_view type, std::string_view wire, std::size_t step) {
  Outcome outcome;
  auto reader = FormReader::open(type, source_of(wire, step));
  if (!reader) {
    outcome.error = reader.error().message;
    return outcome;
  }
  const auto form = reader->read_fields(trainyard::SystemClock());
  if (!form) {
    outcome.error = form.error().message;
    return outcome;
  }
  outcome.fields = shown(*form);
  std::vector<std::byte> out(std::max<std::size_t>(step, 1));
  while (form->has_file) {
    const auto got = reader->read_file(out);
    if (!got) {
      outcome.error = got.error().message;
      break;
    }
    if (*got == 0) {
      break;
    }
    outcome.file.append(reinterpret_cast<const char*>(out.data()), *got);
  }
  return outcome;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view wire = trainyard::fuzz::as_text(data, size);
  const std::size_t pace = trainyard::fuzz::take_byte(wire) % 61 + 1;
  const std::string_view type = trainyard::fuzz::take_until(wire, '\n');
  const Outcome whole = read(type, wire, wire.size() + 1);
  const Outcome pieces = read(type, wire, pace);
  YARD_CHECK(whole.error == pieces.error && whole.fields == pieces.fields, "another verdict");
  // Of a refused body as much comes out as was read before: that may differ.
  YARD_CHECK(!whole.error.empty() || whole.file == pieces.file, "another file at another pace");
  YARD_CHECK(whole.file.size() <= wire.size(), "a file longer than the body");
  return 0;
}
