// `ebbtide report`: what a recording, a run log or a snapshot of memory says.
#include <cstdio>
#include <fstream>
#include <optional>

#include "src/base/live_socket.h"
#include "src/base/log.h"
#include "src/cli/options.h"
#include "src/cli/progress.h"
#include "src/cli/report_files.h"
#include "src/profile/encoding.h"
#include "src/profile/kinds.h"
#include "src/profile/reader.h"
#include "src/profile/snapshot.h"
#include "src/profile/steps.h"
#include "src/report/composition.h"
#include "src/report/diff.h"
#include "src/report/memory_json.h"
#include "src/report/memory_table.h"
#include "src/report/names.h"
#include "src/report/run_log.h"
#include "src/report/snapshot_table.h"
#include "src/report/symbols.h"

namespace ebt::cli {
namespace {

constexpr size_t kDamageShown = 5;
constexpr size_t kSites = 12;
constexpr size_t kBeginning = 64;  // bytes that tell what a file is
constexpr size_t kMostSnapshot = (size_t{16} << 20) + 1;

constexpr pid_t kMostProcesses = 1 << 22;  // Linux's own limit

struct ReportOptions {
  std::string file;
  std::string diff;
  size_t sites = kSites;
  bool json = false;
  ReportFiles files;
  pid_t live = 0;
};

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
  if (options.files.wanted()) {
    const absl::Status written =
        WriteReportFiles(options.files, recording->profile, recording->steps, recording->kinds,
                         report::NamesOf(recording->profile));
    return written.ok() ? 0 : Fail(written);
  }
  const report::SiteNames names(recording->profile.sites);
  Show(options.json
           ? report::MemoryJson(options.file, recording->profile, recording->kinds,
                                recording->composition, names) +
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

int ReportSnapshot(const ReportOptions& options, const std::string& text) {
  const std::string file =
      options.live > 0 ? fmt::format("process {}", options.live) : options.file;
  absl::StatusOr<profile::Snapshot> snapshot = profile::ParseSnapshot(text, file);
  if (!snapshot.ok()) return Fail(snapshot.status());
  if (!options.json) {
    report::ResolveNames(snapshot->described);
    const report::SiteNames names(snapshot->described);
    Show(report::SnapshotTable(*snapshot, names, options.sites));
  } else {
    Show(text);
  }
  return 0;
}

int ReportLive(const ReportOptions& options) {
  const absl::StatusOr<std::string> answer = AskLive(options.live);
  return answer.ok() ? ReportSnapshot(options, *answer) : Fail(answer.status());
}

std::string ReadBeginning(const std::string& path, size_t most) {
  std::ifstream file(path, std::ios::binary);
  std::string text(most, '\0');
  text.resize(static_cast<size_t>(file.read(text.data(), std::streamsize(most)).gcount()));
  return text;
}

// The beginning tells them apart; what is wrong behind it, their readers say.
int Report(const ReportOptions& options) {
  if (options.live > 0) return ReportLive(options);
  if (!options.diff.empty()) return ReportDiff(options);
  const std::string beginning = ReadBeginning(options.file, kBeginning);
  if (!beginning.empty() && beginning.front() == profile::kMagic.front())
    return ReportRecording(options);
  if (options.files.wanted())
    return Fail(absl::InvalidArgumentError(
        options.file + ": --html and --trace show a recording (`ebbtide record` writes one)"));
  if (profile::LooksLikeSnapshot(beginning))
    return ReportSnapshot(options, ReadBeginning(options.file, kMostSnapshot));
  // What cannot be read, or is empty, is for the run log's reader to say.
  if (beginning.empty() || beginning.front() == '{') return ReportRunLog(options);
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
  SetSynopsis(report,
              "FILE|--live PID [--diff OTHER] [--sites N] [--json] [--html FILE] [--trace FILE]");
  CLI::Option* file = report->add_option("FILE", options->file,
                                         "Recording of `ebbtide record`, log of `ebbtide run "
                                         "--log`, or what a refused allocation left "
                                         "(.oom-N.json)");
  CLI::Option* live =
      report
          ->add_option(
              "--live", options->live,
              "Ask a running process of yours that is being recorded what fills its memory")
          ->type_name("PID")
          ->check(CLI::Range(1, kMostProcesses))
          ->excludes(file);
  report
      ->add_option(
          "--diff", options->diff,
          "A second recording: what differs in it from FILE (of before and after, or of two ranks)")
      ->type_name("OTHER")
      ->excludes(live);
  report->add_option("--sites", options->sites, "How many sites are listed (default: 12)")
      ->type_name("N");
  report->add_flag("--json", options->json, "Print everything as one JSON object");
  AddReportFileOptions(report, options->files);
  report->footer(
      "Exit code: 0; 125 when the file cannot be read or is none of these, or the process does not "
      "answer.");
  report->callback([&invocation, options] {
    if (options->live == 0 && options->file.empty()) throw CLI::RequiredError("FILE");
    if (invocation.has_command) throw CLI::ExtrasError({"--"});
    invocation.action = [options] { return Report(*options); };
  });
}

}  // namespace ebt::cli
