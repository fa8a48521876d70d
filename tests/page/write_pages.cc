// Writes the pages that page_test opens into the folder given, and a recording, job.ebp.
#include <cstdio>
#include <string>

#include "src/profile/steps.h"
#include "src/profile/writer.h"
#include "src/report/html.h"
#include "tests/page/job.h"

namespace {

using ebt::page::Job;
using ebt::page::JobShape;

bool Told(const absl::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok();
}

bool WritePage(const JobShape& shape, const std::string& path) {
  const Job job = ebt::page::MakeJob(shape);
  const auto steps = ebt::profile::FindSteps(job.profile);
  return Told(ebt::report::WriteHtml(job.profile, steps, job.kinds,
                                     ebt::report::NamesOf(job.profile), path));
}

bool WriteRecording(const std::string& path) {
  return Told(ebt::profile::WriteProfile(ebt::page::MakeJob({}).profile, path));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  const bool written = WriteRecording(folder + "/job.ebp") && WritePage({}, folder + "/job.html") &&
                       WritePage({.steps = 3, .hostile = true}, folder + "/hostile.html") &&
                       WritePage({.times = false}, folder + "/untimed.html") &&
                       WritePage({.layers = 96, .steps = 86}, folder + "/large.html") &&
                       WritePage({.layers = 0, .steps = 0}, folder + "/empty.html");
  return written ? 0 : 1;
}
