// SPDX-License-Identifier: Apache-2.0
// The subject of an instance's error that came after its model had been uploaded: the job fails,
// but there is a model. The instance says it, control believes it.
#pragma once

namespace trainyard::wire {

inline constexpr const char* kModelSent = "model-sent";

}  // namespace trainyard::wire
