// SPDX-License-Identifier: Apache-2.0
// The endpoint where AWS SDKs in the container find the role's keys, as on ECS: an HTTP server at
// 169.254.170.2 whose one path holds a secret of this container (AWS General Reference, "Container
// credential provider"). The address must be up on the namespace's loopback. On a network that
// others share, it is at the instance's own address and asks for a token in the Authorization
// header, too.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "http/message.h"
#include "http/server.h"
#include "instance/link/role_credentials.h"

namespace trainyard::instance {

inline constexpr const char* kCredentialsAddress = "169.254.170.2";
inline constexpr std::uint16_t kCredentialsPort = 80;

struct CredentialsPlace {
  std::string address = kCredentialsAddress;
  std::uint16_t port = kCredentialsPort;
  std::string path = {};   // the only one that exists
  std::string token = {};  // that Authorization must be; empty: none is asked for
};

// The answer to one request.
http::Response credentials_response(const http::Request& request, const CredentialsPlace& place,
                                    RoleCredentials& credentials);

// Serves until the server is destroyed. `credentials` must outlive it.
Result<std::unique_ptr<http::Server>> serve_credentials(const CredentialsPlace& place,
                                                        RoleCredentials& credentials);

}  // namespace trainyard::instance
