// `ebbtide report`: what a recording or a run log says.
#include <cstdio>
#include <fstream>
#include <optional>

#include "src/base/log.h"
#include "src/cli/options.h"
#include "src/cli/progress.h"
#include "src/profile/encoding.h"
#include "src/profile/kinds.h"
#include "src/profile/reader.h"
#include "src/profile/steps.h"
#include "src/report/composition.h"
#include "src/report/diff.h"
#include "src/report/memory_json.h"
#include "src/report/memory_table.h"
#include "src/report/names.h"
#include "src/report/run_log.h"
#include "src/report/symbols.h"

namespace ebt::cli {
namespace {

constexpr size_t kDamageShown = 5;
constexpr size_t kSites = 12;

struct ReportOptions {
  std::string file;
  std::string diff;
  size_t sites = kSites;
  bool json = false;
};

int Fail(const absl::Status& status) {
  Log(LogLevel::kError, "{}", Message(status));
  return kOwnFailure;
}

void Show(const std::string& text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

// A recording and what is made of it.
struct Recording {
  std::string file;
  profile::Profile profile;
  std::optional<profile::Steps> steps;
  std::vector<profile::Kind> kinds;
  report::Composition composition;
};

absl::StatusOr<Recording> Load(const std::string& file, Progress& progress) {
  progress.Show("reading " + file);
  absl::StatusOr<profile::Profile> profile = profile::ReadProfile(file);
  if (!profile.ok()) return profile.status();
  Recording recording{.file = file, .profile = *std::move(profile)};
  progress.Show("looking at " + file);
  recording.steps = profile::FindSteps(recording.profile);
  recording.kinds = profile::FindKinds(recording.profile, recording.steps);
  absl::StatusOr<report::Composition> composition =
      report::Compose(recording.profile, recording.steps, recording.kinds);
  if (!composition.ok())
    return absl::DataLossError(fmt::format("{}: {}", file, Message(composition.status())));
  recording.composition = *std::move(composition);
  progress.Show("looking up names");
  report::ResolveNames(recording.profile.sites);
  return recording;
}

void WarnOfTruncation(const Recording& recording) {
  if (!recording.profile.truncated) return;
  Log(LogLevel::kWarning,
      "{} ends early: the process was killed, or the file cut; what came before is reported",
      recording.file);
}

int ReportRecording(const ReportOptions& options) {
  Progress progress("reading " + options.file);
  const absl::StatusOr<Recording> recording = Load(options.file, progress);
  progress.Done();
  if (!recording.ok()) return Fail(recording.status());
  WarnOfTruncation(*recording);
  const report::SiteNames names(recording->profile.sites);
  Show(options.json
           ? report::MemoryJson(options.file, recording->profile, recording->composition, names) +
                 "\n"
           : report::MemoryTable(recording->profile, recording->composition, names, options.sites));
  return 0;
}

int ReportDiff(const ReportOptions& options) {
  Progress progress("reading " + options.file);
  const absl::StatusOr<Recording> before = Load(options.file, progress);
  if (!before.ok()) return Fail(before.status());
  const absl::StatusOr<Recording> after = Load(options.diff, progress);
  progress.Done();
  if (!after.ok()) return Fail(after.status());
  WarnOfTruncation(*before);
  WarnOfTruncation(*after);
  const report::SiteNames before_names(before->profile.sites), after_names(after->profile.sites);
  const report::Side sides[] = {{before->file, before->profile, before->composition, before_names},
                                {after->file, after->profile, after->composition, after_names}};
  Show(options.json ? report::DiffJson(sides[0], sides[1]) + "\n"
                    : report::DiffTable(sides[0], sides[1], options.sites));
  return 0;
}

int ReportRunLog(const ReportOptions& options) {
  const absl::StatusOr<report::RunLog> log = report::ReadRunLog(options.file);
  if (!log.ok()) return Fail(log.status());
  for (size_t i = 0; i < log->damage.size() && i < kDamageShown; ++i)
    Log(LogLevel::kWarning, "{}; the rest is reported", log->damage[i]);
  if (log->damage.size() > kDamageShown)
    Log(LogLevel::kWarning, "{}: {} more damaged lines", options.file,
        log->damage.size() - kDamageShown);
  Show(options.json ? log->last_as_json + "\n" : report::RunTable(*log));
  return 0;
}

// One byte tells the two apart; what is wrong behind it, their readers say.
int Report(const ReportOptions& options) {
  if (!options.diff.empty()) return ReportDiff(options);
  const int first = std::ifstream(options.file, std::ios::binary).peek();
  if (first == static_cast<unsigned char>(profile::kMagic.front())) return ReportRecording(options);
  // What cannot be read, or is empty, is for the run log's reader to say.
  if (first == '{' || first == std::ifstream::traits_type::eof()) return ReportRunLog(options);
  return Fail(absl::InvalidArgumentError(
      fmt::format("{} is neither a recording (`ebbtide record` writes one) nor a run log (`ebbtide "
                  "run --log FILE`)",
                  options.file)));
}

}  // namespace

void AddReport(Invocation& invocation) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* report = invocation.app.add_subcommand(
      "report", "Say what fills the memory of a recorded job, or what a run moved and waited for");
  SetSynopsis(report, "FILE [--diff OTHER] [--sites N] [--json]");
  report
      ->add_option("FILE", options->file,
                   "Recording of `ebbtide record`, or log of `ebbtide run --log`")
      ->required();
  report
      ->add_option(
          "--diff", options->diff,
          "A second recording: what differs in it from FILE (of before and after, or of two ranks)")
      ->type_name("OTHER");
  report->add_option("--sites", options->sites, "How many sites are listed (default: 12)")
      ->type_name("N");
  report->add_flag("--json", options->json, "Print everything as one JSON object");
  report->footer("Exit code: 0; 125 when the file cannot be read or is neither of the two.");
  report->callback([&invocation, options] {
    if (invocation.has_command) throw CLI::ExtrasError({"--"});
    invocation.action = [options] { return Report(*options); };
  });
}

}  // namespace ebt::cli
