// SPDX-License-Identifier: Apache-2.0
#include "control/operations/training_jobs.h"

#include <thread>

#include <fmt/format.h>

#include "api/arn.h"
#include "control/job/job_state.h"
#include "control/operations/describe_job.h"
#include "control/operations/requests.h"
#include "control/operations/update_job.h"
#include "control/search/search.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

// Lets those write that wait for it: a mutex that is taken again at once is often got again.
constexpr Duration kBetweenDeletes{2};

Error not_found(std::string_view name) {
  return {.code = Code::kNotFound,
          .message = fmt::format("There is no training job '{}'.", name),
          .subject = "training-job"};
}

// A job that can be deleted.
Result<Job> find_ended(Connection& connection, const std::string& name) {
  YARD_TRY(auto job, find_job(connection, name));
  if (!job) {
    return not_found(name);
  }
  if (job->stage != Stage::kDone) {
    return Error{.code = Code::kConflict,
                 .message = fmt::format("The training job {} is {}: only jobs that have ended can "
                                        "be deleted.",
                                        job->arn, status_name(job->secondary))};
  }
  return std::move(*job);
}

}  // namespace

Result<json> TrainingJobs::call(std::string_view operation, const json& input) {
  using Operation = Result<json> (TrainingJobs::*)(const json&);
  static constexpr std::pair<std::string_view, Operation> kOperations[] = {
      {"CreateTrainingJob", &TrainingJobs::create},
      {"DescribeTrainingJob", &TrainingJobs::describe},
      {"ListTrainingJobs", &TrainingJobs::list},
      {"Search", &TrainingJobs::search},
      {"StopTrainingJob", &TrainingJobs::stop},
      {"SignalTrainingJob", &TrainingJobs::signal},
      {"UpdateTrainingJob", &TrainingJobs::update},
      {"DeleteTrainingJob", &TrainingJobs::remove},
      {"AddTags", &TrainingJobs::add_tags},
      {"ListTags", &TrainingJobs::list_tags},
      {"DeleteTags", &TrainingJobs::delete_tags_of}};
  for (const auto& [name, function] : kOperations) {
    if (name == operation) {
      return (this->*function)(input);
    }
  }
  return Error{.code = Code::kUnimplemented,
               .message = fmt::format("The operation {} is not served by Trainyard.", operation),
               .subject = "operation"};
}

Result<Job> TrainingJobs::require(const std::string& name) {
  YARD_TRY(auto job, around_.database.read(
                         [&](Connection& connection) { return find_job(connection, name); }));
  if (!job) {
    return not_found(name);
  }
  return std::move(*job);
}

Result<json> TrainingJobs::create(const json& input) {
  YARD_TRY(Job job, new_job(input));
  YARD_TRY(fit(job));
  YARD_TRY(input_exists(input));
  YARD_TRY(output_exists(input));
  YARD_TRY(store_new(job, tags_in(input)));
  // Refused only when the server stops; the job is stored, and the next start takes it up.
  events_.push(JobCreated{.name = job.name});
  return json{{"TrainingJobArn", job.arn}};
}

Result<Job> TrainingJobs::new_job(const json& input) {
  const std::string image = text_in(input, {"AlgorithmSpecification", "TrainingImage"});
  YARD_TRY(const std::string environment, resolve_image(around_.config, image));
  Job job;
  job.name = text_in(input, {"TrainingJobName"});
  job.arn = api::training_job_arn(around_.options.region, around_.options.account, job.name);
  job.request = input;
  job.instances = static_cast<int>(number_in(input, {"ResourceConfig", "InstanceCount"}, 1));
  YARD_TRY(job.environment, environment_directory(around_.config, environment));
  begin(job, with_warning("Starting the training job", job), around_.outside.clock.now());
  return job;
}

Result<void> TrainingJobs::fit(Job& job) {
  const Machine& machine = around_.config.machine;
  auto gpus = fit_to_machine(job, machine, 0);
  if (!gpus) {
    YARD_TRY(const int in_use, instances_in_use());
    return fit_to_machine(job, machine, in_use).error();
  }
  job.gpus_per_instance = *gpus;
  return {};
}

Result<int> TrainingJobs::instances_in_use() {
  YARD_TRY(const std::vector<Job> jobs, around_.database.read(unfinished_jobs));
  int count = 0;
  for (const Job& job : jobs) {
    count += holds_capacity(job.stage) ? job.instances : 0;
  }
  return count;
}

Result<void> TrainingJobs::input_exists(const json& request) {
  const std::string role = text_in(request, {"RoleArn"});
  for (const std::string& uri : input_prefixes(request)) {
    YARD_TRY(const s3::Uri place, s3::parse_uri(uri));
    const auto page = around_.outside.objects.list(place.bucket, {.prefix = place.key, .limit = 1});
    if (!page && page.error().code != Code::kNotFound) {
      return page.error().in("looking for " + uri);
    }
    if (!page || page->objects.empty()) {
      return Error{
          .code = Code::kInvalidArgument,
          .message = fmt::format(
              "No S3 objects found under S3 URL \"{}\" given in input data source. {} Check that "
              "the role \"{}\" may list the bucket \"{}\" (s3:ListBucket).",
              uri,
              page ? "The bucket exists, but no key in it has this prefix."
                   : fmt::format("The bucket does not exist in region {}.", around_.options.region),
              role, place.bucket)};
    }
  }
  return {};
}

// A training of hours must not end with nowhere to put its model.
Result<void> TrainingJobs::output_exists(const json& request) {
  const std::string path = text_in(request, {"OutputDataConfig", "S3OutputPath"});
  YARD_TRY(const s3::Uri place, s3::parse_uri(path));
  auto bucket = around_.outside.objects.head_bucket(place.bucket);
  if (bucket || bucket.error().code != Code::kNotFound) {
    return bucket;
  }
  return Error{.code = Code::kInvalidArgument,
               .message = fmt::format("The bucket \"{}\" of the output path \"{}\" does not exist "
                                      "in region {}.",
                                      place.bucket, path, around_.options.region)};
}

Result<void> TrainingJobs::store_new(Job& job, const std::vector<Tag>& tags) {
  auto stored = around_.database.write([&](Connection& connection) -> Result<void> {
    YARD_TRY(insert_job(connection, job));
    for (const Tag& tag : tags) {
      YARD_TRY(put_tag(connection, job.arn, tag));
    }
    return {};
  });
  if (!stored && stored.error().code == Code::kAlreadyExists) {
    return Error{.code = Code::kAlreadyExists,
                 .message = fmt::format("Training job names must be unique within an account and "
                                        "region. '{}' exists already: {}",
                                        job.name, job.arn)};
  }
  return stored;
}

Result<json> TrainingJobs::describe(const json& input) {
  const std::string name = text_in(input, {"TrainingJobName"});
  std::optional<JobRow> row;
  std::vector<Series> metrics;
  const auto read = [&](Connection& connection) -> Result<void> {
    YARD_TRY(row, find_row(connection, name));
    if (row) {
      YARD_TRY(metrics, series_of(connection, name));
    }
    return {};
  };
  YARD_TRY(around_.database.read(read));
  if (!row) {
    return not_found(name);
  }
  YARD_TRY(const std::shared_ptr<const Job> job, parsed_.parse(*std::move(row)));
  return describe_job(*job, metrics);
}

Result<json> TrainingJobs::list(const json& input) {
  YARD_TRY(JobQuery query, list_query(input));
  const std::int64_t page = query.limit;
  ++query.limit;  // one more tells whether there is more
  YARD_TRY(std::vector<JobSummary> jobs, around_.database.read([&](Connection& connection) {
    return list_jobs(connection, query);
  }));
  json out = {{"TrainingJobSummaries", json::array()}};
  const bool has_more = static_cast<std::int64_t>(jobs.size()) > page;
  if (has_more) {
    jobs.pop_back();
    out["NextToken"] = list_token(input, jobs.back());
  }
  for (const JobSummary& job : jobs) {
    out["TrainingJobSummaries"].push_back(summary_json(job));
  }
  return out;
}

Result<json> TrainingJobs::search(const json& input) {
  return search_jobs(around_.database, input);
}

Result<json> TrainingJobs::stop(const json& input) {
  const std::string name = text_in(input, {"TrainingJobName"});
  YARD_TRY(const Job job, require(name));
  if (job.stage != Stage::kDone) {
    const auto stopped = reconciler_.stop_job(name);
    if (stopped) {
      return json::object();
    }
    if (stopped.error().code != Code::kNotFound) {
      return stopped.error();
    }
  }
  // It has ended, perhaps while we asked.
  YARD_TRY(const Job ended, require(name));
  return Error{.code = Code::kConflict,
               .message = fmt::format("The training job '{}' cannot be stopped: it is {} already.",
                                      name, status_name(ended.secondary))};
}

Result<json> TrainingJobs::signal(const json& input) {
  const std::string name = text_in(input, {"TrainingJobName"});
  const auto signal = wire::user_signal(text_in(input, {"Signal"}));
  if (!signal) {
    return Error{.code = Code::kInvalidArgument, .message = "Signal is USR1 or USR2."};
  }
  YARD_TRY(const Job job, require(name));
  auto told = reconciler_.signal_job(name, *signal);
  if (told || told.error().code != Code::kNotFound) {
    YARD_TRY(const std::vector<std::string> hosts, std::move(told));
    return json{{"Hosts", hosts}};
  }
  YARD_TRY(const Job ended, require(name));
  return Error{.code = Code::kConflict,
               .message = fmt::format("{} cannot be sent to the training job '{}': it is {}.",
                                      wire::name_of(*signal), name, status_name(ended.secondary))};
}

Result<json> TrainingJobs::update(const json& input) {
  const std::string name = text_in(input, {"TrainingJobName"});
  std::string arn;
  const auto change = [&](Connection& connection) -> Result<void> {
    YARD_TRY(auto job, find_job(connection, name));
    if (!job) {
      return not_found(name);
    }
    YARD_TRY(job->request, updated_request(*job, input));
    job->modified = std::max(job->modified, around_.outside.clock.now());
    arn = job->arn;
    return update_request(connection, *job);
  };
  YARD_TRY(around_.database.write(change));
  return json{{"TrainingJobArn", arn}};
}

Result<json> TrainingJobs::remove(const json& input) {
  const std::string name = text_in(input, {"TrainingJobName"});
  YARD_TRY(
      around_.database.read([&](Connection& connection) { return find_ended(connection, name); }));
  while (true) {  // an ended job gets no more
    YARD_TRY(const bool more, around_.database.write([&](Connection& connection) {
      return delete_some_points(connection, name);
    }));
    if (!more) {
      break;
    }
    std::this_thread::sleep_for(kBetweenDeletes);
  }
  const auto remove_ended = [&](Connection& connection) -> Result<void> {
    YARD_TRY(const Job job, find_ended(connection, name));
    YARD_TRY(delete_tags(connection, job.arn));
    return delete_job(connection, name);
  };
  YARD_TRY(around_.database.write(remove_ended));
  return json::object();
}

Result<json> TrainingJobs::add_tags(const json& input) {
  constexpr std::size_t kMostTags = 50;
  const std::string arn = text_in(input, {"ResourceArn"});
  YARD_TRY(const std::string name, api::job_name_of(arn));
  const std::vector<Tag> tags = tags_in(input);
  std::vector<Tag> all;
  const auto add = [&](Connection& connection) -> Result<void> {
    YARD_TRY(const auto job, find_job(connection, name));
    if (!job || job->arn != arn) {
      return not_found(name);
    }
    for (const Tag& tag : tags) {
      YARD_TRY(put_tag(connection, arn, tag));
    }
    YARD_TRY(all, tags_of(connection, arn));
    if (all.size() > kMostTags) {
      return Error{.code = Code::kExhausted,
                   .message = fmt::format("{} would have {} tags; the limit is {}.", arn,
                                          all.size(), kMostTags)};
    }
    return {};
  };
  YARD_TRY(around_.database.write(add));
  return json{{"Tags", tags_json(all)}};
}

Result<json> TrainingJobs::list_tags(const json& input) {
  const std::string arn = text_in(input, {"ResourceArn"});
  YARD_TRY(const std::string name, api::job_name_of(arn));
  YARD_TRY(const Job job, require(name));
  YARD_TRY(const std::vector<Tag> tags, around_.database.read([&](Connection& connection) {
    return tags_of(connection, job.arn);
  }));
  return json{{"Tags", tags_json(tags)}};  // at most 50: always one page
}

Result<json> TrainingJobs::delete_tags_of(const json& input) {
  const std::string arn = text_in(input, {"ResourceArn"});
  YARD_TRY(const std::string name, api::job_name_of(arn));
  YARD_TRY(const Job job, require(name));
  const auto remove_all = [&](Connection& connection) -> Result<void> {
    for (const std::string& key : tag_keys_in(input)) {
      YARD_TRY(delete_tag(connection, job.arn, key));
    }
    return {};
  };
  YARD_TRY(around_.database.write(remove_all));
  return json::object();
}

}  // namespace trainyard::control
