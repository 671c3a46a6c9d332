#include "sheaf/Error.h"
#include "sheaf/Files.h"
#include "sheaf/Training.h"
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

using namespace sheaf;

std::string sheaf::logLine(const StepRecord &record, int digits) {
  std::string line = fmt::format("{{\"step\": {}", record.step);
  auto add = [&](const std::string &name, double value) {
    std::string key = nlohmann::json(name).dump();
    line += std::isfinite(value)
                ? fmt::format(", {}: {:.{}g}", key, value, digits)
                : fmt::format(", {}: null", key);
  };
  add("loss", record.loss);
  add("grad_norm", record.gradientNorm);
  add("lr", record.learningRate);
  add("tokens_per_s", record.tokensPerSecond);
  add("step_ms", record.milliseconds);
  if (record.mfu)
    add("mfu", *record.mfu);
  for (const auto &[name, value] : record.other)
    add(name, value);
  if (record.evalLoss)
    add("eval_loss", *record.evalLoss);
  return line + "}\n";
}

namespace {
/// The whole lines of a log that belong to steps before `step`. The last line
/// may be cut, where the run was killed.
std::string linesBefore(const std::string &path, int64_t step) {
  std::ifstream in(path);
  std::string kept, line;
  while (std::getline(in, line)) {
    nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("step") &&
        json["step"].is_number_integer() && json["step"].get<int64_t>() < step)
      kept += line + "\n";
  }
  return kept;
}
} // namespace

Log::Log(std::string path_, int64_t resumeAt) : path(std::move(path_)) {
  if (path.empty())
    return;
  struct stat info;
  bool isFile = stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  if (resumeAt >= 0 && isFile)
    writeFile(path, linesBefore(path, resumeAt));
  int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  if (resumeAt < 0)
    flags |= O_TRUNC;
  file = open(path.c_str(), flags, 0666);
  if (file < 0)
    fail("{}: cannot open the log: {}", path, std::strerror(errno));
}

Log::~Log() {
  if (file >= 0)
    close(file);
}

void Log::write(const std::string &line) {
  if (file < 0)
    return;
  size_t done = 0;
  while (done < line.size()) {
    ssize_t wrote = ::write(file, line.data() + done, line.size() - done);
    if (wrote < 0 && errno == EINTR)
      continue;
    if (wrote < 0)
      fail("{}: cannot write the log: {}", path, std::strerror(errno));
    done += wrote;
  }
}
