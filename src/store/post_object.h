// SPDX-License-Identifier: Apache-2.0
// POST Object: a file that an HTML form uploads to a bucket, as browsers and boto3's
// generate_presigned_post send it. The form's fields say the key, the object's headers, and, by a
// policy document with its signature, that its sender may do it: nothing else of the request is
// signed. The file is handed to the store as it comes.
#pragma once

#include <optional>

#include "http/server.h"
#include "http/sigv4.h"
#include "s3/object_store.h"
#include "store/s3_service.h"
#include "store/target.h"

namespace trainyard::store {

// A POST of such a form, which carries no other signature. From the head alone.
bool is_form_upload(const http::Request& request);

struct PostCall {
  s3::ObjectStore& store;
  const Options& options;
  const FormCheck& check;
  const Clock& clock;
};

struct PostAnswer {
  http::Response response = {};
  std::optional<http::AuthError> refused = {};  // the signature does not hold; no response then
};

// Reads the form from `exchange`, and answers nothing itself.
Result<PostAnswer> post_object(http::Exchange& exchange, const Target& target,
                               const PostCall& call);

}  // namespace trainyard::store
