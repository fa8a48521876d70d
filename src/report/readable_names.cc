#include "src/report/readable_names.h"

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "src/report/names.h"

namespace ebt::report {
namespace {

using callsite::Frame;
using callsite::Site;

std::string LastPart(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::string FrameText(const Frame& frame) {
  if (frame.kind == Frame::Kind::kPython)
    return fmt::format("{}:{} {}", frame.module, frame.offset, frame.function);
  const std::string module = LastPart(frame.file.empty() ? frame.module : frame.file);
  if (frame.function.empty()) return fmt::format("{}+{:#x}", module, frame.offset);
  return fmt::format("{} ({})", Demangled(frame.function), module);
}

std::string Clipped(const std::string& text, size_t bytes) {
  if (text.size() <= bytes) return text;
  size_t end = bytes < 3 ? 0 : bytes - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

ReadableNames NamesOf(const profile::Profile& profile) {
  auto sites = std::make_shared<absl::flat_hash_map<uint64_t, const Site*>>();
  for (const Site& site : profile.sites) sites->emplace(site.id, &site);
  auto site_names = std::make_shared<SiteNames>(profile.sites);
  ReadableNames names;
  names.frames = [sites](uint64_t id) {
    std::vector<std::string> frames;
    const auto found = sites->find(id);
    if (found == sites->end()) return frames;
    for (const Frame& frame : found->second->frames) frames.push_back(FrameText(frame));
    return frames;
  };
  names.site = [site_names](uint64_t id) { return site_names->Of(id); };
  names.function = [](const std::string& name) { return ShortName(name); };
  return names;
}

}  // namespace ebt::report
