#include "sheaf/Weights.h"
#include "sheaf/Error.h"
#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

using namespace sheaf;

NamedTensor sheaf::wholeTensor(const Program &program, int index,
                               const std::string &name) {
  const BufferInfo &buffer = program.manifest.buffers[index];
  NamedTensor tensor{
      name, buffer.type, buffer.layout.global, program.data(index), {}};
  if (buffer.layout.isElsewhere())
    tensor.fetch = [&program, index, space = std::make_shared<Memory>()] {
      return program.whole(index, *space);
    };
  return tensor;
}

void sheaf::writeTensors(const Program &program, const std::string &path,
                         const std::vector<NamedTensor> &tensors,
                         const std::map<std::string, std::string> &metadata) {
  if (program.isRoot())
    return writeSafetensors(path, tensors, metadata);
  for (const NamedTensor &tensor : tensors)
    if (tensor.fetch)
      tensor.fetch();
}

void sheaf::saveTensors(const Program &program, const std::string &path,
                        const std::vector<BufferKind> &kinds,
                        const std::map<std::string, std::string> &metadata) {
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < program.manifest.buffers.size(); ++i) {
    const BufferInfo &buffer = program.manifest.buffers[i];
    int index = static_cast<int>(i);
    if (program.isPresent(index) &&
        std::find(kinds.begin(), kinds.end(), buffer.kind) != kinds.end())
      tensors.push_back(wholeTensor(program, index, buffer.key()));
  }
  writeTensors(program, path, tensors, metadata);
}

void sheaf::readPart(
    Program &program, int index, const SafetensorsFile &file,
    const std::vector<const SafetensorsFile::Tensor *> &parts) {
  const BufferInfo &buffer = program.manifest.buffers[index];
  char *to = static_cast<char *>(program.data(index));
  if (!to) // Other ranks have it.
    return;
  // All ones is -1: the target that no loss counts.
  if (buffer.layout.isSharded())
    std::memset(to, buffer.role == BatchRole::Targets ? 0xff : 0, buffer.bytes);
  buffer.layout.forEachRun(
      program.communicator().place(),
      [&](int64_t local, int64_t global, int64_t length) {
        // A run may go over several parts.
        while (length > 0) {
          int64_t each = parts[0]->elements;
          int64_t at = global % each;
          int64_t count = std::min(length, each - at);
          file.readRange(*parts[global / each], buffer.type, at, count,
                         to + local * elementSize(buffer.type));
          local += count;
          global += count;
          length -= count;
        }
      });
}

/// Where the f32 value of a parameter is: a master, or itself; -1 where this
/// program has neither.
static int valueOf(const Program &program, int parameter) {
  int master = program.manifest.find(BufferKind::Master,
                                     program.manifest.buffers[parameter].name);
  for (int index : {master, parameter})
    if (index >= 0 && program.isPresent(index))
      return index;
  return -1;
}

void sheaf::saveWeights(const Program &program, const std::string &path) {
  std::vector<NamedTensor> tensors;
  for (int index : program.manifest.ofKind(BufferKind::Parameter))
    if (int value = valueOf(program, index); value >= 0)
      tensors.push_back(
          wholeTensor(program, value, program.manifest.buffers[index].key()));
  // "pt" is what Hugging Face's loader asks for.
  writeTensors(program, path, tensors, {{"format", "pt"}});
}

namespace {
constexpr std::string_view prefixes[] = {"transformer.", "model."};

bool endsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() &&
         text.substr(text.size() - end.size()) == end;
}

using Tensor = SafetensorsFile::Tensor;

const Tensor *findTensor(const SafetensorsFile &file, const std::string &name) {
  auto look = [&](const std::string &key) -> const Tensor * {
    auto it = file.tensors.find(key);
    return it == file.tensors.end() ? nullptr : &it->second;
  };
  if (const Tensor *tensor = look(name))
    return tensor;
  for (std::string_view prefix : prefixes) {
    if (name.rfind(prefix, 0) == 0)
      if (const Tensor *tensor = look(name.substr(prefix.size())))
        return tensor;
    if (const Tensor *tensor = look(std::string(prefix) + name))
      return tensor;
  }
  return nullptr;
}

/// Tensors of Hugging Face's files that are no parameters: causal masks and
/// rotary frequencies.
bool isBuffer(const std::string &name) {
  return endsWith(name, ".attn.bias") || endsWith(name, ".attn.masked_bias") ||
         endsWith(name, "rotary_emb.inv_freq");
}

/// A tied head that the file holds once more must be the embedding.
void checkTiedHead(const SafetensorsFile &file, const Tensor &head) {
  for (const auto &[name, tensor] : file.tensors) {
    if (!endsWith(name, "wte.weight") && !endsWith(name, "embed_tokens.weight"))
      continue;
    bool equal = tensor.shape == head.shape && tensor.type == head.type;
    if (equal) {
      std::vector<char> a(head.bytes), b(tensor.bytes);
      file.read(head, head.type, a.data());
      file.read(tensor, tensor.type, b.data());
      equal = a == b;
    }
    if (!equal)
      fail("{}: '{}' differs from '{}', but the model ties them; compile a "
           "model with an untied head",
           file.path, head.name, name);
  }
}

std::string listed(const std::vector<std::string> &names) {
  constexpr size_t most = 8;
  std::vector<std::string> shown(names.begin(),
                                 names.begin() + std::min(most, names.size()));
  std::string text = fmt::format("\n  {}", fmt::join(shown, "\n  "));
  if (names.size() > most)
    text += fmt::format("\n  and {} more", names.size() - most);
  return text;
}
} // namespace

void sheaf::loadWeights(Program &program, const std::string &path) {
  SafetensorsFile file(path);
  std::vector<std::pair<int, std::vector<const Tensor *>>> found;
  std::vector<std::string> missing, extra, different;
  std::set<std::string> used;
  bool hasHead = false;
  for (int index : program.manifest.ofKind(BufferKind::Parameter)) {
    const BufferInfo &buffer = program.manifest.buffers[index];
    hasHead |= buffer.name == "lm_head.weight";
    Shape shape = partShape(buffer.name, buffer.layout.global);
    std::vector<const Tensor *> parts;
    for (const std::string &name :
         partNames(buffer.name, buffer.layout.global)) {
      const Tensor *tensor = findTensor(file, name);
      if (!tensor) {
        missing.push_back(fmt::format("'{}' {}", name, shapeText(shape)));
        continue;
      }
      used.insert(tensor->name);
      if (tensor->shape != shape)
        different.push_back(fmt::format("'{}': the file has {}, the model {}",
                                        name, shapeText(tensor->shape),
                                        shapeText(shape)));
      else if (!isFloat(tensor->type))
        different.push_back(
            fmt::format("'{}': the file has elements of type {}, the model {}",
                        name, typeName(tensor->type), typeName(buffer.type)));
      else
        parts.push_back(tensor);
    }
    found.emplace_back(index, std::move(parts));
  }
  for (const auto &[name, tensor] : file.tensors) {
    if (used.count(name) || isBuffer(name))
      continue;
    if (name == "lm_head.weight" && !hasHead)
      checkTiedHead(file, tensor);
    else
      extra.push_back(fmt::format("'{}' {}", name, shapeText(tensor.shape)));
  }
  if (!missing.empty() || !extra.empty() || !different.empty()) {
    std::string text;
    if (!missing.empty())
      text += fmt::format("\nmissing from the file ({}):{}", missing.size(),
                          listed(missing));
    if (!different.empty())
      text += fmt::format("\ndifferent ({}):{}", different.size(),
                          listed(different));
    if (!extra.empty())
      text += fmt::format("\nnot in the model ({}):{}", extra.size(),
                          listed(extra));
    fail("{}: the tensors are not the model's parameters{}", path, text);
  }
  for (const auto &[index, parts] : found) {
    if (!program.isPresent(index))
      fail("parameter '{}' is used by no entry",
           program.manifest.buffers[index].name);
    readPart(program, index, file, parts);
    if (int value = valueOf(program, index); value != index)
      readPart(program, value, file, parts);
  }
}
