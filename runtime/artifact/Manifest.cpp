#include "sheaf/Manifest.h"
#include "sheaf/Error.h"
#include "sheaf/Json.h"
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

using namespace sheaf;
using Json = nlohmann::ordered_json;

namespace {
constexpr std::array<std::string_view, bufferKinds> kinds = {
    "parameter", "moment1",  "moment2", "momentum", "master",
    "scaling",   "gradient", "batch",   "rng",      "step",
    "scalar",    "result",   "input",   "output",   "coordinates"};
constexpr std::array<std::string_view, 5> roles = {"", "tokens", "targets",
                                                   "positions", "documents"};

constexpr std::array<const char *, 5> arenaKinds = {
    "weights", "gradients", "activations", "temporaries", "unused"};

/// Largest value of a size in a manifest, in bytes or elements: far beyond any
/// machine, and sums of many of them fit 64 bits.
constexpr int64_t largest = int64_t{1} << 48;

/// Typed access to the fields of one object; `where` names it in messages.
class Object {
public:
  Object(const Json &json, std::string where)
      : where(std::move(where)), json(json) {
    if (!json.is_object())
      fail("manifest: {} is {}; expected an object", this->where,
           json.type_name());
  }

  const Json *find(const char *key) const {
    auto it = json.find(key);
    return it == json.end() ? nullptr : &*it;
  }

  const Json &at(const char *key) const {
    if (const Json *value = find(key))
      return *value;
    fail("manifest: {} has no \"{}\"", where, key);
  }

  std::string text(const char *key) const {
    const Json &value = at(key);
    if (!value.is_string())
      wrong(key, value, "a string");
    return value.get<std::string>();
  }
  std::string text(const char *key, const char *otherwise) const {
    return find(key) ? text(key) : otherwise;
  }

  int64_t integer(const char *key, int64_t least, int64_t most) const {
    return integerOf(at(key), key, least, most);
  }
  int64_t integer(const char *key, int64_t least, int64_t most,
                  int64_t otherwise) const {
    return find(key) ? integer(key, least, most) : otherwise;
  }

  /// A finite number.
  double number(const char *key, double otherwise) const {
    const Json *value = find(key);
    if (!value)
      return otherwise;
    if (!value->is_number() || !std::isfinite(value->get<double>()))
      wrong(key, *value, "a finite number");
    return value->get<double>();
  }

  bool flag(const char *key, bool otherwise) const {
    const Json *value = find(key);
    if (!value)
      return otherwise;
    if (!value->is_boolean())
      wrong(key, *value, "true or false");
    return value->get<bool>();
  }

  /// Null where the field is absent and not required.
  const Json *array(const char *key, bool required) const {
    const Json *value = required ? &at(key) : find(key);
    if (value && !value->is_array())
      wrong(key, *value, "an array");
    return value;
  }

  std::vector<int64_t> integers(const char *key, int64_t least,
                                int64_t most) const {
    std::vector<int64_t> values;
    for (const Json &value : *array(key, true))
      values.push_back(integerOf(value, key, least, most));
    return values;
  }

  std::string where;

private:
  int64_t integerOf(const Json &value, const char *key, int64_t least,
                    int64_t most) const {
    bool fits = value.is_number_integer() &&
                (!value.is_number_unsigned() ||
                 value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
    if (!fits || value.get<int64_t>() < least || value.get<int64_t>() > most)
      wrong(key, value,
            fmt::format("a whole number from {} to {}", least, most));
    return value.get<int64_t>();
  }

  [[noreturn]] void wrong(const char *key, const Json &value,
                          std::string_view expected) const {
    fail("manifest: \"{}\" of {} is {}; expected {}", key, where,
         jsonText(value), expected);
  }

  const Json &json;
};

/// Names reach messages, files and terminals: no control characters.
void checkName(const std::string &name, const std::string &where) {
  if (name.empty() || name.size() > 4096 ||
      std::any_of(name.begin(), name.end(),
                  [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    fail("manifest: the name of {} is empty, longer than 4096 bytes or has a "
         "control character",
         where);
}

Mesh parseMesh(const Json &json) {
  Object object(json, "\"mesh\"");
  Mesh mesh;
  if (const Json *axes = object.array("axes", false)) {
    size_t index = 0;
    for (const Json &value : *axes) {
      Object axis(value, fmt::format("axis {} of \"mesh\"", index++));
      std::string name = axis.text("name");
      if (name.empty() ||
          !std::all_of(name.begin(), name.end(), [](unsigned char c) {
            return std::isalnum(c) || c == '_';
          }))
        fail("manifest: {} has name \"{}\"; expected letters, digits and '_'",
             axis.where, name);
      for (const MeshAxis &other : mesh.axes)
        if (other.name == name)
          fail("manifest: \"mesh\" has two axes '{}'", name);
      mesh.axes.push_back({name, axis.integer("size", 1, 1 << 20)});
      if (mesh.ranks() > 1 << 20)
        fail("manifest: \"mesh\" has more than {} ranks", 1 << 20);
    }
  }
  int64_t ranks = object.integer("ranks", 1, 1 << 20, mesh.ranks());
  if (ranks != mesh.ranks())
    fail("manifest: \"mesh\" has {} ranks, the product of its axes is {}",
         ranks, mesh.ranks());
  if (object.find("devices")) {
    mesh.devices = object.integers("devices", 0, ranks - 1);
    std::vector<int64_t> sorted = mesh.devices;
    std::sort(sorted.begin(), sorted.end());
    if (static_cast<int64_t>(sorted.size()) != ranks ||
        std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      fail("manifest: \"mesh\" lists the devices {}; expected each rank from 0 "
           "to {} once",
           fmt::join(mesh.devices, ", "), ranks - 1);
  }
  return mesh;
}

/// Reads "sharding" and "global_shape" and checks that "shape" is what they
/// give.
Layout parseLayout(const Object &object, const BufferInfo &buffer,
                   const Mesh &mesh, int64_t microbatches) {
  Layout layout;
  layout.local = layout.global = buffer.shape;
  const Json *sharding = object.array("sharding", false);
  if (object.find("global_shape"))
    layout.global = object.integers("global_shape", 0, largest);
  if (object.find("blocks"))
    layout.blocks = object.integers("blocks", 1, 1 << 30);
  else if (buffer.kind == BufferKind::Batch && !buffer.shape.empty()) {
    layout.blocks.assign(buffer.shape.size(), 1);
    layout.blocks[0] = microbatches;
  }
  std::optional<int64_t> elements =
      elementCount(layout.global, elementSize(buffer.type));
  if (!elements || *elements * elementSize(buffer.type) > largest)
    fail("manifest: {} with global shape {} is larger than {}", object.where,
         shapeText(layout.global), bytesText(largest));
  if (layout.global.size() != buffer.shape.size() ||
      (sharding && sharding->size() != buffer.shape.size()) ||
      (!layout.blocks.empty() && layout.blocks.size() != buffer.shape.size()))
    fail("manifest: {} has shape {}, global shape {}, a sharding of {} "
         "dimensions and "
         "blocks of {}; expected equally many",
         object.where, shapeText(buffer.shape), shapeText(layout.global),
         sharding ? sharding->size() : buffer.shape.size(),
         layout.blocks.empty() ? buffer.shape.size() : layout.blocks.size());
  std::vector<AxisPart> used;
  if (sharding)
    for (const Json &dimension : *sharding) {
      layout.axes.emplace_back();
      if (!dimension.is_array())
        fail("manifest: \"sharding\" of {} has a dimension that is {}; "
             "expected an "
             "array of axes",
             object.where, dimension.type_name());
      for (const Json &axis : dimension) {
        if (!axis.is_string())
          fail("manifest: \"sharding\" of {} has an axis that is {}; expected "
               "a name",
               object.where, axis.type_name());
        AxisPart part;
        try {
          part = mesh.parse(axis.get<std::string>());
        } catch (const Error &error) {
          fail("manifest: \"sharding\" of {}: {}", object.where, error.what());
        }
        for (const AxisPart &other : used)
          if (std::max(part.stride, other.stride) <
              std::min(part.stride * part.size, other.stride * other.size))
            fail("manifest: \"sharding\" of {} uses '{}' and '{}', which "
                 "overlap; an "
                 "axis cuts one dimension, once",
                 object.where, other.text, part.text);
        if (part.size > 1)
          used.push_back(part);
        layout.axes.back().push_back(std::move(part));
      }
    }
  for (size_t dim = 0; layout.isSharded() && dim < layout.global.size(); ++dim)
    if (layout.global[dim] % layout.blocksOf(dim) != 0)
      fail("manifest: {} has dimension {} of {}, which {} blocks (of a batch, "
           "its "
           "microbatches) do not divide",
           object.where, dim, layout.global[dim], layout.blocksOf(dim));
  Shape expected;
  for (size_t dim = 0; dim < layout.global.size(); ++dim)
    expected.push_back(layout.localSize(dim));
  if (expected != buffer.shape)
    fail("manifest: {} has shape {}; global shape {} and its sharding give {}",
         object.where, shapeText(buffer.shape), shapeText(layout.global),
         shapeText(expected));
  return layout;
}

BufferInfo parseBuffer(const Json &json, size_t index, const Mesh &mesh,
                       int64_t microbatches) {
  Object object(json, fmt::format("buffer {}", index));
  BufferInfo buffer;
  buffer.name = object.text("name");
  checkName(buffer.name, object.where);
  object.where += fmt::format(" ('{}')", buffer.name);

  std::string kind = object.text("kind");
  auto foundKind = std::find(kinds.begin(), kinds.end(), kind);
  if (foundKind == kinds.end())
    fail("manifest: {} has kind \"{}\"; expected one of {}", object.where, kind,
         fmt::join(kinds, ", "));
  buffer.kind = static_cast<BufferKind>(foundKind - kinds.begin());

  std::string type = object.text("dtype");
  std::optional<SheafType> foundType = typeFromName(type);
  if (!foundType)
    fail("manifest: {} has dtype \"{}\"; expected f64, f32, bf16, f16, f8e4m3, "
         "f8e5m2, f8e8m0, i64, i32, i8 or i1",
         object.where, type);
  buffer.type = *foundType;

  buffer.shape = object.integers("shape", 0, largest);
  std::optional<int64_t> elements =
      elementCount(buffer.shape, elementSize(buffer.type));
  if (!elements || *elements * elementSize(buffer.type) > largest)
    fail("manifest: {} with shape {} is larger than {}", object.where,
         shapeText(buffer.shape), bytesText(largest));
  buffer.elements = *elements;
  buffer.bytes = *elements * elementSize(buffer.type);
  buffer.frozen = object.flag("frozen", false);
  buffer.decay = object.flag("decay", true);

  auto require = [&](bool fits, const char *expected) {
    if (!fits)
      fail("manifest: {} is {} {}; expected {}", object.where, type,
           shapeText(buffer.shape), expected);
  };
  bool isInteger = buffer.type == SHEAF_I32 || buffer.type == SHEAF_I64;
  switch (buffer.kind) {
  case BufferKind::Batch: {
    std::string role = object.text("role");
    auto found = std::find(roles.begin() + 1, roles.end(), role);
    if (found == roles.end())
      fail("manifest: {} has role \"{}\"; expected tokens, targets, positions "
           "or documents",
           object.where, role);
    buffer.role = static_cast<BatchRole>(found - roles.begin());
    require(isInteger && buffer.shape.size() == 2,
            "i32 or i64 of shape [batch, seq]");
    break;
  }
  case BufferKind::Rng:
    require(buffer.type == SHEAF_I32 && buffer.shape == Shape{4}, "i32 [4]");
    break;
  case BufferKind::Step:
    require(isInteger && buffer.elements == 1, "one i32 or i64");
    break;
  case BufferKind::Scalar:
    require(
        (buffer.type == SHEAF_F32 || buffer.type == SHEAF_F64 || isInteger) &&
            buffer.elements == 1,
        "one f32, f64, i32 or i64");
    buffer.value = object.number("value", 0);
    break;
  case BufferKind::Coordinates:
    require(buffer.type == SHEAF_I32 &&
                buffer.shape == Shape{static_cast<int64_t>(mesh.axes.size())},
            "i32 of one element for each axis of the mesh");
    break;
  default:
    break;
  }
  buffer.layout = parseLayout(object, buffer, mesh, microbatches);
  return buffer;
}

EntryInfo parseEntry(const std::string &name, const Json &json,
                     const std::string &where,
                     const std::vector<BufferInfo> &buffers) {
  Object object(json, where);
  EntryInfo entry;
  entry.name = name;
  entry.symbol = object.text("symbol");
  if (entry.symbol.empty() ||
      !std::all_of(entry.symbol.begin(), entry.symbol.end(),
                   [](unsigned char c) {
                     return std::isalnum(c) || c == '_' || c == '.' || c == '$';
                   }))
    fail("manifest: {} has symbol \"{}\"; expected letters, digits, '_', '.' "
         "and '$'",
         object.where, entry.symbol);
  for (int64_t index : object.integers(
           "arguments", 0, static_cast<int64_t>(buffers.size()) - 1))
    entry.arguments.push_back(static_cast<int>(index));
  entry.arenaBytes = object.integer("arena_bytes", 0, largest);
  if (object.find("gathered_bytes"))
    entry.gatheredBytes = object.integer("gathered_bytes", 0, entry.arenaBytes);
  if (object.find("peak_bytes"))
    entry.peakBytes = object.integer("peak_bytes", 0, largest);
  entry.peakAction = object.text("peak_action", "");
  if (const Json *arena = object.find("arena"); arena && !arena->empty()) {
    Object kinds(*arena, fmt::format("\"arena\" of {}", object.where));
    int64_t sum = 0;
    for (const char *kind : arenaKinds) {
      // Not every step makes payloads of its parameters.
      if (kind == arenaKinds[0] && !kinds.find(kind))
        continue;
      entry.arena.emplace_back(kind, kinds.integer(kind, 0, largest));
      sum += entry.arena.back().second;
    }
    if (sum != entry.arenaBytes || arena->size() != entry.arena.size())
      fail("manifest: \"arena\" of {} has {} bytes in {} kinds; expected the "
           "{} of "
           "\"arena_bytes\" as {}",
           object.where, sum, arena->size(), entry.arenaBytes,
           fmt::join(arenaKinds, ", "));
  }
  return entry;
}

/// The pipeline's axis, or -1.
int pipelineAxis(const Mesh &mesh) {
  for (size_t i = 0; i < mesh.axes.size(); ++i)
    if (mesh.axes[i].name == "pp")
      return static_cast<int>(i);
  return -1;
}

/// An entry, which is one for all ranks or has one for each place along the
/// pipeline.
EntryInfo parseEntry(const std::string &name, const Json &json,
                     const Manifest &manifest) {
  std::string where = fmt::format("entry '{}'", name);
  checkName(name, where);
  Object object(json, where);
  const Json *stages = object.array("stages", false);
  if (!stages)
    return parseEntry(name, json, where, manifest.buffers);
  int axis = pipelineAxis(manifest.mesh);
  int64_t places = axis < 0 ? 0 : manifest.mesh.axes[axis].size;
  if (static_cast<int64_t>(stages->size()) != places)
    fail("manifest: {} has {} stages; expected one for each of the {} places "
         "along the axis pp",
         where, stages->size(), places);
  EntryInfo entry;
  entry.name = name;
  entry.arenaBytes = 0;
  std::set<int> arguments;
  for (const Json &value : *stages) {
    EntryInfo stage = parseEntry(
        name, value, fmt::format("stage {} of {}", entry.stages.size(), where),
        manifest.buffers);
    arguments.insert(stage.arguments.begin(), stage.arguments.end());
    if (entry.stages.empty() || stage.arenaBytes > entry.arenaBytes) {
      entry.arenaBytes = stage.arenaBytes;
      entry.arena = stage.arena;
    }
    entry.gatheredBytes = std::max(entry.gatheredBytes, stage.gatheredBytes);
    entry.stages.push_back(std::move(stage));
  }
  entry.arguments.assign(arguments.begin(), arguments.end());
  return entry;
}

/// Which places along the pipeline have each buffer.
void placeBuffers(Manifest &manifest) {
  int axis = pipelineAxis(manifest.mesh);
  if (axis < 0)
    return;
  int64_t places = manifest.mesh.axes[axis].size;
  std::vector<std::set<int64_t>> having(manifest.buffers.size());
  for (const EntryInfo &entry : manifest.entries)
    for (int64_t place = 0; place < places; ++place)
      for (int index : entry.at(place).arguments)
        having[index].insert(place);
  for (size_t i = 0; i < having.size(); ++i) {
    if (having[i].empty() || static_cast<int64_t>(having[i].size()) == places)
      continue;
    BufferInfo &buffer = manifest.buffers[i];
    buffer.stages.assign(having[i].begin(), having[i].end());
    buffer.layout.first = buffer.stages[0] * manifest.mesh.stride(axis);
  }
}

/// What entries of a training artifact rely on.
void checkTraining(const Manifest &manifest) {
  const ModelInfo &model = manifest.model;
  std::map<std::string, const BufferInfo *> parameters;
  for (const BufferInfo &buffer : manifest.buffers)
    if (buffer.kind == BufferKind::Parameter)
      parameters[buffer.name] = &buffer;
  for (const BufferInfo &buffer : manifest.buffers) {
    if (buffer.kind == BufferKind::Batch &&
        buffer.layout.global != Shape{model.batch, model.sequence})
      fail("manifest: batch buffer '{}' has shape {}; expected [batch, seq] = "
           "{} of \"model\"",
           buffer.name, shapeText(buffer.layout.global),
           shapeText({model.batch, model.sequence}));
    if (buffer.kind >= BufferKind::Moment1 &&
        buffer.kind <= BufferKind::Gradient &&
        buffer.kind != BufferKind::Scaling) {
      auto it = parameters.find(buffer.name);
      if (it == parameters.end())
        fail("manifest: {} '{}' belongs to no parameter of that name",
             kindName(buffer.kind), buffer.name);
      if (it->second->layout.global != buffer.layout.global)
        fail("manifest: {} '{}' has shape {}, its parameter {}",
             kindName(buffer.kind), buffer.name,
             shapeText(buffer.layout.global),
             shapeText(it->second->layout.global));
    }
  }
}
} // namespace

std::string_view sheaf::kindName(BufferKind kind) {
  return kinds[static_cast<int>(kind)];
}

std::vector<std::pair<std::string, int64_t>>
sheaf::memoryOf(const Manifest &manifest, const EntryInfo &entry) {
  std::vector<std::pair<std::string, int64_t>> sums = {
      {"parameters", 0},      {"weights", 0},     {"gradients", 0},
      {"optimizer state", 0}, {"activations", 0}, {"temporaries", 0},
      {"unused", 0},          {"batch", 0},       {"other", 0}};
  auto add = [&](std::string_view kind, int64_t bytes) {
    for (auto &[name, sum] : sums)
      if (name == kind)
        sum += bytes;
  };
  if (!entry.stages.empty()) {
    // Of the rank that needs most.
    int64_t most = -1;
    for (const EntryInfo &stage : entry.stages) {
      auto own = memoryOf(manifest, stage);
      int64_t all = 0;
      for (const auto &[kind, bytes] : own)
        all += bytes;
      if (all > most) {
        most = all;
        sums = own;
      }
    }
    return sums;
  }
  for (int index : entry.arguments) {
    const BufferInfo &buffer = manifest.buffers[index];
    switch (buffer.kind) {
    case BufferKind::Parameter:
      add("parameters", buffer.bytes);
      break;
    case BufferKind::Moment1:
    case BufferKind::Moment2:
    case BufferKind::Momentum:
    case BufferKind::Master:
    case BufferKind::Scaling:
      add("optimizer state", buffer.bytes);
      break;
    case BufferKind::Gradient:
      add("gradients", buffer.bytes);
      break;
    case BufferKind::Batch:
      add("batch", buffer.bytes);
      break;
    default:
      add("other", buffer.bytes);
    }
  }
  for (const auto &[kind, bytes] : entry.arena)
    add(kind, bytes);
  if (entry.arena.empty())
    add("temporaries", entry.arenaBytes);
  std::erase_if(sums, [](const auto &sum) {
    return sum.first == "weights" && sum.second == 0;
  });
  return sums;
}

bool sheaf::isState(BufferKind kind) { return kind <= BufferKind::Scaling; }

std::string BufferInfo::key() const {
  if (kind >= BufferKind::Moment1 && kind <= BufferKind::Gradient)
    return fmt::format("{}:{}", kindName(kind), name);
  return name;
}

Manifest Manifest::parse(std::string_view text) {
  Json json = parseJson(text, "manifest");
  Object top(json, "the top level");
  int64_t abi = top.integer("abi", 0, largest);
  if (abi != SHEAF_ABI_VERSION)
    fail("the artifact's manifest is of ABI version {}, this runtime of {}; "
         "compile the model again with the sheaf-compile beside this runtime",
         abi, SHEAF_ABI_VERSION);

  Manifest manifest;
  auto texts = [&](const char *key, std::vector<std::string> &list) {
    if (const Json *values = top.array(key, false))
      for (const Json &value : *values) {
        if (!value.is_string())
          fail("manifest: \"{}\" has an element that is no string", key);
        list.push_back(value.get<std::string>());
      }
  };
  manifest.producer = top.text("producer", "unknown");
  manifest.target = top.text("target", "cpu");
  manifest.wire = top.text("wire", "");
  manifest.cpu = top.text("cpu", "");
  texts("cpu_features", manifest.cpuFeatures);
  texts("actions", manifest.actions);
  texts("schedule", manifest.schedule);
  if (const Json *mesh = top.find("mesh"))
    manifest.mesh = parseMesh(*mesh);
  manifest.ranks = manifest.mesh.ranks();

  if (const Json *value = top.find("model")) {
    Object object(*value, "\"model\"");
    ModelInfo &model = manifest.model;
    model.name = object.text("name", "model");
    model.batch = object.integer("batch", 1, 1 << 30, 0);
    model.sequence = object.integer("seq", 1, 1 << 30, 0);
    model.vocab = object.integer("vocab", 1, INT32_MAX, 0);
    model.microbatches = object.integer("microbatches", 1, 1 << 30, 1);
    model.parameters = object.integer("parameters", 0, largest, 0);
    model.flopsPerStep = object.number("flops_per_step", 0);
    model.precision = object.text("precision", "fp32");
    model.isStep = object.flag("is_step", false);
    if (const Json *more = object.array("precision_options", false))
      for (const Json &option : *more) {
        if (!option.is_string() ||
            option.get<std::string>().rfind("--", 0) != 0)
          fail("manifest: \"precision_options\" of {} has {}; expected an "
               "option of sheaf-compile",
               object.where, option.dump());
        model.precisionOptions.push_back(option.get<std::string>());
      }
  }

  size_t index = 0;
  std::set<std::pair<BufferKind, std::string>> seen;
  std::set<std::string> keys;
  for (const Json &value : *top.array("buffers", true)) {
    BufferInfo buffer =
        parseBuffer(value, index++, manifest.mesh, manifest.model.microbatches);
    if (!seen.emplace(buffer.kind, buffer.name).second)
      fail("manifest: there are two buffers '{}' of kind {}", buffer.name,
           kindName(buffer.kind));
    if (!keys.insert(buffer.key()).second)
      fail("manifest: two buffers share the name '{}'", buffer.key());
    manifest.buffers.push_back(std::move(buffer));
  }

  const Json &entries = top.at("entries");
  Object(entries, "\"entries\"");
  for (const auto &[name, value] : entries.items())
    manifest.entries.push_back(parseEntry(name, value, manifest));
  placeBuffers(manifest);

  index = 0;
  if (const Json *kernels = top.array("kernels", false))
    for (const Json &value : *kernels) {
      Object object(value, fmt::format("kernel {}", index++));
      KernelInfo kernel;
      kernel.name = object.text("name");
      kernel.kind = object.text("kind", "kernel");
      kernel.location = object.text("loc", "");
      kernel.flops = object.number("flops", 0);
      kernel.bytes = object.number("bytes", 0);
      kernel.narrowBytes = object.number("narrow_bytes", -1);
      if (object.find("type")) {
        kernel.type = typeFromName(object.text("type"));
        if (!kernel.type)
          fail("manifest: {} has type \"{}\"; expected an element type, such "
               "as bf16",
               object.where, object.text("type"));
      }
      manifest.kernels.push_back(std::move(kernel));
    }
  index = 0;
  if (const Json *collectives = top.array("collectives", false))
    for (const Json &value : *collectives) {
      Object object(value, fmt::format("collective {}", index++));
      manifest.collectives.push_back({object.text("name", ""),
                                      object.text("purpose", ""),
                                      object.text("loc", "")});
      manifest.purposes.push_back(manifest.collectives.back().purpose);
      manifest.transfers.push_back(manifest.collectives.back().name);
    }
  checkTraining(manifest);
  return manifest;
}

int64_t Manifest::stageOf(int64_t rank) const {
  int axis = pipelineAxis(mesh);
  return axis < 0 ? 0 : mesh.coordinates(rank)[axis];
}

int Manifest::find(BufferKind kind, std::string_view name) const {
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].kind == kind && buffers[i].name == name)
      return static_cast<int>(i);
  return -1;
}

int Manifest::findRole(BatchRole role) const {
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].role == role)
      return static_cast<int>(i);
  return -1;
}

int Manifest::findKind(BufferKind kind) const {
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].kind == kind)
      return static_cast<int>(i);
  return -1;
}

const EntryInfo *Manifest::findEntry(std::string_view name) const {
  for (const EntryInfo &entry : entries)
    if (entry.name == name)
      return &entry;
  return nullptr;
}

const EntryInfo &Manifest::entry(std::string_view name) const {
  if (const EntryInfo *found = findEntry(name))
    return *found;
  std::vector<std::string> names;
  for (const EntryInfo &entry : entries)
    names.push_back(entry.name);
  fail("the artifact has no entry '{}'; it has {}", name,
       names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

std::vector<int> Manifest::ofKind(BufferKind kind) const {
  std::vector<int> indices;
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].kind == kind)
      indices.push_back(static_cast<int>(i));
  return indices;
}
