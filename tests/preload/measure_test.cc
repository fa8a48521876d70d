// `ebbtide doctor --measure` on the simulated driver.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "src/plan/device.h"
#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

Outcome Measure(std::vector<std::string> words, const std::string& folder,
                const std::string& memory = "4GiB") {
  words.insert(words.begin(), {Product("ebbtide"), "doctor", "--measure"});
  return RunProcess(
      words, {{"LD_LIBRARY_PATH", Product("tests/simcuda")}, {"SIMCUDA_MEMORY", memory}}, folder);
}

TEST(Measure, DescriptionSaysSimulatedAndIsReadAgain) {
  const std::string folder = FreshFolder();
  const Outcome outcome = Measure({"-o", "box.json"}, folder);
  ASSERT_EQ(outcome.code, 0) << outcome;
  EXPECT_NE(outcome.err.find("no hardware was measured"), std::string::npos) << outcome;
  const auto device = plan::FindDevice(folder + "/box.json");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_TRUE(device->simulated);
  EXPECT_EQ(device->device_bytes, uint64_t{4} << 30);
}

TEST(Measure, FiguresAreThoseOfTheDriversClock) {
  // The simulated driver: a copy alone has 55 GB/s, memory in place 42, managed 50 and 12.
  const Outcome outcome = Measure({}, FreshFolder());
  ASSERT_EQ(outcome.code, 0) << outcome;
  const auto device = plan::DeviceFromJson(outcome.out, "stdout");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_NEAR(device->speeds.link_in_alone, 55e9, 1e9);
  EXPECT_NEAR(device->speeds.link_out_alone, 55e9, 1e9);
  EXPECT_NEAR(device->speeds.in_place, 42e9, 1e9);
  EXPECT_NEAR(device->speeds.managed_in, 50e9, 1.5e9);
  EXPECT_NEAR(device->speeds.managed_out, 12e9, 1e9);
  EXPECT_LT(device->speeds.CopyShare(64 << 10), device->speeds.CopyShare(4 << 20));
}

TEST(Measure, ADeviceThatIsNearlyFullIsNotMeasured) {
  const Outcome outcome = Measure({}, FreshFolder(), "300MiB");
  EXPECT_EQ(outcome.code, 125);
  EXPECT_NE(outcome.err.find("are free on the device"), std::string::npos) << outcome;
}

TEST(Measure, FileThatCannotBeWrittenIsAnError) {
  const Outcome outcome = Measure({"-o", "nowhere/box.json"}, FreshFolder());
  EXPECT_EQ(outcome.code, 125);
  EXPECT_NE(outcome.err.find("nowhere/box.json: cannot be written"), std::string::npos) << outcome;
}

}  // namespace
}  // namespace ebt::test
