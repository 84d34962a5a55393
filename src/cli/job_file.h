// SPDX-License-Identifier: Apache-2.0
// A job's file as a CreateTrainingJob request. JSON is taken as it is, as aws takes it; members
// that the model does not know are refused in both, with the name that was probably meant. YAML is
// read by the model's types, not by YAML's guesses: a member that the model calls a string gets the
// text that stands in the file (`lr: 0.10` is "0.10", `country: no` is "no", `version: 1e3` is
// "1e3"). Lists and objects as hyperparameters become JSON text. yaml-cpp stays inside job_file.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"
#include "base/result.h"

namespace trainyard::cli {

// The errors name line and column, or the member. JSON is a part of YAML: `is_json` only decides
// whether numbers may stand for strings.
Result<nlohmann::json> parse_job(std::string_view text, bool is_json);

// A whole job in YAML, for help.
std::string_view sample_job();

// Puts "key=value" pairs into HyperParameters; later ones win.
Result<void> set_hyperparameters(nlohmann::json& job, const std::vector<std::string>& pairs);

// A legal job name made from the image's name and the time: "x.y/my_img:latest" gives
// "my-img-2026-11-29-20-12-05-123".
std::string make_job_name(std::string_view image, WallTime now);

}  // namespace trainyard::cli
