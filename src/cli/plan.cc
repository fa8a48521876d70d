// `ebbtide plan`: a profile becomes a plan, and the other ranks' profiles are compared with it.
#include "src/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/base/log.h"
#include "src/base/units.h"
#include "src/cli/options.h"
#include "src/cli/progress.h"
#include "src/plan/device.h"
#include "src/plan/edits.h"
#include "src/plan/explain.h"
#include "src/plan/hotness.h"
#include "src/plan/plan_file.h"
#include "src/plan/planner.h"
#include "src/plan/ranks.h"
#include "src/plan/summary_json.h"
#include "src/plan/validator.h"
#include "src/profile/metadata.h"
#include "src/profile/reader.h"
#include "src/report/explain_table.h"
#include "src/report/plan_table.h"
#include "src/report/rank_table.h"

namespace ebt::cli {
namespace {

struct PlanCommandOptions {
  std::vector<std::string> profiles;
  std::string budget;
  std::string output;
  bool json = false;
  std::string explain;
  std::string update;
  std::vector<std::string> pins, exclusions;
  std::optional<double> alpha, beta, gamma, sigma;
  std::string shares;
  std::string device;
};

// What is planned, and what the other recordings are to it.
struct Recordings {
  std::string source;
  profile::Profile profile;
  std::optional<plan::RankSurvey> survey;  // where several were given

  const plan::RankSurvey* Survey() const { return survey ? &*survey : nullptr; }
};

std::string DefaultOutput(const std::string& profile) {
  return std::string(absl::StripSuffix(profile, ".ebp")) + ".plan.json";
}

// Part of the one line that comes at the end, whichever that is.
std::string CutNote(const profile::Profile& profile, const std::string& path) {
  return profile.truncated
             ? fmt::format(" ({} ends early: the process was killed, or the file cut)", path)
             : "";
}

absl::Status Named(const std::string& path, const absl::Status& status,
                   const profile::Profile& profile) {
  return absl::InvalidArgumentError(
      fmt::format("{}: {}{}", path, Message(status), CutNote(profile, path)));
}

// Reads one recording after the other and keeps whole only the one that is to be planned: those of
// a large job do not fit into memory together. What cannot be compared does not lose the rest.
class RankReader {
 public:
  void Read(const std::string& path) {
    absl::StatusOr<profile::Profile> profile = profile::ReadProfile(path);
    if (!profile.ok()) return LeaveOut(path, profile.status());
    absl::StatusOr<plan::RankRecording> recording = plan::SummarizeRank(*profile, path);
    if (!recording.ok()) return LeaveOut(path, Named(path, recording.status(), *profile));
    if (recordings_.empty() || !plan::PlannedBefore(planned_, recording->rank)) {
      planned_ = recording->rank;
      profile_ = *std::move(profile);
    }
    recordings_.push_back(*std::move(recording));
  }

  // Nothing where none of them can be planned.
  std::optional<Recordings> Take() {
    if (recordings_.empty()) return std::nullopt;
    plan::RankSurvey survey = plan::SurveyRanks(std::move(recordings_));
    survey.unread = std::move(left_out_);
    return Recordings{planned_.source, std::move(profile_), std::move(survey)};
  }

  const std::vector<plan::RankSurvey::Unread>& left_out() const { return left_out_; }

 private:
  void LeaveOut(const std::string& path, const absl::Status& status) {
    left_out_.push_back({path, std::string(Message(status))});
  }

  plan::Rank planned_;
  profile::Profile profile_;  // of planned_
  std::vector<plan::RankRecording> recordings_;
  std::vector<plan::RankSurvey::Unread> left_out_;
};

// Every recording that is left out has had its line when this returns.
absl::StatusOr<Recordings> ReadRecordings(const std::vector<std::string>& paths) {
  Progress progress("reading " + paths.front());
  if (paths.size() == 1) {
    absl::StatusOr<profile::Profile> profile = profile::ReadProfile(paths.front());
    if (!profile.ok()) return profile.status();
    return Recordings{paths.front(), *std::move(profile), std::nullopt};
  }
  RankReader reader;
  for (const std::string& path : paths) {
    progress.Show("reading " + path);
    reader.Read(path);
  }
  progress.Done();
  for (const auto& left_out : reader.left_out()) {
    Log(LogLevel::kError, "left out: {}", left_out.reason);
  }
  std::optional<Recordings> recordings = reader.Take();
  if (!recordings) return absl::InvalidArgumentError("none of the profiles can be planned");
  return *std::move(recordings);
}

// "15/70/15": of the budget that hot, warm and cold blocks have, in per cent. The cold ones get
// what is left over, so theirs may be left out.
absl::Status ReadShares(const std::string& text, plan::PlanOptions* options) {
  const std::vector<std::string> parts = absl::StrSplit(text, '/');
  double sum = 0;
  std::vector<double> shares;
  for (const std::string& part : parts) {
    double percent = 0;
    const bool number = absl::SimpleAtod(part, &percent) && std::isfinite(percent);
    if (!number || percent < 0) break;
    sum += percent;
    shares.push_back(percent / 100);
  }
  const bool all = shares.size() == parts.size() && (parts.size() == 2 || parts.size() == 3);
  if (!all || sum > 100 + 1e-9 || (parts.size() == 3 && sum < 100 - 1e-9)) {
    return absl::InvalidArgumentError(
        fmt::format("--shares {}: not HOT/WARM/COLD, three numbers that are 100 in all", text));
  }
  options->hot_share = shares[0];
  options->warm_share = shares[1];
  return absl::OkStatus();
}

absl::Status AddEdits(const PlanCommandOptions& given, const std::vector<plan::Site>& sites,
                      plan::PlanOptions* options) {
  for (const std::string& pin : given.pins) {
    if (absl::Status status = plan::AddPin(sites, pin, options); !status.ok()) {
      return absl::InvalidArgumentError(fmt::format("--pin {}: {}", pin, Message(status)));
    }
  }
  for (const std::string& site : given.exclusions) {
    if (absl::Status status = plan::AddExclusion(sites, site, options); !status.ok()) {
      return absl::InvalidArgumentError(fmt::format("--exclude {}: {}", site, Message(status)));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadDevice(const PlanCommandOptions& given, const Recordings& recordings,
                        plan::PlanOptions* options, std::string* note) {
  if (given.device.empty()) {
    options->device = plan::DeviceOfGpu(profile::Text(recordings.profile, "gpu"), note).speeds;
    return absl::OkStatus();
  }
  const auto device = plan::FindDevice(given.device);
  if (!device.ok()) return device.status();
  options->device = device->speeds;
  return absl::OkStatus();
}

// What is planned with, and what comes of an older plan.
struct Request {
  plan::PlanOptions options;
  std::optional<plan::Plan> old;
  plan::Update update;
  std::string device_note;  // whose figures times are predicted with, where that is not plain
};

absl::Status ReadOld(const PlanCommandOptions& given, const std::vector<plan::Site>& sites,
                     Request* request) {
  if (given.update.empty()) return absl::OkStatus();
  absl::StatusOr<plan::Plan> old = plan::ReadPlan(given.update);
  if (!old.ok()) return old.status();
  if (const absl::Status sense = plan::CheckPlan(*old); !sense.ok()) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", given.update, Message(sense)));
  }
  request->update = plan::TakeOver(*old, sites, &request->options);
  request->old = *std::move(old);
  return absl::OkStatus();
}

// The older plan's first, then what the command line says.
absl::StatusOr<Request> ReadRequest(const PlanCommandOptions& given, const Recordings& recordings) {
  Request request;
  plan::PlanOptions& options = request.options;
  options.source = recordings.source;
  options.weights = plan::DefaultWeights(recordings.profile,
                                         recordings.survey && !recordings.survey->others.empty());
  if (absl::Status status = ReadDevice(given, recordings, &options, &request.device_note);
      !status.ok())
    return status;
  const std::vector<plan::Site> sites = plan::RecordedSites(recordings.profile);
  if (absl::Status status = ReadOld(given, sites, &request); !status.ok()) return status;
  if (!given.budget.empty()) {
    options.budget = *ParseSize(given.budget);
    request.update.budget = 0;
  }
  options.weights.forward = given.alpha.value_or(options.weights.forward);
  options.weights.backward = given.beta.value_or(options.weights.backward);
  options.weights.coupling = given.gamma.value_or(options.weights.coupling);
  options.hot_threshold = given.sigma.value_or(options.hot_threshold);
  if (!given.shares.empty()) {
    if (absl::Status status = ReadShares(given.shares, &options); !status.ok()) return status;
  }
  if (absl::Status status = AddEdits(given, sites, &options); !status.ok()) return status;
  return request;
}

// A plan that keeps every rule; one that is not feasible is not checked.
absl::StatusOr<plan::PlanResult> MakeCheckedPlan(const Recordings& recordings,
                                                 const plan::PlanOptions& options) {
  Progress progress("planning");
  absl::StatusOr<plan::PlanResult> result = plan::MakePlan(recordings.profile, options);
  if (!result.ok()) return Named(recordings.source, result.status(), recordings.profile);
  if (!result->summary.feasible) return result;
  progress.Show("checking");
  const absl::Status status = plan::ValidatePlan(recordings.profile, result->plan);
  if (status.ok()) return result;
  return absl::InternalError(
      fmt::format("the plan broke a rule and was not written: {}; please report it with {}",
                  Message(status), recordings.source));
}

int ExplainSite(const PlanCommandOptions& given, const Recordings& recordings,
                const plan::PlanOptions& options, const plan::PlanResult& result) {
  const auto site = plan::FindSite(plan::RecordedSites(recordings.profile), given.explain);
  if (!site.ok()) return Fail(site.status());
  const auto explanation = plan::Explain(recordings.profile, options, result, *site);
  if (!explanation.ok()) return Fail(explanation.status());
  fmt::print("{}{}",
             given.json ? report::ExplainJson(*explanation) : report::ExplainTable(*explanation),
             given.json ? "\n" : "");
  std::fflush(stdout);
  return 0;
}

void PrintResult(const plan::PlanResult& result, const plan::RankSurvey* survey,
                 const std::string& device_note, bool json) {
  if (json) {
    fmt::print("{}\n", plan::SummaryJson(result.summary, survey));
  } else {
    fmt::print("{}{}{}{}", report::PlanTable(result), device_note, device_note.empty() ? "" : "\n",
               survey == nullptr ? "" : report::RankTable(*survey));
  }
  std::fflush(stdout);
}

// An error where `output` is one of the profiles.
absl::Status CheckOutput(const std::string& output, const std::vector<std::string>& profiles) {
  for (const std::string& profile : profiles) {
    std::error_code error;
    if (!std::filesystem::equivalent(output, profile, error)) continue;
    return absl::InvalidArgumentError(
        fmt::format("{} is the profile: name another file for the plan", output));
  }
  return absl::OkStatus();
}

// Where the plan goes: what is updated is replaced unless another file is named.
std::string OutputOf(const PlanCommandOptions& options, const Recordings& recordings) {
  if (!options.output.empty()) return options.output;
  return options.update.empty() ? DefaultOutput(recordings.source) : options.update;
}

int MakeAndWrite(const PlanCommandOptions& options) {
  const absl::StatusOr<Recordings> recordings = ReadRecordings(options.profiles);
  if (!recordings.ok()) return Fail(recordings.status());
  absl::StatusOr<Request> request = ReadRequest(options, *recordings);
  if (!request.ok()) return Fail(request.status());
  auto result = MakeCheckedPlan(*recordings, request->options);
  if (!result.ok()) return Fail(result.status());
  if (!options.explain.empty()) {
    return ExplainSite(options, *recordings, request->options, *result);
  }
  PrintResult(*result, recordings->Survey(), request->device_note, options.json);
  const std::string cut = CutNote(recordings->profile, recordings->source);
  if (!result->summary.feasible) {
    return Fail(absl::FailedPreconditionError(
        fmt::format("no plan was written: {}{}", result->summary.infeasible_reason, cut)));
  }
  const std::string output = OutputOf(options, *recordings);
  if (absl::Status status = CheckOutput(output, options.profiles); !status.ok()) {
    return Fail(status);
  }
  if (request->old) {
    plan::KeepClearances(*request->old, &result->plan, &request->update);
    Log(LogLevel::kWarning, "{}", plan::UpdateText(request->update, options.update));
  }
  if (absl::Status status = plan::WritePlan(result->plan, output); !status.ok()) {
    return Fail(status);
  }
  const char* const verify = result->plan.slabs.empty() ? "" : "ebbtide verify --plan ";
  Log(LogLevel::kWarning, "wrote {}{}; next: {}{}ebbtide run --plan {} -- CMD...", output, cut,
      verify, *verify == '\0' ? "" : output + " -- CMD..., then ", output);
  return 0;
}

void AddEditOptions(CLI::App& plan, PlanCommandOptions& options) {
  plan.add_option("--explain", options.explain,
                  "Say why each block of a site lies where it lies, and write no plan; SITE is its "
                  "number (0x…) or a part of its label")
      ->type_name("SITE");
  plan.add_option("--update", options.update,
                  "Take over the budget, weights, pins, exclusions and clearances of this plan "
                  "where they are not given anew; it is replaced unless -o names another")
      ->type_name("PLAN");
  plan.add_option("--pin", options.pins,
                  "Where a site's blocks lie: hot, warm or cold; none lifts an older edit")
      ->type_name("SITE=TIER")
      ->expected(1)
      ->take_all();
  plan.add_option("--exclude", options.exclusions, "Leave a site's blocks to the driver")
      ->type_name("SITE")
      ->expected(1)
      ->take_all();
}

void AddHotnessOptions(CLI::App& plan, PlanCommandOptions& options) {
  const auto add = [&](const char* name, std::optional<double>& number, const char* help) {
    plan.add_option(name, number, help)->type_name("X")->check([](const std::string& text) {
      double value = 0;
      const bool good = absl::SimpleAtod(text, &value) && std::isfinite(value);
      return good ? "" : fmt::format("{} is not a number", text);
    });
  };
  add("--alpha", options.alpha, "Heat of a touch in forward (default: 1)");
  add("--beta", options.beta, "Heat of a touch behind it (default: 2)");
  add("--gamma", options.gamma,
      "Heat of being touched together with hot blocks (default: 1; of several devices 4)");
  add("--hot-sigma", options.sigma,
      "Standard deviations above the mean heat from which a block is hot (default: 0.5)");
  plan.add_option("--shares", options.shares,
                  "Of the budget for hot, warm and cold blocks, in per cent (default: 15 for hot "
                  "ones, and the budget decides)")
      ->type_name("H/W/C");
}

}  // namespace

void AddPlan(Invocation& invocation) {
  auto options = std::make_shared<PlanCommandOptions>();
  CLI::App* plan =
      invocation.app.add_subcommand("plan", "Turn a profile into a plan, and say what it promises");
  SetSynopsis(plan,
              "PROFILE... [--budget SIZE] [--device NAME] [--update PLAN] [--pin SITE=TIER] "
              "[--exclude SITE]\n"
              "                    [--alpha X] [--beta X] [--gamma X] [--hot-sigma X] "
              "[--shares H/W/C]\n"
              "                    [-o FILE] [--json]\n"
              "       ebbtide plan PROFILE... --explain SITE [--json]");
  plan->add_option("PROFILE", options->profiles,
                   "Profiles written by `ebbtide record`: one, or those of a job's ranks")
      ->required();
  AddSizeOption(plan, "--budget", &options->budget,
                "Device memory that the process may use, everything included (default: no limit)");
  plan->add_option("--device", options->device,
                   "Device that times are predicted for: a name such as h200, or a description "
                   "written by `ebbtide doctor --measure` (default: the recorded GPU)")
      ->type_name("NAME|FILE");
  plan->add_option("-o,--output", options->output,
                   "Plan to write (default: the planned PROFILE with .plan.json for .ebp)")
      ->type_name("FILE");
  plan->add_flag("--json", options->json, "Print the summary as one JSON object");
  AddEditOptions(*plan, *options);
  AddHotnessOptions(*plan, *options);
  plan->footer(
      "Of several profiles (job.*.ebp) the lowest rank's is planned, of equal or unknown ranks "
      "the\n"
      "first one given; the plan serves all, and the others are compared with it. One that cannot\n"
      "be read or has no step is named and left out.\n"
      "Exit code: 0 when a plan was written; 125 when no profile can be planned or the budget "
      "cannot be met.");
  plan->callback([&invocation, options] {
    if (invocation.has_command) throw CLI::ExtrasError({"--"});
    invocation.action = [options] { return MakeAndWrite(*options); };
  });
}

}  // namespace ebt::cli
