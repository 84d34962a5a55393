// SPDX-License-Identifier: Apache-2.0
// <home>/config.yaml, a NUL, and an image's name: a file is taken or refused with a reason, numbers
// are in their ranges, and looking an image up ends.
#include <string>

#include "control/config.h"
#include "testing/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace control = trainyard::control;
  std::string_view image = trainyard::fuzz::as_text(data, size);
  const std::string_view text = trainyard::fuzz::take_until(image, '\0');
  control::Config defaults{.machine = {.instances = 4}};
  defaults.environments["torch"] = "/srv/torch";
  defaults.images.push_back({"############.dkr.ecr.*.amazonaws.com*/pytorch-training", "torch"});
  const auto config = control::parse_config(text, std::move(defaults));
  if (!config) {
    YARD_CHECK(config.error().message.starts_with("config.yaml: "), "refused without the file");
    return 0;
  }
  YARD_CHECK(config->machine.instances >= 1 && config->machine.instances <= 10'000,
             "instances out of range");
  YARD_CHECK(config->limits.stop_grace.count() >= 0, "a negative grace");
  const auto environment = control::resolve_image(*config, image.substr(0, 255));
  YARD_CHECK(environment.has_value() || !environment.error().message.empty(), "no reason");
  return 0;
}
