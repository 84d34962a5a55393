/* SPDX-License-Identifier: Apache-2.0 */
/* Where a process is among the ranks of a SageMaker training job: rendezvous/resource_config.h as
 * C. With it and an address (yard_comm.h), ranks need no launcher and no store. */
#ifndef TRAINYARD_COMM_C_YARD_JOB_H_
#define TRAINYARD_COMM_C_YARD_JOB_H_

#include "yard_comm.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct yard_job_place {
  int32_t rank;
  int32_t size;
  char* leader;     /* the host of rank 0; free with yard_free */
  char* interface_; /* for yard_comm_options; free with yard_free */
} yard_job_place;

/* `config`: null for /opt/ml/input/config/resourceconfig.json. Each host has `local_size` ranks,
 * and this one the number `local_rank` there. */
YARD_API int yard_job_place_read(const char* config, int32_t local_rank, int32_t local_size,
                                 yard_job_place* place, char** error);

#if defined(__cplusplus)
}
#endif

#endif /* TRAINYARD_COMM_C_YARD_JOB_H_ */
