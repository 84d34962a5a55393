// SPDX-License-Identifier: Apache-2.0
// What AWS sets for jobs on instance types with an Elastic Fabric Adapter, so that NCCL goes over
// it (aws/sagemaker-training-toolkit, mpi.py and torch_distributed.py; the EFA and aws-ofi-nccl
// guides). Pure. They are defaults: a request's Environment changes each of them. Untested on EFA.
#pragma once

#include <string_view>

#include "instance/launch/environment.h"

namespace trainyard::instance {

enum class EfaKind {
  kNone,
  kPlain,  // an adapter, used from host memory
  kRdma,   // its device reads and writes the memory of others, GPUs' too (GPUDirect)
};
// Of "ml.p4d.24xlarge"; the families of accelerated and compute instances that training uses.
EfaKind efa_of(std::string_view instance_type);

// Empty for kNone. FI_PROVIDER and NCCL_PROTO for all, because the adapter delivers out of order
// and NCCL's other protocols count on order; FI_EFA_USE_DEVICE_RDMA for those that can.
// FI_EFA_FORK_SAFE, because data loaders fork; FI_EFA_USE_HUGE_PAGE=0, because a fork with reserved
// huge pages may find none left.
Variables efa_variables(std::string_view instance_type);

}  // namespace trainyard::instance
