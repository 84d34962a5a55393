// SPDX-License-Identifier: Apache-2.0
// The doing part of the reconciler: decide()'s effects, after they were stored, on the engine, the
// object store and the sessions.
#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "base/encoding.h"
#include "base/hash.h"
#include "base/log.h"
#include "control/decide/artifacts.h"
#include "control/decide/overloaded.h"
#include "control/decide/source_check.h"
#include "control/run/leftovers.h"
#include "control/run/reconciler.h"
#include "wire/proof.h"

namespace trainyard::control {
namespace {

constexpr int kReleaseAttempts = 3;

Result<void> release_gang(Engine& engine, const GangId& id) {
  Result<void> released = engine.release(id);
  for (int attempt = 1; !released && attempt < kReleaseAttempts; ++attempt) {
    released = engine.release(id);
  }
  if (!released) {
    log_error(
        fmt::format("releasing gang {} of job {}: {}", id.epoch, id.job, released.error().message));
  }
  return released;
}

Result<void> merge_all(s3::ObjectStore& objects, const std::vector<Merge>& merges,
                       bool may_lack_parts) {
  for (const Merge& merge : merges) {
    if (auto joined = join_parts(objects, merge, may_lack_parts); !joined) {
      return joined.error().in("joining " + merge.target);
    }
  }
  return {};
}

// Takes away what the attempts of the job whose keys are revoked by then have left in the store.
// Asked by key, and not for those that this server has revoked: another may have done so, and have
// been killed before it looked.
std::function<void()> clearing(s3::ObjectStore& objects, Identity& identity, const Job& job) {
  return [&objects, &identity, places = upload_places(job), parts = all_parts_place(job),
          epoch = job.epoch] {
    abort_uploads(objects, places, [&](std::string_view key) { return identity.is_revoked(key); });
    if (epoch > 1) {
      remove_parts_before(objects, parts, epoch);
    }
  };
}

}  // namespace

// The named hosts get new tokens; the others keep what they have, under the new epoch.
void Reconciler::prepare_start(Active& active, const StartGang& start, Effect& effect) {
  for (const std::string& host : start.hosts) {
    const std::string token =
        around_.identity.instance_token(around_.outside.random.hex(wire::kTokenIdBytes));
    effect.instances.push_back({.host = host, .token = token, .epoch = active.job.epoch});
    active.token_hashes[host] = sha256_hex(token);
    active.commands.erase(host);
    active.acknowledged.erase(host);
  }
  for (const InstanceFacts& instance : active.facts.instances) {
    effect.rows.push_back(
        {.key = {.job = active.job.name, .epoch = active.job.epoch, .host = instance.host},
         .token_hash = active.token_hashes[instance.host],
         .facts = instance,
         .acknowledged = active.acknowledged[instance.host],
         .commands = active.commands[instance.host]});
  }
}

// Runs the call of the job's stage; its result comes back as an event.
void Reconciler::call(const Background& run, const Job& job,
                      std::function<Result<void>(GangNetwork&)> body) {
  run([events = events_, body = std::move(body),
       done = CallDone{.job = job.name,
                       .sequence = job.sequence,
                       .epoch = job.epoch,
                       .stage = job.stage,
                       .result = {}}]() mutable {
    done.result = body(done.network);
    events->push(std::move(done));
  });
}

void Reconciler::open_sessions(const Job& job, const std::vector<InstanceRow>& rows) {
  std::vector<Opening> openings;
  openings.reserve(rows.size());
  for (const InstanceRow& row : rows) {
    openings.push_back({.row = row, .assignment = assignment_of(job, row.key.host)});
  }
  around_.sessions.open(job.name, openings);
}

// Older attempts lose their voice and their keys before anything of the new one runs.
void Reconciler::start_gang(const Job& job, Effect& effect) {
  open_sessions(job, effect.rows);
  around_.identity.forget(job.name, job.epoch - 1);
  call(around_.background, job,
       [&engine = around_.outside.engine, id = gang_of(job),
        instances = std::move(effect.instances)](GangNetwork&) {
         return engine.start(id, instances);
       });
  if (job.epoch > 1) {
    around_.store_background(clearing(around_.outside.objects, around_.identity, job));
  }
}

// Whatever still runs of the attempt loses its voice and its keys first. What it has left in the
// store is looked for behind all this: a store that hangs keeps no machine and no job from its end.
void Reconciler::release(const Job& job) {
  around_.sessions.close(job.name);
  call(around_.background, job,
       [&engine = around_.outside.engine, &identity = around_.identity,
        background = around_.store_background,
        clear = clearing(around_.outside.objects, around_.identity, job), id = gang_of(job),
        epoch = job.epoch](GangNetwork&) -> Result<void> {
         if (auto revoked = identity.revoke(id.job, epoch); !revoked) {
           log_error(
               fmt::format("revoking the keys of job {}: {}", id.job, revoked.error().message));
         }
         const Result<void> released = release_gang(engine, id);
         background(clear);
         return released;
       });
}

void Reconciler::perform(Effect& effect) {
  const Active* active = find(effect.job);
  if (active == nullptr) {
    return;
  }
  const Job& job = active->job;
  Engine& engine = around_.outside.engine;
  s3::ObjectStore& objects = around_.outside.objects;
  const auto prepare = [&](const PrepareGang&) {
    const GangRequest request{
        .id = gang_of(job), .instances = job.instances, .isolated = is_isolated(job)};
    log_info(fmt::format("job {}: {}", job.name, mapping_of(job)));
    call(around_.background, job, [&engine, request](GangNetwork& network) -> Result<void> {
      YARD_TRY(network, engine.prepare(request));
      if (network.addresses.size() == static_cast<std::size_t>(request.instances)) {
        return {};
      }
      return Error{.code = Code::kInternal, .message = "the engine gave too few addresses"};
    });
  };
  const auto check = [&](const CheckSource&) {
    call(around_.store_background, job, [&objects, source = source_of(job)](GangNetwork&) {
      return source ? check_source(objects, *source) : Result<void>();
    });
  };
  const auto merge = [&](const MergeArtifacts&) {
    const bool may_lack = job.outcome && job.outcome->status != Secondary::kCompleted;
    call(around_.store_background, job, [&objects, merges = job.merges, may_lack](GangNetwork&) {
      return merge_all(objects, merges, may_lack);
    });
  };
  const auto send = [&](const Send&) {
    around_.sessions.send(effect.to, std::move(effect.commands));
  };
  std::visit(
      Overloaded{prepare, check, merge, send, [&](const StartGang&) { start_gang(job, effect); },
                 [&](const ReleaseGang&) { release(job); }, [](const auto&) {}},
      effect.action);
}

// The same whenever it is asked for, also by a server that was restarted in between; another one
// for each attempt, and for a job that takes the name of one that was deleted.
std::string Reconciler::gang_secret_of(const Job& job) const {
  return to_hex(hmac_sha256(
      around_.identity.root().secret_access_key,
      fmt::format("gang {} {} {}", job.arn, job.created.time_since_epoch().count(), job.epoch)));
}

wire::Assignment Reconciler::assignment_of(const Job& job, const std::string& host) const {
  wire::Assignment assignment;
  assignment.job_name = job.name;
  assignment.job_arn = job.arn;
  assignment.region = around_.options.region;
  assignment.account = around_.options.account;
  assignment.epoch = job.epoch;
  assignment.host = host;
  for (std::size_t i = 0; i < job.network.addresses.size(); ++i) {
    assignment.hosts.push_back(
        {.name = host_name(static_cast<int>(i)), .address = job.network.addresses[i]});
    if (assignment.hosts.back().name == host && i < job.gpus.size()) {
      assignment.gpus = job.gpus[i];
      for (const std::string& gpu : job.gpus[i]) {
        assignment.gpu_nodes.push_back(gpu_node(around_.config.machine, gpu));
      }
    }
  }
  // As the service sorts them: algo-1, algo-10, algo-2, ...
  std::sort(assignment.hosts.begin(), assignment.hosts.end(),
            [](const wire::Host& a, const wire::Host& b) { return a.name < b.name; });
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  assignment.network_interface = job.network.interface;
  assignment.request = job.request;
  assignment.python_environment = job.environment;
  assignment.server = job.network.server;
  assignment.num_cpus = std::max(1, cores / job.instances);
  assignment.log_stream = log_stream(job, host);
  assignment.stop_grace = around_.config.limits.stop_grace;
  assignment.orphan_limit = around_.config.limits.orphan;
  assignment.gang_secret = gang_secret_of(job);
  if (has_gpu_type(job)) {
    assignment.notes = {mapping_of(job)};
  }
  return assignment;
}

}  // namespace trainyard::control
