// One job, installed under two prefixes and run with addresses that differ from run to run: its
// blocks must come from the same sites.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "src/profile/reader.h"
#include "tests/preload/python_frames_interpreters.h"
#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::IsSupersetOf;

// Of a step of the script. The two blocks of the comprehension are of one site.
constexpr size_t kBlocks = 12, kSites = 11;
constexpr size_t kSteps = 100;

class PythonSites : public testing::TestWithParam<std::string> {
 protected:
  PythonSites() : folder_(FreshFolder()) {}
  ~PythonSites() override { fs::remove_all(folder_); }

  std::string Install(const std::string& interpreter, const std::string& name) const {
    const std::string prefix = folder_ + "/" + name;
    fs::create_directories(prefix);
    const Outcome outcome =
        RunProcess({interpreter, Setting("PYTHON_FRAMES_SCRIPTS") + "/python_frames_install.py",
                    prefix, Setting("PYTHON_FRAMES_NATIVE")});
    EXPECT_EQ(outcome.code, 0) << outcome;
    return prefix;
  }

  // `script` as it is given to the interpreter, which runs in `working`.
  profile::Profile Record(const std::string& prefix, const std::string& script,
                          const std::string& working) const {
    const std::string recording = folder_ + "/recording.ebp";
    const Outcome outcome = RunProcess({prefix + "/env/bin/python", "-B", script},
                                       {{"LD_PRELOAD", Product("libebbtide.so")},
                                        {"LD_LIBRARY_PATH", Product("tests/simcuda")},
                                        {"EBBTIDE_MODE", "record"},
                                        {"EBBTIDE_PROFILE", recording}},
                                       working);
    EXPECT_EQ(outcome, (Outcome{0, "", ""}));
    auto profile = profile::ReadProfile(recording);
    EXPECT_TRUE(profile.ok()) << profile.status();
    fs::remove(recording);
    return profile.ok() ? *std::move(profile) : profile::Profile();
  }

  const std::string folder_;
};

bool HasVenvAndGil(const std::string& interpreter) {
  const Outcome outcome = RunProcess(
      {interpreter, "-c",
       "import ctypes, sysconfig, venv; assert not sysconfig.get_config_var('Py_GIL_DISABLED')"});
  return outcome.code == 0;
}

std::vector<uint64_t> SitesOfBlocks(const profile::Profile& profile) {
  std::vector<uint64_t> sites;
  for (const profile::Block& block : profile.blocks) sites.push_back(block.site);
  return sites;
}

std::vector<uint64_t> Fingerprints(const profile::Profile& profile) {
  std::vector<uint64_t> fingerprints;
  for (const profile::Block& block : profile.blocks) fingerprints.push_back(block.fingerprint);
  return fingerprints;
}

// What the Python frames are called, or where their files are.
std::set<std::string> Names(const profile::Profile& profile,
                            std::string callsite::Frame::*of_frame) {
  std::set<std::string> names;
  for (const callsite::Site& site : profile.sites) {
    for (const callsite::Frame& frame : site.frames) {
      if (frame.kind == callsite::Frame::Kind::kPython) names.insert(frame.*of_frame);
    }
  }
  return names;
}

void ExpectEveryWayToAllocate(const profile::Profile& profile) {
  const std::vector<uint64_t> sites = SitesOfBlocks(profile);
  EXPECT_EQ(sites.size(), kBlocks * kSteps);
  EXPECT_EQ(std::count(sites.begin(), sites.end(), 0u), 0);
  EXPECT_EQ(std::set<uint64_t>(sites.begin(), sites.end()).size(), kSites);
  EXPECT_THAT(Names(profile, &callsite::Frame::module),
              IsSupersetOf({"train.py", "model/driver.py", "model/net.py", "helper.py",
                            "layers/dense.py", "vendor/kit/tool.py", "packed.py", "<cell>",
                            "asyncio/runners.py", "threading.py"}));
}

void ExpectSameSites(const profile::Profile& one, const profile::Profile& other) {
  EXPECT_EQ(SitesOfBlocks(one), SitesOfBlocks(other));
  EXPECT_EQ(Fingerprints(one), Fingerprints(other));
}

TEST_P(PythonSites, AreTheSameInEveryRunAndUnderEveryPrefix) {
  bool found = false;
  for (const std::string& interpreter : Interpreters(GetParam())) {
    SCOPED_TRACE(interpreter);
    if (!HasVenvAndGil(interpreter)) continue;
    found = true;
    const std::string name = std::to_string(std::hash<std::string>{}(interpreter));
    const std::string first = Install(interpreter, name + "/first");
    const std::string second = Install(interpreter, name + "/another/pl\u00e4ce");
    const profile::Profile here = Record(first, first + "/app/train.py", "");
    ExpectEveryWayToAllocate(here);
    ExpectSameSites(here, Record(first, first + "/app/train.py", ""));
    const profile::Profile there = Record(second, "./train.py", second + "/app");
    ExpectSameSites(here, there);
    // The reader sees which of the two it was.
    EXPECT_THAT(Names(here, &callsite::Frame::file), Contains(first + "/app/model/net.py"));
    EXPECT_THAT(Names(there, &callsite::Frame::file), Contains(second + "/app/model/net.py"));
  }
  if (!found) GTEST_SKIP() << "no python" << GetParam() << " with a GIL, ctypes and venv here";
}

INSTANTIATE_TEST_SUITE_P(Versions, PythonSites, kReadablePythons, PythonName);

}  // namespace
}  // namespace ebt::test
