#include "sheaf/Checkpoint.h"
#include "sheaf/Error.h"
#include "sheaf/Files.h"
#include "sheaf/Weights.h"
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <unistd.h>

using namespace sheaf;
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {
constexpr std::string_view prefix = "step-";
// Names of what is being written and being removed: never taken for a
// checkpoint, and cleared by the next save.
constexpr std::string_view writing = ".writing-", removing = ".removing-";
constexpr const char *parametersFile = "parameters.safetensors";
constexpr const char *optimizerFile = "optimizer.safetensors";
constexpr const char *stateFile = "state.json";

std::optional<int64_t> stepOf(const std::string &name) {
  if (name.rfind(prefix, 0) != 0)
    return std::nullopt;
  int64_t step;
  const char *begin = name.data() + prefix.size(),
             *end = name.data() + name.size();
  auto [rest, error] = std::from_chars(begin, end, step);
  if (error != std::errc() || rest != end || step < 0)
    return std::nullopt;
  return step;
}

std::vector<std::string> namesIn(const std::string &directory) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator it(directory, error), end;
  for (; !error && it != end; it.increment(error))
    names.push_back(it->path().filename());
  if (error)
    fail("{}: cannot list directory: {}", directory, error.message());
  return names;
}

/// Removes a directory; renamed first, so that no half of a checkpoint keeps
/// the name of a whole one.
void removeAside(const std::string &directory, const std::string &name) {
  std::string from = directory + "/" + name;
  std::string aside =
      fmt::format("{}/{}{}-{}", directory, removing, getpid(), name);
  if (std::rename(from.c_str(), aside.c_str()) == 0) {
    std::error_code ignored;
    fs::remove_all(aside, ignored);
  }
}

/// Of the state itself, over its text without this field.
std::string sumOf(Json json) {
  json.erase("checksum");
  uint64_t sum = 0xcbf29ce484222325; // FNV-1a
  for (unsigned char c : json.dump())
    sum = (sum ^ c) * 0x100000001b3;
  return fmt::format("{:016x}", sum);
}

RunState stateFrom(const Json &json) {
  RunState state;
  state.step = json.at("step").get<int64_t>();
  state.seed = json.at("seed").get<uint64_t>();
  state.order = json.at("order").get<std::string>();
  state.dataTokens = json.at("data_tokens").get<int64_t>();
  for (const auto &[name, value] : json.at("scalars").items())
    state.scalars[name] = value.get<double>();
  return state;
}

/// `directory` has the files that the state says the sums of.
RunState parseState(const std::string &directory) {
  std::string text = readFile(directory + "/" + stateFile);
  try {
    Json json = Json::parse(text);
    if (json.at("checksum").get<std::string>() != sumOf(json))
      fail("{}: its checksum does not fit its text; the file is damaged",
           stateFile);
    for (const auto &[name, sum] : json.at("checksums").items()) {
      std::string found =
          fmt::format("{:016x}", checksumOf(directory + "/" + name));
      if (found != sum.get<std::string>())
        fail("{}: has checksum {}, {} says {}; the file is damaged", name,
             found, stateFile, sum.get<std::string>());
    }
    return stateFrom(json);
  } catch (const nlohmann::json::exception &error) {
    fail("{}: {}", stateFile, error.what());
  }
}

/// Reads tensors of exactly the given kinds, same names, shapes and types.
void readExact(Program &program, const std::string &path,
               const std::vector<BufferKind> &kinds) {
  SafetensorsFile file(path);
  size_t matched = 0;
  std::vector<std::pair<int, std::vector<const SafetensorsFile::Tensor *>>>
      found;
  for (size_t i = 0; i < program.manifest.buffers.size(); ++i) {
    const BufferInfo &buffer = program.manifest.buffers[i];
    if (!program.isPresent(static_cast<int>(i)) ||
        std::find(kinds.begin(), kinds.end(), buffer.kind) == kinds.end())
      continue;
    Shape shape = partShape(buffer.key(), buffer.layout.global);
    auto &[index, parts] = found.emplace_back();
    index = static_cast<int>(i);
    for (const std::string &name :
         partNames(buffer.key(), buffer.layout.global)) {
      auto it = file.tensors.find(name);
      if (it == file.tensors.end())
        fail("{}: no tensor '{}'; the checkpoint is of another model or "
             "optimizer",
             path, name);
      const SafetensorsFile::Tensor &tensor = it->second;
      if (tensor.shape != shape || tensor.type != buffer.type)
        fail("{}: tensor '{}' is {} {}, the model has {} {}", path, name,
             typeName(tensor.type), shapeText(tensor.shape),
             typeName(buffer.type), shapeText(shape));
      parts.push_back(&tensor);
      ++matched;
    }
  }
  if (matched != file.tensors.size())
    fail("{}: {} tensors, the model has {}; the checkpoint is of another model "
         "or optimizer",
         path, file.tensors.size(), matched);
  for (const auto &[index, parts] : found)
    readPart(program, index, file, parts);
}

const std::vector<BufferKind> optimizerKinds = {
    BufferKind::Moment1, BufferKind::Moment2, BufferKind::Momentum,
    BufferKind::Master, BufferKind::Scaling};
} // namespace

void sheaf::createRunDirectory(const std::string &directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error)
    fail("{}: cannot create the checkpoint directory: {}", directory,
         error.message());
}

RunLock::RunLock(const std::string &path) {
  directory = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0)
    fail("{}: cannot open directory: {}", path, std::strerror(errno));
  // File systems without locks say so with another error; they cannot tell.
  if (flock(directory, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(directory);
    fail("{}: another run keeps its checkpoints there; wait for its end, or "
         "name "
         "another directory",
         path);
  }
}

RunLock::~RunLock() { close(directory); }

void sheaf::saveCheckpoint(const Program &program, const RunState &state,
                           const std::string &directory) {
  if (!program.isRoot()) {
    saveTensors(program, "", {BufferKind::Parameter});
    saveTensors(program, "", optimizerKinds);
    return;
  }
  createRunDirectory(directory);
  for (const std::string &name : namesIn(directory))
    if (name.rfind(writing, 0) == 0 || name.rfind(removing, 0) == 0) {
      std::error_code ignored;
      fs::remove_all(directory + "/" + name, ignored);
    }

  std::string name = fmt::format("{}{:08}", prefix, state.step);
  std::string temporary =
      fmt::format("{}/{}{}-{}", directory, writing, getpid(), name);
  createRunDirectory(temporary);
  try {
    saveTensors(program, temporary + "/" + parametersFile,
                {BufferKind::Parameter}, {{"format", "pt"}});
    saveTensors(program, temporary + "/" + optimizerFile, optimizerKinds);
    Json json;
    json["step"] = state.step;
    json["seed"] = state.seed;
    json["order"] = state.order;
    json["data_tokens"] = state.dataTokens;
    json["next_sample"] = state.step * program.manifest.model.batch;
    json["scalars"] = state.scalars;
    json["model"] = program.manifest.model.name;
    json["producer"] = program.manifest.producer;
    for (const char *file : {parametersFile, optimizerFile})
      json["checksums"][file] =
          fmt::format("{:016x}", checksumOf(temporary + "/" + file));
    // As a reader sees it: text to numbers and back.
    json["checksum"] = sumOf(
        Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace)));
    writeFile(temporary + "/" + stateFile,
              json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    syncDirectory(temporary);
  } catch (const Error &error) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    if (dynamic_cast<const PeerError *>(&error))
      throw;
    fail("cannot save the checkpoint of step {}; earlier ones are kept: {}",
         state.step, error.what());
  }

  std::string target = directory + "/" + name;
  // A damaged checkpoint of the same step may be there: it is exchanged, so
  // that the name is never free for a moment.
  bool exists = fs::exists(target);
  if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(),
                exists ? RENAME_EXCHANGE : RENAME_NOREPLACE) != 0)
    fail("{}: cannot rename the finished checkpoint into place: {}", target,
         std::strerror(errno));
  if (exists) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
  }
  syncDirectory(directory);
  for (const std::string &other : namesIn(directory))
    if (other != name && stepOf(other))
      removeAside(directory, other);
}

std::optional<FoundCheckpoint>
sheaf::findCheckpoint(const std::string &directory, std::string &notes) {
  std::vector<std::pair<int64_t, std::string>> candidates;
  for (const std::string &name : namesIn(directory))
    if (std::optional<int64_t> step = stepOf(name))
      candidates.emplace_back(*step, name);
  std::sort(candidates.rbegin(), candidates.rend());
  for (const auto &[step, name] : candidates) {
    std::string path = directory + "/" + name;
    try {
      RunState state = parseState(path);
      if (state.step != step)
        fail("{} says step {}", stateFile, state.step);
      // Strict readers: a cut or damaged file is refused here.
      SafetensorsFile(path + "/" + parametersFile);
      SafetensorsFile(path + "/" + optimizerFile);
      return FoundCheckpoint{path, state};
    } catch (const Error &error) {
      notes += fmt::format("skipped {}: {}\n", path, error.what());
    }
  }
  if (!candidates.empty())
    fail("{}: no whole checkpoint\n{}", directory, notes);
  return std::nullopt;
}

std::optional<FoundCheckpoint>
sheaf::findCheckpoint(const std::string &directory, std::string &notes,
                      Communicator &communicator) {
  std::string text;
  if (communicator.isRoot())
    if (std::optional<FoundCheckpoint> found =
            findCheckpoint(directory, notes)) {
      const RunState &state = found->state;
      Json json;
      json["path"] = found->path;
      json["step"] = state.step;
      json["seed"] = state.seed;
      json["order"] = state.order;
      json["data_tokens"] = state.dataTokens;
      json["scalars"] = state.scalars;
      text = json.dump(-1, ' ', false, Json::error_handler_t::ignore);
    }
  text = communicator.broadcastText(text);
  if (text.empty())
    return std::nullopt;
  Json json = Json::parse(text);
  return FoundCheckpoint{json.at("path").get<std::string>(), stateFrom(json)};
}

void sheaf::loadCheckpoint(Program &program,
                           const FoundCheckpoint &checkpoint) {
  readExact(program, checkpoint.path + "/" + parametersFile,
            {BufferKind::Parameter});
  readExact(program, checkpoint.path + "/" + optimizerFile, optimizerKinds);
}
