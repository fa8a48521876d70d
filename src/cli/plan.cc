// `ebbtide plan`: a profile becomes a plan, and the other ranks' profiles are compared with it.
#include "src/plan/plan.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>

#include "absl/strings/strip.h"
#include "src/base/log.h"
#include "src/base/units.h"
#include "src/cli/options.h"
#include "src/cli/plan_request.h"
#include "src/cli/profiles.h"
#include "src/cli/progress.h"
#include "src/plan/edits.h"
#include "src/plan/explain.h"
#include "src/plan/plan_file.h"
#include "src/plan/planner.h"
#include "src/plan/ranks.h"
#include "src/plan/summary_json.h"
#include "src/plan/validator.h"
#include "src/profile/reader.h"
#include "src/report/explain_table.h"
#include "src/report/plan_table.h"
#include "src/report/rank_table.h"

namespace ebt::cli {
namespace {

struct PlanCommandOptions {
  std::vector<std::string> profiles;
  std::string output;
  bool json = false;
  std::string explain;
  PlanWords words;
};

// What is planned, and what the other recordings are to it.
struct Recordings {
  std::string source;
  profile::Profile profile;
  std::optional<plan::RankSurvey> survey;  // where several were given

  const plan::RankSurvey* Survey() const { return survey ? &*survey : nullptr; }
  bool SeveralRanks() const { return survey && !survey->others.empty(); }
};

std::string DefaultOutput(const std::string& profile) {
  return std::string(absl::StripSuffix(profile, ".ebp")) + ".plan.json";
}

// Part of the one line that comes at the end, whichever that is.
std::string CutRemark(const profile::Profile& profile, const std::string& path) {
  const std::string note = CutNote(profile, path);
  return note.empty() ? "" : fmt::format(" ({})", note);
}

absl::Status Named(const std::string& path, const absl::Status& status,
                   const profile::Profile& profile) {
  return absl::InvalidArgumentError(
      fmt::format("{}: {}{}", path, Message(status), CutRemark(profile, path)));
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

int PrintExplanation(const plan::Explanation& explanation, bool json) {
  if (json) {
    fmt::print("{}\n", report::ExplainJson(explanation));
  } else {
    fmt::print("{}", report::ExplainTable(explanation));
  }
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

// An error where `output` is one of the profiles, or cannot be written.
absl::Status CheckOutput(const std::string& output, const std::vector<std::string>& profiles) {
  for (const std::string& profile : profiles) {
    std::error_code error;
    if (!std::filesystem::equivalent(output, profile, error)) continue;
    return absl::InvalidArgumentError(
        fmt::format("{} is the profile: name another file for the plan", output));
  }
  return CheckOutputFile(output);
}

// Where the plan goes: what is updated is replaced unless another file is named.
std::string OutputOf(const PlanCommandOptions& options, const Recordings& recordings) {
  if (!options.output.empty()) return options.output;
  return options.words.update.empty() ? DefaultOutput(recordings.source) : options.words.update;
}

int ExplainSite(const PlanCommandOptions& options) {
  const absl::StatusOr<Recordings> recordings = ReadRecordings(options.profiles);
  if (!recordings.ok()) return Fail(recordings.status());
  const profile::Profile& profile = recordings->profile;
  const auto site = plan::FindSite(plan::RecordedSites(profile), options.explain);
  if (!site.ok()) return Fail(site.status());
  const auto request = ReadPlanRequest(options.words, profile, recordings->SeveralRanks());
  if (!request.ok()) return Fail(request.status());
  const auto result = MakeCheckedPlan(*recordings, request->options);
  if (!result.ok()) return Fail(result.status());
  const auto explanation = plan::Explain(profile, request->options, *result, *site);
  if (!explanation.ok()) return Fail(explanation.status());
  return PrintExplanation(*explanation, options.json);
}

// An error where the plan that would be replaced is of another job: it may be the only copy.
absl::Status CheckReplaced(const PlanCommandOptions& options, const PlanRequest& request,
                           const profile::Profile& profile) {
  if (!request.old || !options.output.empty()) return absl::OkStatus();
  std::set<uint64_t> recorded;
  for (const plan::Site& site : plan::RecordedSites(profile)) recorded.insert(site.id);
  const std::vector<plan::Site>& sites = request.old->sites;
  const auto known = std::count_if(sites.begin(), sites.end(), [&](const plan::Site& site) {
    return recorded.contains(site.id);
  });
  if (size_t(known) * 2 >= sites.size()) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "{} is of another job, or its program changed: {} of its {} sites are in the recording; name "
      "another file with -o",
      options.words.update, known, sites.size()));
}

int MakeAndWrite(const PlanCommandOptions& options) {
  // Planning takes minutes: what cannot be written in the end is said before.
  const std::string& named = options.output.empty() ? options.words.update : options.output;
  if (absl::Status status = named.empty() ? absl::OkStatus() : CheckOutput(named, options.profiles);
      !status.ok()) {
    return Fail(status);
  }
  const absl::StatusOr<Recordings> recordings = ReadRecordings(options.profiles);
  if (!recordings.ok()) return Fail(recordings.status());
  absl::StatusOr<PlanRequest> request =
      ReadPlanRequest(options.words, recordings->profile, recordings->SeveralRanks());
  if (!request.ok()) return Fail(request.status());
  if (const absl::Status status = CheckReplaced(options, *request, recordings->profile);
      !status.ok()) {
    return Fail(status);
  }
  request->options.source = recordings->source;
  auto result = MakeCheckedPlan(*recordings, request->options);
  if (!result.ok()) return Fail(result.status());
  PrintResult(*result, recordings->Survey(), request->device_note, options.json);
  const std::string cut = CutRemark(recordings->profile, recordings->source);
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
    Log(LogLevel::kWarning, "{}", plan::UpdateText(request->update, options.words.update));
  }
  if (absl::Status status = plan::WritePlan(result->plan, output); !status.ok()) {
    return Fail(status);
  }
  const char* const verify = result->plan.slabs.empty() ? "" : "ebbtide verify --plan ";
  Log(LogLevel::kWarning, "wrote {}{}; next: {}{}ebbtide run --plan {} -- CMD...", output, cut,
      verify, *verify == '\0' ? "" : output + " -- CMD..., then ", output);
  return 0;
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
  AddPlanWords(*plan, options->words);
  plan->add_option(
          "--explain", options->explain,
          "Say why each block of a site lies where it lies, and write no plan; SITE is its "
          "number (0x…) or a part of its label")
      ->type_name("SITE");
  plan->add_option("-o,--output", options->output,
                   "Plan to write (default: the planned PROFILE with .plan.json for .ebp)")
      ->type_name("FILE");
  plan->add_flag("--json", options->json, "Print the summary as one JSON object");
  plan->footer(
      "Of several profiles (job.*.ebp) the lowest rank's is planned, of equal or unknown ranks "
      "the\n"
      "first one given; the plan serves all, and the others are compared with it. One that cannot\n"
      "be read or has no step is named and left out.\n"
      "Exit code: 0 when a plan was written; 125 when no profile can be planned or the budget "
      "cannot be met.");
  plan->callback([&invocation, options] {
    if (invocation.has_command) throw CLI::ExtrasError({"--"});
    invocation.action = [options] {
      return options->explain.empty() ? MakeAndWrite(*options) : ExplainSite(*options);
    };
  });
}

}  // namespace ebt::cli
