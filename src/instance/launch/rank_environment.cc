// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/rank_environment.h"

#include "base/text.h"
#include "instance/launch/request.h"

namespace trainyard::instance {
namespace {

Result<int> number_in(const Variables& environment, const std::string& name) {
  const auto found = environment.find(name);
  const Result<std::int64_t> number =
      parse_int(found == environment.end() ? std::string_view() : found->second);
  if (!number) {
    return Error{Code::kInvalidArgument, name + " is not set: not started by mpirun"};
  }
  return static_cast<int>(*number);
}

}  // namespace

Variables rank_variables(const RankPlace& place) {
  return {{"RANK", std::to_string(place.rank)},
          {"LOCAL_RANK", std::to_string(place.local_rank)},
          {"WORLD_SIZE", std::to_string(place.world)},
          {"LOCAL_WORLD_SIZE", std::to_string(place.local_world)},
          {"GROUP_RANK", std::to_string(place.node)},
          {"GROUP_WORLD_SIZE", std::to_string(place.nodes)},
          {"NODE_RANK", std::to_string(place.node)}};
}

Variables smddp_variables(const wire::Assignment& assignment) {
  const auto& hosts = assignment.hosts;
  const char* shape =
      hosts.size() > 1 ? "SMDATAPARALLEL_USE_HOMOGENEOUS" : "SMDATAPARALLEL_USE_SINGLENODE";
  return {{shape, "1"},
          {"SMDATAPARALLEL_SERVER_ADDR", hosts.empty() ? "localhost" : hosts.front().name},
          {"SMDATAPARALLEL_SERVER_PORT", "7592"},
          {"SAGEMAKER_INSTANCE_TYPE", instance_type(assignment.request)}};
}

Result<RankPlace> place_under_mpi(const Variables& environment) {
  RankPlace place;
  YARD_TRY(place.rank, number_in(environment, "OMPI_COMM_WORLD_RANK"));
  YARD_TRY(place.local_rank, number_in(environment, "OMPI_COMM_WORLD_LOCAL_RANK"));
  YARD_TRY(place.world, number_in(environment, "OMPI_COMM_WORLD_SIZE"));
  YARD_TRY(place.local_world, number_in(environment, "OMPI_COMM_WORLD_LOCAL_SIZE"));
  return place;
}

}  // namespace trainyard::instance
