// SPDX-License-Identifier: Apache-2.0
#include "http/internal/response_head.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace trainyard::http {
namespace {

struct Reason {
  int status;
  std::string_view text;
};

constexpr std::array<Reason, 27> kReasons = {{{200, "OK"},
                                              {201, "Created"},
                                              {202, "Accepted"},
                                              {204, "No Content"},
                                              {206, "Partial Content"},
                                              {301, "Moved Permanently"},
                                              {302, "Found"},
                                              {303, "See Other"},
                                              {304, "Not Modified"},
                                              {307, "Temporary Redirect"},
                                              {400, "Bad Request"},
                                              {401, "Unauthorized"},
                                              {403, "Forbidden"},
                                              {404, "Not Found"},
                                              {405, "Method Not Allowed"},
                                              {408, "Request Timeout"},
                                              {409, "Conflict"},
                                              {411, "Length Required"},
                                              {412, "Precondition Failed"},
                                              {413, "Content Too Large"},
                                              {416, "Range Not Satisfiable"},
                                              {429, "Too Many Requests"},
                                              {431, "Request Header Fields Too Large"},
                                              {500, "Internal Server Error"},
                                              {501, "Not Implemented"},
                                              {503, "Service Unavailable"},
                                              {507, "Insufficient Storage"}}};

std::string_view reason_of(int status) {
  const auto found = std::find_if(kReasons.begin(), kReasons.end(),
                                  [&](const Reason& reason) { return reason.status == status; });
  return found == kReasons.end() ? std::string_view("Status") : found->text;
}

bool is_ours(std::string_view name) {
  static constexpr std::array<std::string_view, 5> kOurs = {"Content-Length", "Transfer-Encoding",
                                                            "Connection", "Date", "Server"};
  return std::any_of(kOurs.begin(), kOurs.end(),
                     [&](std::string_view ours) { return equal_ignoring_case(name, ours); });
}

void append_safely(std::string& out, std::string_view text) {
  for (const char c : text) {
    const bool is_control = (c >= 0 && c < ' ' && c != '\t') || c == '\x7f';
    out += is_control ? ' ' : c;
  }
}

}  // namespace

std::string response_head(int status, const Headers& headers, const BodyForm& form, WallTime now) {
  std::string out;
  out.reserve(512);
  out.append("HTTP/1.1 ").append(std::to_string(status)).append(" ").append(reason_of(status));
  out.append("\r\nDate: ").append(to_http_date(now)).append("\r\nServer: trainyard\r\n");
  for (const auto& [name, value] : headers.fields()) {
    if (!is_ours(name)) {
      append_safely(out, name);
      out += ": ";
      append_safely(out, value);
      out += "\r\n";
    }
  }
  if (form.is_chunked) {
    out += "Transfer-Encoding: chunked\r\n";
  } else if (form.length && !has_no_body(status)) {
    out.append("Content-Length: ").append(std::to_string(*form.length)).append("\r\n");
  }
  if (!form.keeps_alive) {
    out += "Connection: close\r\n";
  } else if (form.is_http10) {
    out += "Connection: keep-alive\r\n";
  }
  out += "\r\n";
  return out;
}

bool has_no_body(int status) {
  return status < 200 || status == 204 || status == 304;
}

}  // namespace trainyard::http
