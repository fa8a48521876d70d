// What `ebbtide plan` is asked for beside its profiles: how to weigh, what is edited, and which
// older plan to take over.
#ifndef EBBTIDE_SRC_CLI_PLAN_REQUEST_H_
#define EBBTIDE_SRC_CLI_PLAN_REQUEST_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/cli/command.h"
#include "src/plan/edits.h"
#include "src/plan/plan.h"
#include "src/plan/planner.h"
#include "src/profile/types.h"

namespace ebt::cli {

// As the command line has them; empty: not given.
struct PlanWords {
  std::string budget;  // a size
  std::string update;  // a plan
  std::vector<std::string> pins, exclusions;
  std::optional<double> alpha, beta, gamma, sigma;
  std::string shares;
  std::string device;
};

// --budget, --update, --pin, --exclude, --alpha, --beta, --gamma, --hot-sigma, --shares, --device.
void AddPlanWords(CLI::App& plan, PlanWords& words);

struct PlanRequest {
  plan::PlanOptions options;
  std::optional<plan::Plan> old;
  plan::Update update;      // what the older plan hands on
  std::string device_note;  // whose speeds times are predicted with, where that is not plain
};

// What the older plan says, and over it what the command line does. several_ranks: the profile is
// one of several that work together. The error is one line that names what is wrong.
absl::StatusOr<PlanRequest> ReadPlanRequest(const PlanWords& words, const profile::Profile& profile,
                                            bool several_ranks);

}  // namespace ebt::cli

#endif  // EBBTIDE_SRC_CLI_PLAN_REQUEST_H_
