// SPDX-License-Identifier: Apache-2.0
#include "comm/c/yard_comm.h"

#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "comm/c/handles.h"
#include "comm/communicator.h"
#include "comm/rendezvous/own_store.h"

namespace {

using namespace trainyard::comm;  // NOLINT(google-build-using-namespace): the C face of it

static_assert(YARD_INTERNAL == static_cast<int>(Code::kInternal) + 1);
static_assert(YARD_BOOL == static_cast<int>(DType::kBool));
static_assert(YARD_BIT_XOR == static_cast<int>(ReduceOp::kBitXor));
static_assert(YARD_RECEIVE == static_cast<int>(OpKind::kReceive));

std::string text_of(const char* text) {
  return text == nullptr ? "" : text;
}

// What the caller's functions gave, and its memory back.
class ForeignStore final : public RendezvousStore {
 public:
  explicit ForeignStore(const yard_store& store) : store_(store) {}

  Result<std::string> claim(const std::string& key, const std::string& value) override {
    void* held = nullptr;
    std::size_t size = 0;
    char* error = nullptr;
    const int code =
        store_.claim(store_.context, key.c_str(), value.data(), value.size(), &held, &size, &error);
    const std::string text = take(held, size);
    return code == 0 ? Result<std::string>(text) : error_of(code, error);
  }

  Result<std::vector<std::string>> wait_for(const std::vector<std::string>& keys,
                                            std::chrono::milliseconds time) override {
    std::vector<const char*> names;
    for (const std::string& key : keys) {
      names.push_back(key.c_str());
    }
    std::vector<void*> values(keys.size(), nullptr);
    std::vector<std::size_t> sizes(keys.size(), 0);
    char* error = nullptr;
    const int code = store_.wait_for(store_.context, names.data(), names.size(), time.count(),
                                     values.data(), sizes.data(), &error);
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      texts.push_back(take(values[i], sizes[i]));
    }
    return code == 0 ? Result<std::vector<std::string>>(std::move(texts)) : error_of(code, error);
  }

  Result<bool> has(const std::string& key) override {
    int is_there = 0;
    char* error = nullptr;
    const int code = store_.has(store_.context, key.c_str(), &is_there, &error);
    return code == 0 ? Result<bool>(is_there != 0) : error_of(code, error);
  }

  std::string where() const override { return text_of(store_.where); }

 private:
  static std::string take(void* bytes, std::size_t size) {
    std::string text;
    if (bytes != nullptr) {
      text.assign(static_cast<const char*>(bytes), size);
      std::free(bytes);
    }
    return text;
  }

  static Error error_of(int code, char* message) {
    const bool is_known = code > YARD_OK && code <= YARD_INTERNAL;
    Error error{is_known ? static_cast<Code>(code - 1) : Code::kInternal, text_of(message)};
    std::free(message);
    return error;
  }

  const yard_store& store_;
};

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    words.emplace_back(trainyard::trim(std::string_view(text).substr(start, comma - start)));
    start = comma + 1;
  }
  return words;
}

// Numbers from another language may be none of ours.
template <typename Described>
Result<void> check_enums(const Described& from) {
  if (from.kind < YARD_BARRIER || from.kind > YARD_RECEIVE || from.dtype < YARD_F32 ||
      from.dtype > YARD_BOOL || from.reduce < YARD_NONE || from.reduce > YARD_BIT_XOR) {
    return Error{Code::kInvalidArgument,
                 "an operation has a kind, dtype or reduction that this library does not know"};
  }
  return {};
}

Operation operation_of(const yard_operation& from) {
  Operation operation{
      .kind = static_cast<OpKind>(from.kind),
      .dtype = static_cast<DType>(from.dtype),
      .reduce = static_cast<ReduceOp>(from.reduce),
      .input = {static_cast<const std::byte*>(from.input), from.input_bytes},
      .output = {static_cast<std::byte*>(from.output), from.output_bytes},
      .root = from.root,
      .tag = from.tag,
      .counts = {from.counts, from.counts + from.counts_size},
      .receive_counts = {from.receive_counts, from.receive_counts + from.receive_counts_size},
      .timeout = std::nullopt,
      .algorithm = std::nullopt};
  if (from.timeout_ms > 0) {
    operation.timeout = std::chrono::milliseconds(from.timeout_ms);
  }
  return operation;
}

Signature signature_of(const yard_elsewhere& from) {
  return {.kind = static_cast<OpKind>(from.kind),
          .dtype = static_cast<DType>(from.dtype),
          .reduce = static_cast<ReduceOp>(from.reduce),
          .root = from.root,
          .count = from.count};
}

Result<yard_comm> create_by(const yard_store& store, const CommunicatorOptions& options) {
  ForeignStore foreign(store);
  YARD_TRY(auto created, Communicator::create(options, foreign));
  return yard_comm{.own = std::move(created)};
}

// How long others may take to hear of a failure of rank 0's.
constexpr std::chrono::milliseconds kLinger{2000};

// Once the world is made nobody asks the store any more: it ends, with the port that anyone can
// reach and the world's secret.
Result<yard_comm> create_at(const std::string& address, const CommunicatorOptions& options) {
  YARD_TRY(const Endpoint endpoint, parse_endpoint(address));
  YARD_TRY(auto store, OwnStore::open(endpoint, options.rank == 0, options.join_timeout));
  auto created = Communicator::create(options, store->store());
  if (!created) {
    store->linger(static_cast<std::size_t>(options.size), kLinger);
    return created.error();
  }
  return yard_comm{.own = std::move(*created)};
}

}  // namespace

int yard_comm_abi(void) {
  return YARD_COMM_ABI;
}

int yard_comm_create(const yard_comm_options* options, const yard_store* store, yard_comm** comm,
                     char** error) {
  CommunicatorOptions own;
  own.name = text_of(options->name);
  own.rank = options->rank;
  own.size = options->size;
  own.timeout = std::chrono::milliseconds(options->timeout_ms);
  own.join_timeout = std::chrono::milliseconds(options->join_timeout_ms);
  own.interface = text_of(options->interface_);
  own.host = text_of(options->host);
  own.sockets = text_of(options->sockets);
  own.status = text_of(options->status);
  own.transports = words_of(text_of(options->transports));
  own.fabric = text_of(options->fabric);
  own.fabric_filter = text_of(options->fabric_filter);
  own.table = text_of(options->table);
  own.mesh_scratch = options->mesh_scratch;
  own.mesh_sort = options->mesh_sort;
  own.sweep = std::chrono::milliseconds(options->sweep_ms);
  auto created =
      store != nullptr ? create_by(*store, own) : create_at(text_of(options->address), own);
  if (!created) {
    return report(created.error(), error);
  }
  *comm = new yard_comm(std::move(*created));  // owned by the caller, until yard_comm_free
  return YARD_OK;
}

void yard_comm_free(yard_comm* comm) {
  delete comm;
}

int yard_comm_sweep(yard_comm* comm, int64_t milliseconds, char** error) {
  const auto done = comm->own->sweep(std::chrono::milliseconds(milliseconds));
  return done ? YARD_OK : report(done.error(), error);
}

char* yard_comm_table(yard_comm* comm) {
  return copy_of(comm->own->table());
}

int32_t yard_comm_hosts(const yard_comm* comm) {
  const std::vector<std::int32_t>& hosts = comm->own->world().host;
  return static_cast<std::int32_t>(std::set<std::int32_t>(hosts.begin(), hosts.end()).size());
}

int yard_comm_issue(yard_comm* comm, const yard_operation* operation, yard_work** work,
                    char** error) {
  if (const auto checked = check_enums(*operation); !checked) {
    return report(checked.error(), error);
  }
  auto issued = comm->own->issue(operation_of(*operation));
  if (!issued) {
    return report(issued.error(), error);
  }
  *work = new yard_work{std::move(*issued)};
  return YARD_OK;
}

int yard_comm_run(yard_comm* comm, const yard_operation* operation, char** error) {
  if (const auto checked = check_enums(*operation); !checked) {
    return report(checked.error(), error);
  }
  const auto done = comm->own->run(operation_of(*operation));
  return done ? YARD_OK : report(done.error(), error);
}

int yard_work_wait(yard_work* work, char** error) {
  const auto done = work->own.wait();
  return done ? YARD_OK : report(done.error(), error);
}

int yard_work_is_done(const yard_work* work) {
  return work->own.is_done() ? 1 : 0;
}

uint64_t yard_work_sequence(const yard_work* work) {
  return work->own.sequence();
}

void yard_work_on_done(yard_work* work, yard_done told, void* context) {
  work->own.on_done([told, context](const Result<void>& result) {
    told(context, result ? YARD_OK : code_of(result.error()),
         result ? "" : result.error().message.c_str());
  });
}

void yard_work_free(yard_work* work) {
  delete work;
}

int yard_comm_allocate(yard_comm* comm, size_t bytes, yard_buffer** buffer, void** data,
                       char** error) {
  auto memory = comm->own->allocate(bytes);
  if (!memory) {
    return report(memory.error(), error);
  }
  *data = memory->get();
  *buffer = new yard_buffer{std::move(*memory)};
  return YARD_OK;
}

void yard_buffer_free(yard_buffer* buffer) {
  delete buffer;
}

void yard_comm_abort(yard_comm* comm, const char* reason) {
  comm->own->abort(text_of(reason));
}

int yard_comm_fault(const yard_comm* comm, char** error) {
  const auto fault = comm->own->fault();
  return fault ? report(*fault, error) : YARD_OK;
}

int yard_comm_agree(yard_comm* comm, const yard_elsewhere* operation, int64_t timeout_ms,
                    yard_work** work, char** error) {
  if (const auto checked = check_enums(*operation); !checked) {
    return report(checked.error(), error);
  }
  auto issued = comm->own->agree(signature_of(*operation), operation->bytes,
                                 std::chrono::milliseconds(timeout_ms), operation->tag);
  if (!issued) {
    return report(issued.error(), error);
  }
  *work = new yard_work{std::move(*issued)};
  return YARD_OK;
}

int yard_comm_begin(yard_comm* comm, const yard_elsewhere* operation, uint64_t* sequence,
                    char** error) {
  if (const auto checked = check_enums(*operation); !checked) {
    return report(checked.error(), error);
  }
  const auto begun = comm->own->begin_elsewhere(signature_of(*operation), operation->bytes);
  if (!begun) {
    return report(begun.error(), error);
  }
  *sequence = *begun;
  return YARD_OK;
}

void yard_comm_end(yard_comm* comm, uint64_t sequence, const yard_elsewhere* operation,
                   int is_complete) {
  if (!check_enums(*operation)) {
    return;  // such an operation cannot have begun
  }
  comm->own->end_elsewhere(static_cast<OpKind>(operation->kind), sequence, is_complete != 0);
}

int yard_comm_give_up(yard_comm* comm, uint64_t sequence, const yard_elsewhere* operation,
                      int64_t timeout_ms, char** error) {
  if (const auto checked = check_enums(*operation); !checked) {
    return report(checked.error(), error);
  }
  return report(comm->own->give_up_elsewhere(sequence, signature_of(*operation),
                                             std::chrono::milliseconds(timeout_ms)),
                error);
}

char* yard_comm_flight_record(yard_comm* comm) {
  return copy_of(comm->own->flight_record());
}

void yard_free(void* memory) {
  std::free(memory);
}
