// SPDX-License-Identifier: Apache-2.0
#include "store/front.h"

#include <utility>
#include <variant>

#include "store/post_object.h"

namespace trainyard::store {

void Front::handle(std::unique_ptr<http::Exchange> exchange) {
  if (is_form_upload(exchange->request())) {
    return service_.handle_form(std::move(exchange), [this](const http::SignedForm& form) {
      return http::verify_form(form, keys_, clock_.now());
    });
  }
  auto verified = http::verify(exchange->request(), "", keys_, clock_.now(), &derived_);
  if (const auto* holds = std::get_if<http::Verified>(&verified);
      holds != nullptr && holds->scope.service != "s3") {
    verified = http::AuthError{http::AuthFailure::kMalformed,
                               "The authorization header is malformed; incorrect service \"" +
                                   holds->scope.service + "\". This endpoint belongs to \"s3\"."};
  }
  if (const auto* failed = std::get_if<http::AuthError>(&verified)) {
    return service_.handle_unsigned(std::move(exchange), *failed);
  }
  service_.handle(std::move(exchange), std::get<http::Verified>(verified));
}

}  // namespace trainyard::store
