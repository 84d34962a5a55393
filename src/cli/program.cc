// SPDX-License-Identifier: Apache-2.0
#include "cli/program.h"

#include <algorithm>

#include "base/check.h"

namespace trainyard::cli {
namespace {

constexpr ProgramVerb kVerbs[] = {
    {"server", "[--home DIR] [--listen ADDRESS:PORT]", "Serve the API and run the jobs"},
    {"store", "[import DIR s3://BUCKET/PREFIX]", "Serve objects alone, or put files into a store"},
    {"certificate", "", "Make a certificate for https"},
    {"backup", "BACKUP", "Copy the server's home, also while it runs"},
    {"restore", "BACKUP", "Make a home from a backup"},
    {"check", "[DIR]", "Look for damage in a home or a backup"},
    {"doctor", "", "Say whether this machine is fit for training"},
    {"submit", "job.yaml", "Start a training job from a YAML or JSON file"},
    {"list", "", "Show training jobs, the newest first"},
    {"describe", "NAME", "Show everything about one training job"},
    {"logs", "[-f] NAME", "Show what a job's instances have printed"},
    {"why", "NAME", "Explain why a job failed, waits or was restarted, in five lines"},
    {"stop", "NAME", "Stop a training job; what it saved is kept"},
    {"signal", "NAME USR1|USR2", "Send a signal to every process of a job that expects it"},
    {"delete", "NAME", "Forget a training job that has ended; its log and its results stay"},
    {"instance", "", "One instance of a job; the server starts it, nobody else"},
    {"help", "[VERB]", "Explain one verb, or name them all"},
};

std::string usage_line(const ProgramVerb& verb) {
  constexpr std::size_t kColumn = 54;
  std::string line = "  trainyard " + std::string(verb.name);
  line += verb.usage.empty() ? "" : " " + std::string(verb.usage);
  line.resize(std::max(kColumn, line.size() + 2), ' ');
  return line + std::string(verb.purpose) + "\n";
}

}  // namespace

std::span<const ProgramVerb> program_verbs() {
  return kVerbs;
}

std::vector<std::string_view> verb_names() {
  std::vector<std::string_view> names;
  for (const ProgramVerb& verb : kVerbs) {
    names.push_back(verb.name);
  }
  return names;
}

std::string_view purpose_of(std::string_view verb) {
  const auto* const found = std::ranges::find(kVerbs, verb, &ProgramVerb::name);
  YARD_CHECK(found != std::end(kVerbs), "the verb is in the table");
  return found->purpose;
}

std::string program_help() {
  std::string text = "Trainyard runs SageMaker training jobs on your own machines.\n\n";
  for (const ProgramVerb& verb : kVerbs) {
    text += usage_line(verb);
  }
  return text +
         "\nEach verb explains itself with --help. Clients of AWS work too: point AWS_ENDPOINT_URL "
         "at the\nserver and use the keys in its home directory.\n";
}

}  // namespace trainyard::cli
