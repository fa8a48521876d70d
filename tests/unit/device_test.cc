#include "src/plan/device.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace ebt::plan {
namespace {

using nlohmann::json;

json Whole() { return json::parse(DeviceJson(*FindDevice("h200"))); }

std::string ErrorOf(const json& file) {
  return std::string(DeviceFromJson(file.dump(), "box.json").status().message());
}

TEST(DeviceTest, EveryDeviceBuiltInIsWhole) {
  ASSERT_FALSE(BuiltInDevices().empty());
  for (const std::string& name : BuiltInDevices()) {
    EXPECT_TRUE(FindDevice(name).ok()) << FindDevice(name).status();
    EXPECT_FALSE(FindDevice(name)->simulated) << name;
  }
}

TEST(DeviceTest, DefaultsAreTheFiguresOfTheH200) {
  const DeviceModel speeds = FindDevice("h200")->speeds, defaults;
  EXPECT_EQ(speeds.link_in, defaults.link_in);
  EXPECT_EQ(speeds.link_out_alone, defaults.link_out_alone);
  EXPECT_EQ(speeds.in_place, defaults.in_place);
  EXPECT_EQ(speeds.managed_out, defaults.managed_out);
  EXPECT_EQ(speeds.managed_in_both, defaults.managed_in_both);
  EXPECT_EQ(speeds.hbm, defaults.hbm);
  EXPECT_EQ(speeds.vmm.set_access, defaults.vmm.set_access);
  for (uint64_t bytes : {4096, 100000, 2 << 20, 1 << 30}) {
    EXPECT_DOUBLE_EQ(speeds.CopyShare(bytes), defaults.CopyShare(bytes));
  }
}

TEST(DeviceTest, WhatIsWrittenIsReadAgain) {
  DeviceDescription device = *FindDevice("h200");
  device.name = "a \"box\"";
  device.simulated = true;
  device.speeds.in_place = 12.5e9;
  const auto read = DeviceFromJson(DeviceJson(device), "box.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->name, device.name);
  EXPECT_TRUE(read->simulated);
  EXPECT_EQ(read->speeds.in_place, 12.5e9);
  EXPECT_EQ(read->speeds.copies[2].bytes, device.speeds.copies[2].bytes);
}

TEST(DeviceTest, EveryMissingKeyIsNamedWithTheFile) {
  const json whole = Whole();
  for (const auto& [key, value] : whole.items()) {
    json file = whole;
    file.erase(key);
    EXPECT_EQ(ErrorOf(file), "box.json: " + key + " is missing");
  }
  json file = whole;
  file["link_gbps"].erase("both_in");
  EXPECT_EQ(ErrorOf(file), "box.json: link_gbps.both_in is missing");
}

TEST(DeviceTest, ForeignValuesAreRefusedInOneLine) {
  auto with = [](const char* pointer, const json& value) {
    json file = Whole();
    file[json::json_pointer(pointer)] = value;
    return ErrorOf(file);
  };
  EXPECT_EQ(with("/schema", 2), "box.json: schema is not 1");
  EXPECT_EQ(with("/name", 5), "box.json: name is not text");
  EXPECT_EQ(with("/device_bytes", -5), "box.json: device_bytes is not a number of bytes");
  EXPECT_EQ(with("/device_bytes", 0), "box.json: device_bytes is no size that a device has");
  EXPECT_EQ(with("/in_place_gbps", 0), "box.json: in_place_gbps is not above 0 and at most 1e+06");
  EXPECT_EQ(with("/in_place_gbps", 1e300),
            "box.json: in_place_gbps is not above 0 and at most 1e+06");
  EXPECT_EQ(with("/vmm_us", json::array()), "box.json: vmm_us is not an object");
  EXPECT_EQ(with("/vmm_us/map", "fast"), "box.json: vmm_us.map is not a number");
  EXPECT_EQ(with("/copies/1/bytes", 7), "box.json: copies[1].bytes does not ascend");
  EXPECT_EQ(with("/copies", json::array({1})), "box.json: copies[0] is not an object");
  EXPECT_EQ(with("/speed", 7), "box.json: speed is not a key that is known here");
  EXPECT_EQ(with("/simulated", 1), "box.json: simulated is not true or false");
}

TEST(DeviceTest, WhatIsNoJsonIsRefused) {
  EXPECT_EQ(DeviceFromJson("{", "box.json").status().message(), "box.json: is no JSON");
  EXPECT_EQ(DeviceFromJson("[]", "box.json").status().message(),
            "box.json: the file is not an object");
  EXPECT_FALSE(DeviceFromJson(std::string(60000, '['), "deep").ok());
}

TEST(DeviceTest, NameIsFoundWhateverItsCaseAndAFileByItsPath) {
  EXPECT_EQ(FindDevice("H200")->name, "NVIDIA H200");
  EXPECT_EQ(FindDevice("nvidia h200")->name, "NVIDIA H200");
  const std::string path = testing::TempDir() + "/box_device.json";
  DeviceDescription device = *FindDevice("h200");
  device.name = "box";
  std::ofstream(path) << DeviceJson(device);
  EXPECT_EQ(FindDevice(path)->name, "box");
  EXPECT_NE(FindDevice("nowhere.json").status().message().find("h200"), std::string::npos);
}

TEST(DeviceTest, UnknownGpuTakesTheFiguresOfTheH200AndSaysSo) {
  std::string note;
  EXPECT_EQ(DeviceOfGpu("NVIDIA H200", &note).name, "NVIDIA H200");
  EXPECT_EQ(note, "");
  EXPECT_EQ(DeviceOfGpu("NVIDIA H200 (simulated)", &note).name, "NVIDIA H200");
  EXPECT_EQ(note, "");
  EXPECT_EQ(DeviceOfGpu("paper", &note).name, "NVIDIA H200");
  EXPECT_NE(note.find("no figures of paper"), std::string::npos);
}

}  // namespace
}  // namespace ebt::plan
