#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>

#include "src/callsite/import_path.h"

namespace ebt::callsite {
namespace {

namespace fs = std::filesystem;
using std::string_literals::operator""s;

std::string CommandLine(std::initializer_list<std::string_view> arguments) {
  std::string line;
  for (std::string_view argument : arguments) line.append(argument).push_back('\0');
  return line;
}

// A new folder that goes with the test, and files in it.
class ImportPath : public testing::Test {
 protected:
  ImportPath() {
    std::string name = (fs::temp_directory_path() / "import_path_XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~ImportPath() override { fs::remove_all(root_); }

  std::string Make(const std::string& file) {
    const fs::path path = root_ / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << '\n';
    return path.string();
  }

  fs::path root_;
};

TEST_F(ImportPath, LeavesOutTheFolderOfInstalledPackages) {
  ImportPaths paths("");
  EXPECT_EQ(paths.NameOf("/opt/env/lib/python3.11/site-packages/torch/nn/functional.py"),
            "torch/nn/functional.py");
  EXPECT_EQ(paths.NameOf("/usr/lib/python3/dist-packages/numpy/core.py"), "numpy/core.py");
  EXPECT_EQ(paths.NameOf("/a/site-packages/b/site-packages/c.py"), "c.py");
}

TEST_F(ImportPath, LeavesOutTheFolderOfTheStandardLibrary) {
  ImportPaths paths("");
  EXPECT_EQ(paths.NameOf("/usr/lib/python3.9/asyncio/events.py"), "asyncio/events.py");
  EXPECT_EQ(paths.NameOf("/x/lib64/python3.14t/threading.py"), "threading.py");
  EXPECT_EQ(paths.NameOf("/x/lib/python312.zip/json/decoder.py"), "json/decoder.py");
}

TEST_F(ImportPath, LeavesOutTheArchive) {
  ImportPaths paths("");
  EXPECT_EQ(paths.NameOf("/a/lib/python3.9/site-packages/m-1.0.egg/m/n.py"), "m/n.py");
  EXPECT_EQ(paths.NameOf("/jobs/17/code.zip/model/net.py"), "model/net.py");
  EXPECT_EQ(paths.NameOf("/jobs/17/tool.pyz/__main__.py"), "__main__.py");
}

TEST_F(ImportPath, AFileIsNotTakenForAnArchiveNorAProjectForTheLibrary) {
  ImportPaths paths("");
  EXPECT_EQ(paths.NameOf("/jobs/code.zip"), "code.zip");
  EXPECT_EQ(paths.NameOf("/srv/python3.9/main.py"), "main.py");
  EXPECT_EQ(paths.NameOf("/lib/python3.x/main.py"), "main.py");
}

TEST_F(ImportPath, KeepsThePackagesAroundAFile) {
  ImportPaths paths("");
  Make("project/model/__init__.py");
  Make("project/model/parts/__init__.py");
  const std::string file = Make("project/model/parts/net.py");
  EXPECT_EQ(paths.NameOf(file), "model/parts/net.py");
  EXPECT_EQ(paths.NameOf(Make("project/train.py")), "train.py");
  // No package of its own: what is further out does not count.
  EXPECT_EQ(paths.NameOf(Make("project/model/data/load.py")), "load.py");
}

TEST_F(ImportPath, IsTheSameUnderAnotherPrefix) {
  ImportPaths paths("");
  for (const std::string prefix : {"one/", "another/place/"}) {
    Make(prefix + "model/__init__.py");
    EXPECT_EQ(paths.NameOf(Make(prefix + "model/net.py")), "model/net.py");
  }
}

TEST_F(ImportPath, TheScriptsFolderEndsAPackage) {
  for (const std::string prefix : {"first/", "second/"}) {
    Make(prefix + "__init__.py");  // without the script the folder would be part of the name
    Make(prefix + "model/__init__.py");
    const std::string script = Make(prefix + "train.py");
    ImportPaths paths(script);
    EXPECT_EQ(paths.NameOf(script), "train.py");
    EXPECT_EQ(paths.NameOf(Make(prefix + "model/net.py")), "model/net.py");
  }
}

TEST_F(ImportPath, APackageOutsideTheScriptsFolderKeepsItsOwnName) {
  ImportPaths paths(Make("train.py"));
  Make("checkout/model/__init__.py");
  EXPECT_EQ(paths.NameOf(Make("checkout/model/net.py")), "model/net.py");
}

TEST_F(ImportPath, AScriptReachedThroughALinkHasItsRealFolderToo) {
  Make("code/__init__.py");
  const std::string script = Make("code/train.py");
  fs::create_directory_symlink(root_ / "code", root_ / "link");
  ImportPaths paths((root_ / "link/train.py").string());
  EXPECT_EQ(paths.NameOf((root_ / "link/train.py").string()), "train.py");
  EXPECT_EQ(paths.NameOf(script), "train.py");
}

TEST_F(ImportPath, ARelativeScriptIsInTheWorkingDirectory) {
  Make("__init__.py");
  Make("jobs/__init__.py");
  Make("jobs/train.py");
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  ImportPaths paths("jobs/../jobs/./train.py");
  fs::current_path(before);
  // As the interpreter puts the two together.
  EXPECT_EQ(paths.NameOf((root_ / "jobs/../jobs/./train.py").string()), "train.py");
}

TEST_F(ImportPath, WhatIsNoAbsolutePathStays) {
  ImportPaths paths("/train.py");
  for (const char* name :
       {"<string>", "<frozen importlib._bootstrap>", "cell_1.py", "a/b.py", ""}) {
    EXPECT_EQ(paths.NameOf(name), name);
  }
  EXPECT_EQ(paths.NameOf("/train.py"), "train.py");
}

TEST(ScriptIn, IsTheFirstArgumentThatIsNoOption) {
  EXPECT_EQ(ScriptIn(CommandLine({"python3", "train.py", "-c", "7"})), "train.py");
  EXPECT_EQ(ScriptIn(CommandLine({"/v/bin/python", "-u", "-O", "/a/train.py"})), "/a/train.py");
  EXPECT_EQ(ScriptIn(CommandLine({"python3", "-W", "error", "-X", "dev", "a.py"})), "a.py");
  EXPECT_EQ(ScriptIn(CommandLine({"python3", "-Werror", "-uXdev", "a.py"})), "a.py");
  EXPECT_EQ(ScriptIn(CommandLine({"python3", "--check-hash-based-pycs", "never", "a.py"})), "a.py");
  EXPECT_EQ(ScriptIn(CommandLine({"python3", "--", "-a.py"})), "-a.py");
}

TEST(ScriptIn, IsEmptyWithoutAScript) {
  EXPECT_EQ(ScriptIn(CommandLine({"python3"})), "");
  EXPECT_EQ(ScriptIn(CommandLine({"python3", "-"})), "");
  EXPECT_EQ(ScriptIn(CommandLine({"python3", "-c", "import a", "b.py"})), "");
  EXPECT_EQ(ScriptIn(CommandLine({"python3", "-um", "package", "b.py"})), "");
  EXPECT_EQ(ScriptIn(CommandLine({"editor", "scene.py"})), "");
  EXPECT_EQ(ScriptIn("python3\0cut.py"s), "cut.py");
  EXPECT_EQ(ScriptIn(""), "");
}

}  // namespace
}  // namespace ebt::callsite
