/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives library for other languages: comm/communicator.h as C. The PyTorch backend is
 * built on it, against whichever PyTorch is installed, so that no C++ type crosses between the two.
 * All strings are UTF-8 and copied. A function that can fail returns 0, or a yard_code and, when
 * `error` is not null, a message in it, which the caller frees with yard_free(). Threads: as
 * communicator.h says. */
#ifndef TRAINYARD_COMM_C_YARD_COMM_H_
#define TRAINYARD_COMM_C_YARD_COMM_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

#if defined(YARD_COMM_BUILDING)
#define YARD_API __attribute__((visibility("default")))
#else
#define YARD_API
#endif

/* Changes whenever a struct or a function here does; compare before anything else. */
#define YARD_COMM_ABI 6
YARD_API int yard_comm_abi(void);

/* base/result.h's codes, from 1. */
typedef enum yard_code {
  YARD_OK = 0,
  YARD_INVALID_ARGUMENT,
  YARD_NOT_FOUND,
  YARD_ALREADY_EXISTS,
  YARD_CONFLICT,
  YARD_DENIED,
  YARD_EXHAUSTED,
  YARD_UNAVAILABLE,
  YARD_DEADLINE,
  YARD_CANCELLED,
  YARD_CORRUPT,
  YARD_UNIMPLEMENTED,
  YARD_INTERNAL
} yard_code;

typedef enum yard_dtype {
  YARD_F32,
  YARD_F64,
  YARD_BF16,
  YARD_F16,
  YARD_I8,
  YARD_I16,
  YARD_I32,
  YARD_I64,
  YARD_U8,
  YARD_BOOL
} yard_dtype;

typedef enum yard_reduce {
  YARD_NONE,
  YARD_SUM,
  YARD_PRODUCT,
  YARD_MIN,
  YARD_MAX,
  YARD_AVERAGE,
  YARD_BIT_AND,
  YARD_BIT_OR,
  YARD_BIT_XOR
} yard_reduce;

typedef enum yard_kind {
  YARD_BARRIER,
  YARD_ALL_REDUCE,
  YARD_REDUCE_SCATTER,
  YARD_ALL_GATHER,
  YARD_BROADCAST,
  YARD_REDUCE,
  YARD_GATHER,
  YARD_SCATTER,
  YARD_ALL_TO_ALL,
  YARD_SEND,
  YARD_RECEIVE
} yard_kind;

typedef struct yard_comm yard_comm;
typedef struct yard_work yard_work;

/* A rendezvous store of the caller's: rendezvous/store.h. Each function returns 0, or a yard_code
 * with a message that the library frees with free(). Values are bytes, made by malloc(). */
typedef struct yard_store {
  void* context;
  int (*claim)(void* context, const char* key, const void* value, size_t size, void** held,
               size_t* held_size, char** error);
  int (*wait_for)(void* context, const char* const* keys, size_t count, int64_t milliseconds,
                  void** values, size_t* sizes, char** error);
  int (*has)(void* context, const char* key, int* is_there, char** error);
  const char* where;
} yard_store;

/* As comm/communicator.h says. The library reads no environment variable: who fills this in does.
 */
typedef struct yard_comm_options {
  const char* name;
  int32_t rank;
  int32_t size;
  int64_t timeout_ms; /* of each operation */
  int64_t join_timeout_ms;
  const char* interface_;    /* rendezvous/interfaces.h; null or empty: automatic */
  const char* host;          /* null or empty: what this machine says */
  const char* sockets;       /* a folder; null or empty: no names in a file system */
  const char* status;        /* a folder; null or empty: none */
  const char* transports;    /* "shm,tcp,fabric"; null or empty: all */
  const char* fabric_filter; /* libfabric's FI_PROVIDER; null or empty: not set */
  /* Of rank 0, for all. */
  const char* fabric;    /* null or empty: TCP between hosts */
  const char* table;     /* null or empty: the default one */
  uint64_t mesh_scratch; /* bytes; 0: the table's */
  uint64_t mesh_sort;
  int64_t sweep_ms; /* how long to measure a better table first; 0: not at all */
  /* Where ranks meet that have no store: "host:port" of rank 0, whose process serves a store there
   * until the communicator is made. One communicator is made at a time at each address. */
  const char* address;
} yard_comm_options;

/* The store is used during the call only; null: options->address says where ranks meet. */
YARD_API int yard_comm_create(const yard_comm_options* options, const yard_store* store,
                              yard_comm** comm, char** error);
YARD_API void yard_comm_free(yard_comm* comm);

/* Measures a better table for at most so long, on all ranks together, when nothing is under way. */
YARD_API int yard_comm_sweep(yard_comm* comm, int64_t milliseconds, char** error);
/* The table in use, as text; free with yard_free. */
YARD_API char* yard_comm_table(yard_comm* comm);
YARD_API int32_t yard_comm_hosts(const yard_comm* comm); /* how many the ranks are on */

typedef struct yard_operation {
  yard_kind kind;
  yard_dtype dtype;
  yard_reduce reduce;
  int32_t root; /* or peer; -1 */
  uint32_t tag;
  const void* input;
  size_t input_bytes;
  void* output;
  size_t output_bytes;
  const uint64_t* counts; /* of uneven operations; null otherwise */
  size_t counts_size;
  const uint64_t* receive_counts;
  size_t receive_counts_size;
  int64_t timeout_ms; /* 0: the communicator's */
} yard_operation;

/* Begins it. The buffers stay the operation's until the work is done. */
YARD_API int yard_comm_issue(yard_comm* comm, const yard_operation* operation, yard_work** work,
                             char** error);
/* Begins and completes it. */
YARD_API int yard_comm_run(yard_comm* comm, const yard_operation* operation, char** error);

YARD_API int yard_work_wait(yard_work* work, char** error);
YARD_API int yard_work_is_done(const yard_work* work);
YARD_API uint64_t yard_work_sequence(const yard_work* work);
/* Called once with the result, on the thread that completed it or on this one. `message` is valid
 * during the call. */
typedef void (*yard_done)(void* context, int code, const char* message);
YARD_API void yard_work_on_done(yard_work* work, yard_done told, void* context);
YARD_API void yard_work_free(yard_work* work); /* the operation goes on */

/* An all-reduce of fp32 gradients in fewer bytes, in place, to the average of all ranks:
 * comm/compress/all_reduce.h. State is the caller's: of this rank and these values, zeros at first;
 * it stays alive, as the values do, until the work is done. */
typedef enum yard_codec {
  YARD_NARROW,        /* `dtype`: YARD_F16 or YARD_BF16 */
  YARD_INT8,          /* `block`, `residual`, `owned` of yard_int8_owned() */
  YARD_DEEP_GRADIENT, /* `density`, `momentum`, `clip_norm`, `velocity`, `unsent` */
  YARD_POWER_SGD      /* `matrices`, ascending; what is between them is sent as it is */
} yard_codec;

typedef struct yard_matrix {
  size_t offset; /* in the values */
  uint32_t rows;
  uint32_t columns;
  uint32_t rank;
  float* error; /* rows x columns */
  float* q;     /* rank x columns, the same random numbers on all ranks at first */
} yard_matrix;

typedef struct yard_compressed {
  yard_codec codec;
  float* values;
  size_t count;
  yard_dtype dtype;
  size_t block;
  float* residual;
  float* owned;
  double density;
  float momentum;
  float clip_norm;
  float* velocity;
  float* unsent;
  const yard_matrix* matrices;
  size_t matrices_size;
  int64_t timeout_ms; /* 0: the communicator's */
} yard_compressed;

/* How many values each rank owns, of so many. */
YARD_API size_t yard_int8_owned(size_t count, int32_t world, size_t block);
YARD_API int yard_comm_issue_compressed(yard_comm* comm, const yard_compressed* operation,
                                        yard_work** work, char** error);

/* Many gradients in few all-reduces: comm/fusion/fused_all_reduce.h. The communicator outlives it.
 */
typedef struct yard_fusion yard_fusion;
typedef struct yard_fusion_options {
  yard_dtype dtype;
  yard_reduce reduce;
  size_t buffer_bytes;
} yard_fusion_options;
YARD_API int yard_fusion_create(yard_comm* comm, const yard_fusion_options* options,
                                yard_fusion** fusion, char** error);

typedef struct yard_gradient {
  void* data;
  size_t bytes;
  yard_done told; /* called once with the result, when it is in `data` */
  void* context;
} yard_gradient;
/* After an error of this call nobody is told. */
YARD_API int yard_fusion_add(yard_fusion* fusion, const yard_gradient* gradient, char** error);
YARD_API int yard_fusion_flush(yard_fusion* fusion, char** error);
/* Whether only a flush begins a part of the gradient at `data`: no time-out holds for it yet. Tells
 * it the fault, when there is one. */
YARD_API int yard_fusion_waits_for_flush(yard_fusion* fusion, const void* data, size_t bytes);
/* Gradients that wait for a flush are told YARD_CANCELLED. */
YARD_API void yard_fusion_free(yard_fusion* fusion);

/* Memory that the ranks of the host map; freed by yard_buffer_free, maybe after the communicator.
 */
typedef struct yard_buffer yard_buffer;
YARD_API int yard_comm_allocate(yard_comm* comm, size_t bytes, yard_buffer** buffer, void** data,
                                char** error);
YARD_API void yard_buffer_free(yard_buffer* buffer);

YARD_API void yard_comm_abort(yard_comm* comm, const char* reason);
/* 0 while it works, or what ended it. */
YARD_API int yard_comm_fault(const yard_comm* comm, char** error);

/* An operation that something else performs, as communicator.h says of begin_elsewhere(). Ranks
 * must agree on all of it but `bytes`; root is -1 where there is none, and the peer of a send or
 * receive, which is only agreed on. */
typedef struct yard_elsewhere {
  yard_kind kind;
  yard_dtype dtype;
  yard_reduce reduce;
  int32_t root;
  uint64_t count; /* elements */
  uint64_t bytes;
  uint32_t tag; /* of send and receive */
} yard_elsewhere;
/* The work is done when all ranks are there with the same; of a receive, when its send is. */
YARD_API int yard_comm_agree(yard_comm* comm, const yard_elsewhere* operation, int64_t timeout_ms,
                             yard_work** work, char** error);
YARD_API int yard_comm_begin(yard_comm* comm, const yard_elsewhere* operation, uint64_t* sequence,
                             char** error);
YARD_API void yard_comm_end(yard_comm* comm, uint64_t sequence, const yard_elsewhere* operation,
                            int is_complete);
/* Always an error: YARD_DEADLINE, or what had ended the communicator before;
 * YARD_INVALID_ARGUMENT for what is no operation, and then nothing is ended. */
YARD_API int yard_comm_give_up(yard_comm* comm, uint64_t sequence, const yard_elsewhere* operation,
                               int64_t timeout_ms, char** error);

/* JSON lines; free with yard_free. */
YARD_API char* yard_comm_flight_record(yard_comm* comm);
YARD_API void yard_free(void* memory);

#if defined(__cplusplus)
}
#endif

#endif /* TRAINYARD_COMM_C_YARD_COMM_H_ */
