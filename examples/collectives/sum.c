/* SPDX-License-Identifier: Apache-2.0 */
/* Sums numbers over all ranks of a training job without Python: every process finds its place by
 * the file that SageMaker gives to each container, and all meet on the job's first host.
 *
 *     cc -o sum sum.c -I <tree>/src/comm/c -L <folder> -Wl,-rpath,<folder> -lyardcomm
 *     ./sum PORT [LOCAL_RANK LOCAL_SIZE [RESOURCECONFIG]]
 *
 * PORT is any that is free on the first host, LOCAL_SIZE how many processes each host starts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "yard_job.h"

static void must(int code, char** error) {
  if (code != YARD_OK) {
    fprintf(stderr, "sum: %s\n", *error);
    exit(1);
  }
}

static yard_comm* meet(const yard_job_place* place, const char* port) {
  char address[512];
  snprintf(address, sizeof address, "%s:%s", place->leader, port);
  yard_comm_options options;
  memset(&options, 0, sizeof options);
  options.name = "sum";
  options.rank = place->rank;
  options.size = place->size;
  options.timeout_ms = 60000;
  options.join_timeout_ms = 60000;
  options.interface_ = place->interface_;
  options.sockets = getenv("TRAINYARD_COMM_SOCKETS"); /* jobs have both */
  options.status = getenv("TRAINYARD_COMM_STATUS");
  options.address = address;
  yard_comm* comm = NULL;
  char* error = NULL;
  must(yard_comm_create(&options, NULL, &comm, &error), &error);
  return comm;
}

static float sum_over_all(yard_comm* comm, float value) {
  yard_operation operation;
  memset(&operation, 0, sizeof operation);
  operation.kind = YARD_ALL_REDUCE;
  operation.dtype = YARD_F32;
  operation.reduce = YARD_SUM;
  operation.root = -1;
  operation.output = &value; /* in place */
  operation.output_bytes = sizeof value;
  char* error = NULL;
  must(yard_comm_run(comm, &operation, &error), &error);
  return value;
}

int main(int count, char** words) {
  if (yard_comm_abi() != YARD_COMM_ABI || count < 2) {
    fprintf(stderr, "usage: sum PORT [LOCAL_RANK LOCAL_SIZE [RESOURCECONFIG]]\n");
    return 2;
  }
  const int local_rank = count > 3 ? atoi(words[2]) : 0;
  const int local_size = count > 3 ? atoi(words[3]) : 1;
  yard_job_place place;
  char* error = NULL;
  must(yard_job_place_read(count > 4 ? words[4] : NULL, local_rank, local_size, &place, &error),
       &error);
  yard_comm* comm = meet(&place, words[1]);
  const float sum = sum_over_all(comm, (float)(place.rank + 1));
  printf("rank %d of %d on %d hosts: the sum is %g\n", place.rank, place.size,
         yard_comm_hosts(comm), sum);
  yard_comm_free(comm);
  yard_free(place.leader);
  yard_free(place.interface_);
  return 0;
}
