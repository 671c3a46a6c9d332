//===- fuzz-checkpoint.cpp - The state of a run ---------------------------===//
//
// The input is `state.json` of the newest checkpoint of a directory, as it is
// and, where it is JSON, with a checksum that fits. Whatever it holds, an older
// whole checkpoint must still be found.
//
//===----------------------------------------------------------------------===//

#include "sheaf/Checkpoint.h"
#include "sheaf/Safetensors.h"
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

namespace fs = std::filesystem;
using Json = nlohmann::json;

static fs::path directory;

/// As docs/design/artifact.md says: FNV-1a of the text without the field.
static std::string withChecksum(Json json) {
  json.erase("checksum");
  uint64_t sum = 0xcbf29ce484222325;
  for (unsigned char c : json.dump())
    sum = (sum ^ c) * 0x100000001b3;
  json["checksum"] = fmt::format("{:016x}", sum);
  return json.dump();
}

static void writeState(const char *step, const std::string &text) {
  std::ofstream(directory / step / "state.json", std::ios::binary) << text;
}

/// Step 7 where its state is one, else step 3.
static void find() {
  std::string notes;
  std::optional<sheaf::FoundCheckpoint> found =
      sheaf::findCheckpoint(directory.string(), notes);
  if (!found || (found->state.step != 3 && found->state.step != 7))
    abort();
}

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  std::string name = (fs::temp_directory_path() / "sheaf-fuzz-XXXXXX").string();
  if (!mkdtemp(name.data()))
    abort();
  directory = name;
  std::atexit([] { fs::remove_all(directory); });
  float value = 1;
  for (const char *step : {"step-3", "step-7"}) {
    fs::create_directory(directory / step);
    for (const char *file : {"parameters.safetensors", "optimizer.safetensors"})
      sheaf::writeSafetensors((directory / step / file).string(),
                              {{"w", SHEAF_F32, {1}, &value}});
  }
  writeState("step-3", withChecksum(Json::parse(
                           R"({"step": 3, "seed": 1, "order": "sequential",
                               "data_tokens": 0, "scalars": {}, "checksums": {}})")));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(reinterpret_cast<const char *>(data), size);
  writeState("step-7", text);
  find();
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return 0;
  try {
    text = withChecksum(json);
  } catch (const Json::exception &) {
    return 0; // Strings that are not UTF-8.
  }
  writeState("step-7", text);
  find();
  return 0;
}
