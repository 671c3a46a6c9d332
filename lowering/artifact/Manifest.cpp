//===- Manifest.cpp - What the runtime must know of an artifact -----------===//

#include "dialects/Exec/Exec.h"
#include "dialects/NN/NN.h"
#include "lowering/artifact/Artifact.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace sheaf;
namespace json = llvm::json;

static FailureOr<StringRef> typeName(Operation *op, Type type) {
  if (type.isF64())
    return StringRef("f64");
  if (type.isF32())
    return StringRef("f32");
  if (type.isBF16())
    return StringRef("bf16");
  if (type.isF16())
    return StringRef("f16");
  if (isa<Float8E4M3FNType>(type))
    return StringRef("f8e4m3");
  if (isa<Float8E5M2Type>(type))
    return StringRef("f8e5m2");
  if (isa<Float8E8M0FNUType>(type))
    return StringRef("f8e8m0");
  if (type.isInteger(32))
    return StringRef("i32");
  if (type.isInteger(8))
    return StringRef("i8");
  if (type.isInteger(1))
    return StringRef("i1");
  return op->emitError("buffer of element type ")
         << type << " has no place in an artifact";
}

/// Where a rank's part of a buffer lies in the whole tensor.
static LogicalResult describeLayout(func::FuncOp function, StringRef name,
                                    DictionaryAttr layout,
                                    json::Object &buffer) {
  auto global = layout.getAs<DenseI64ArrayAttr>("global");
  auto axes = layout.getAs<ArrayAttr>("axes");
  auto blocks = layout.getAs<DenseI64ArrayAttr>("blocks");
  size_t rank = buffer.getArray("shape")->size();
  if (!global || !axes || !blocks ||
      static_cast<size_t>(global.size()) != rank || axes.size() != rank ||
      static_cast<size_t>(blocks.size()) != rank)
    return function.emitError("buffer '")
           << name << "' has the layout " << layout
           << ", expected global, axes and blocks for " << rank
           << " dimensions";
  json::Array sharding;
  for (Attribute dim : axes) {
    json::Array names;
    for (StringAttr axis : cast<ArrayAttr>(dim).getAsRange<StringAttr>())
      names.push_back(axis.getValue());
    sharding.push_back(std::move(names));
  }
  buffer["global_shape"] = json::Array(global.asArrayRef());
  buffer["sharding"] = std::move(sharding);
  // A batch has a block for each microbatch where nothing is said.
  if (buffer.getString("kind") == "batch" ||
      llvm::any_of(blocks.asArrayRef(),
                   [](int64_t count) { return count != 1; }))
    buffer["blocks"] = json::Array(blocks.asArrayRef());
  return success();
}

FailureOr<json::Object> sheaf::describeEntries(ModuleOp module) {
  json::Array buffers;
  json::Object entries;
  llvm::StringMap<int64_t> indices;
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    auto entry = function->getAttrOfType<ArrayAttr>(exec::kEntryAttr);
    if (!entry)
      continue;
    auto scratch = function->getAttrOfType<IntegerAttr>(exec::kScratchAttr);
    if (!scratch)
      return LogicalResult(
          function.emitError("is not placed; run exec-place first"));
    json::Array arguments;
    llvm::DenseSet<int64_t> taken;
    for (auto [i, item] : llvm::enumerate(entry)) {
      auto parts = cast<ArrayAttr>(item);
      StringRef kind = cast<StringAttr>(parts[0]).getValue();
      StringRef name = cast<StringAttr>(parts[1]).getValue();
      auto type = cast<MemRefType>(function.getArgumentTypes()[i]);
      if (name.empty() || name.size() > 4096 || llvm::any_of(name, [](char c) {
            return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
          }))
        return LogicalResult(
            function.emitError("argument ")
            << i
            << " is a buffer whose name is empty, longer than 4096 bytes or "
               "has a control character");
      if (exec::getBytes(type) > exec::kMaxScratchBytes)
        return LogicalResult(
            function.emitError("uses the ")
            << kind << " '" << name << "' of " << exec::getBytes(type)
            << " bytes, expected at most " << exec::kMaxScratchBytes);
      FailureOr<StringRef> dtype = typeName(function, type.getElementType());
      if (failed(dtype))
        return failure();
      auto [it, isNew] =
          indices.try_emplace((kind + ":" + name).str(), buffers.size());
      if (isNew) {
        json::Object buffer{{"name", name},
                            {"kind", kind},
                            {"dtype", *dtype},
                            {"shape", json::Array(type.getShape())}};
        if (kind == "batch")
          buffer["role"] = name;
        if (auto param = parts.size() > 2 ? dyn_cast<nn::ParamAttr>(parts[2])
                                          : nn::ParamAttr()) {
          json::Array axes;
          for (StringAttr axis : param.getAxes())
            axes.push_back(axis.getValue());
          buffer["axes"] = std::move(axes);
          buffer["frozen"] = param.getFrozen();
          buffer["decay"] = param.getDecay();
        }
        if (parts.size() > 4)
          buffer["quantized"] = true;
        if (auto layout = parts.size() > 3 ? dyn_cast<DictionaryAttr>(parts[3])
                                           : DictionaryAttr())
          if (failed(describeLayout(function, name, layout, buffer)))
            return failure();
        if (auto value =
                parts.size() > 2 ? dyn_cast<FloatAttr>(parts[2]) : FloatAttr())
          buffer["value"] = value.getValueAsDouble();
        buffers.push_back(std::move(buffer));
      } else {
        const json::Object *known = buffers[it->second].getAsObject();
        if (known->getString("dtype") != *dtype ||
            *known->getArray("shape") != json::Array(type.getShape()))
          return LogicalResult(function.emitError("uses the ")
                               << kind << " '" << name << "' with type " << type
                               << ", another entry with another type");
      }
      if (taken.insert(it->second).second)
        arguments.push_back(it->second);
    }
    json::Object arena;
    if (auto kinds =
            function->getAttrOfType<DictionaryAttr>(exec::kScratchKindsAttr))
      for (NamedAttribute kind : kinds)
        arena[kind.getName().getValue()] =
            cast<IntegerAttr>(kind.getValue()).getInt();
    StringRef name = function.getName();
    auto place = function->getAttrOfType<ArrayAttr>(exec::kPlaceAttr);
    if (place)
      name = cast<StringAttr>(place[0]).getValue();
    json::Object described{{"symbol", ("sheaf_" + function.getName()).str()},
                           {"arguments", std::move(arguments)},
                           {"arena_bytes", scratch.getInt()},
                           {"arena", std::move(arena)}};
    if (auto gathered =
            function->getAttrOfType<IntegerAttr>(exec::kGatheredAttr))
      described["gathered_bytes"] = gathered.getInt();
    if (auto peak = function->getAttrOfType<IntegerAttr>(exec::kPeakAttr))
      described["peak_bytes"] = peak.getInt();
    if (auto action =
            function->getAttrOfType<StringAttr>(exec::kPeakActionAttr))
      described["peak_action"] = action.getValue();
    if (!place) {
      entries[name] = std::move(described);
      continue;
    }
    // Of each place along the pipeline.
    json::Value &whole =
        entries.try_emplace(name, json::Object{{"stages", json::Array()}})
            .first->second;
    json::Array &stages = *whole.getAsObject()->getArray("stages");
    size_t at = cast<IntegerAttr>(place[1]).getInt();
    if (stages.size() != at)
      return LogicalResult(function.emitError("is place ")
                           << at << " of the entry '" << name
                           << "' and stands behind " << stages.size()
                           << " of them, expected them in order");
    stages.push_back(std::move(described));
  }
  return json::Object{{"buffers", std::move(buffers)},
                      {"entries", std::move(entries)}};
}

void sheaf::describeKernels(ModuleOp module, json::Object &manifest) {
  json::Array kernels;
  if (auto table = module->getAttrOfType<ArrayAttr>(exec::kTableAttr))
    for (Attribute item : table) {
      auto entry = cast<DictionaryAttr>(item);
      json::Object kernel;
      for (NamedAttribute field : entry) {
        if (auto text = dyn_cast<StringAttr>(field.getValue()))
          kernel[field.getName().getValue()] = text.getValue();
        else if (auto value = dyn_cast<FloatAttr>(field.getValue()))
          kernel[field.getName().getValue()] = value.getValueAsDouble();
      }
      kernels.push_back(std::move(kernel));
    }
  manifest["kernels"] = std::move(kernels);
}

void sheaf::describeRanks(ModuleOp module, json::Object &manifest) {
  json::Array collectives;
  if (auto list = module->getAttrOfType<ArrayAttr>(exec::kCollectivesAttr))
    for (auto entry : list.getAsRange<DictionaryAttr>()) {
      json::Object collective;
      auto text = [&](DictionaryAttr from, StringRef key, StringRef as) {
        if (auto value = from ? from.getAs<StringAttr>(key) : StringAttr())
          collective[as] = value.getValue();
      };
      text(entry, "loc", "loc");
      text(entry, "name", "name");
      text(entry, "purpose", "purpose");
      text(entry, "role", "phase");
      text(entry.getAs<DictionaryAttr>("reason"), "text", "reason");
      text(entry.getAs<DictionaryAttr>("reason"), "op", "op");
      collectives.push_back(std::move(collective));
    }
  if (!collectives.empty())
    manifest["collectives"] = std::move(collectives);
  if (auto list = module->getAttrOfType<ArrayAttr>(exec::kActionsAttr)) {
    json::Array actions;
    for (auto name : list.getAsRange<StringAttr>())
      actions.push_back(name.getValue());
    manifest["actions"] = std::move(actions);
  }
  if (auto text = module->getAttrOfType<StringAttr>(exec::kScheduleAttr)) {
    json::Array lines;
    SmallVector<StringRef> parts;
    text.getValue().split(parts, '\n', -1, /*KeepEmpty=*/false);
    for (StringRef line : parts)
      lines.push_back(line);
    manifest["schedule"] = std::move(lines);
  }
  json::Array axes;
  int64_t ranks = 1;
  if (auto mesh = module->getAttrOfType<ArrayAttr>(exec::kMeshAttr))
    for (auto axis : mesh.getAsRange<ArrayAttr>()) {
      int64_t size = cast<IntegerAttr>(axis[1]).getInt();
      axes.push_back(json::Object{
          {"name", cast<StringAttr>(axis[0]).getValue()}, {"size", size}});
      ranks *= size;
    }
  json::Object mesh{{"axes", std::move(axes)}, {"ranks", ranks}};
  if (auto devices =
          module->getAttrOfType<DenseI64ArrayAttr>(exec::kDevicesAttr))
    mesh["devices"] = json::Array(devices.asArrayRef());
  manifest["mesh"] = std::move(mesh);
}
