#include "sheaf/Error.h"
#include "sheaf/Training.h"
#include "sheaf/Weights.h"
#include <algorithm>
#include <set>
#include <sstream>

using namespace sheaf;

namespace {
std::vector<std::string> namedEntries(const std::string &text,
                                      const Manifest &manifest) {
  std::vector<std::string> names;
  if (text == "all") {
    for (const EntryInfo &entry : manifest.entries)
      names.push_back(entry.name);
    return names;
  }
  std::istringstream in(text);
  std::string name;
  while (std::getline(in, name, ','))
    names.push_back(manifest.entry(name).name);
  return names;
}

/// KIND:NAME, as docs/design/artifact.md says.
std::string tensorName(const BufferInfo &buffer) {
  return fmt::format("{}:{}", kindName(buffer.kind), buffer.name);
}

/// Reads the tensors of a file into the buffers whose keys they carry.
void readInputs(Program &program, const std::vector<int> &buffers,
                const std::string &path) {
  SafetensorsFile file(path);
  std::set<std::string> used;
  for (int index : buffers) {
    const BufferInfo &buffer = program.manifest.buffers[index];
    std::string key = tensorName(buffer);
    Shape shape = partShape(key, buffer.layout.global);
    std::vector<std::string> names = partNames(key, buffer.layout.global);
    std::vector<const SafetensorsFile::Tensor *> parts;
    for (const std::string &name : names) {
      auto it = file.tensors.find(name);
      if (it == file.tensors.end())
        continue;
      const SafetensorsFile::Tensor &tensor = it->second;
      if (tensor.type != buffer.type || tensor.shape != shape)
        fail("{}: tensor '{}' is {} {}, the buffer is {} {}", path, name,
             typeName(tensor.type), shapeText(tensor.shape),
             typeName(buffer.type), shapeText(shape));
      parts.push_back(&tensor);
      used.insert(name);
    }
    if (!parts.empty() && parts.size() != names.size())
      fail("{}: has {} of the {} tensors of '{}'; expected all or none", path,
           parts.size(), names.size(), key);
    if (!parts.empty())
      readPart(program, index, file, parts);
  }
  for (const auto &[name, tensor] : file.tensors)
    if (!used.count(name)) {
      std::vector<std::string> keys;
      for (int index : buffers)
        keys.push_back(tensorName(program.manifest.buffers[index]));
      fail("{}: the entries called have no buffer '{}'; they have {}", path,
           name, fmt::join(keys, ", "));
    }
}
} // namespace

int sheaf::callEntries(const RunOptions &options, CpuDevice &device,
                       const Artifact &artifact) {
  const Manifest &manifest = artifact.manifest;
  Program program(artifact, device);
  std::vector<std::string> entries = namedEntries(options.call, manifest);
  program.prepare(entries);
  std::vector<int> buffers;
  for (const std::string &name : entries)
    for (int index : manifest.entry(name).arguments)
      buffers.push_back(index);
  std::sort(buffers.begin(), buffers.end());
  buffers.erase(std::unique(buffers.begin(), buffers.end()), buffers.end());

  program.setStep(options.seed.value_or(0), 0);
  setScalars(program, options.scalars);
  if (!options.inputs.empty())
    readInputs(program, buffers, options.inputs);
  MachineLimits limits = startProfile(options, device, manifest);
  for (const std::string &name : entries)
    program.call(name);
  finishProfile(options, device, limits);

  if (options.outputs.empty())
    return 0;
  std::vector<NamedTensor> tensors;
  for (int index : buffers) {
    const BufferInfo &buffer = manifest.buffers[index];
    tensors.push_back(wholeTensor(program, index, tensorName(buffer)));
  }
  writeTensors(program, options.outputs, tensors);
  return 0;
}
