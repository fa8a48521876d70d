// The test program is its own example: what it captures of itself has to read as it is written.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/callsite/callsite.h"
#include "src/report/symbols.h"

namespace ebt::report {
namespace outer {

struct Allocator {
  [[gnu::noinline]] static uint64_t TakeMemory(int depth);
};

// No tail call: the frame has to be there.
uint64_t Allocator::TakeMemory(int depth) {
  volatile uint64_t site = depth == 0 ? callsite::Capture() : TakeMemory(depth - 1);
  return site;
}

}  // namespace outer

namespace {

using callsite::Frame;
using callsite::Site;

constexpr char kTakeMemory[] = "ebt::report::outer::Allocator::TakeMemory(int)";

Site Captured() {
  callsite::Initialize(dlsym);
  return callsite::Lookup(outer::Allocator::TakeMemory(2));
}

std::vector<std::string> Resolved(const Site& site) {
  std::vector<Site> sites = {site};
  ResolveNames(sites);
  std::vector<std::string> names;
  for (const Frame& frame : sites[0].frames) names.push_back(frame.function);
  return names;
}

class Symbols : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("ebt_symbols_" + std::to_string(getpid()));
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(Symbols, FunctionsOfThisProgramAreNamed) {
  const auto names = Resolved(Captured());
  EXPECT_EQ(std::count(names.begin(), names.end(), kTakeMemory), 3);
}

TEST_F(Symbols, ExportedFunctionsOfAStrippedLibraryAreNamed) {
  const auto names = Resolved(Captured());
  const bool libc = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name.find("libc_start_main") != std::string::npos || name == "_start";
  });
  EXPECT_TRUE(libc) << testing::PrintToString(names);
}

TEST_F(Symbols, AFileOfAnotherBuildGivesNoNames) {
  Site site = Captured();
  for (Frame& frame : site.frames) frame.module = "00112233445566778899aabbccddeeff00112233";
  for (const std::string& name : Resolved(site)) EXPECT_EQ(name, "");
}

TEST_F(Symbols, AFileRecordedByItsNameAloneMustHaveNoBuildIdEither) {
  Site site = Captured();
  for (Frame& frame : site.frames) frame.module = "program";
  for (const std::string& name : Resolved(site)) EXPECT_EQ(name, "");
}

TEST_F(Symbols, WhatIsNoElfFileGivesNoNames) {
  Site site = Captured();
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& file : {std::string("/nowhere/lib.so"), std::string("/etc/passwd"),
                                  folder_, fifo, std::string("/dev/zero")}) {
    for (Frame& frame : site.frames) frame.file = file;
    // Of libc there may be a debug file all the same.
    for (const std::string& name : Resolved(site)) EXPECT_NE(name, kTakeMemory) << file;
  }
}

TEST_F(Symbols, ACutOrSpoiltFileIsNoTrap) {
  Site site = Captured();
  std::stringstream text;
  text << std::ifstream("/proc/self/exe", std::ios::binary).rdbuf();
  const std::string whole = text.str();
  const std::string copy = folder_ + "/copy";
  for (Frame& frame : site.frames) frame.file = copy;
  for (int part = 0; part < 16; ++part) {
    std::ofstream(copy, std::ios::binary) << whole.substr(0, whole.size() / 16 * size_t(part));
    Resolved(site);
  }
  for (size_t at = 0; at < 64; ++at) {  // the file's header
    std::string spoilt = whole;
    spoilt[at] = char(spoilt[at] ^ 0xff);
    std::ofstream(copy, std::ios::binary) << spoilt;
    Resolved(site);
  }
}

TEST_F(Symbols, KnownFunctionsAndPythonFramesStay) {
  Site site = Captured();
  site.frames[0].function = "told";
  site.frames.push_back({Frame::Kind::kPython, "train.py", 3, "", ""});
  const auto names = Resolved(site);
  EXPECT_EQ(names.front(), "told");
  EXPECT_EQ(names.back(), "");
}

}  // namespace
}  // namespace ebt::report
