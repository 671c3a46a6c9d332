//===- fuzz-compile.cpp - The whole pipeline ------------------------------===//
//
// Takes a module down as sheaf-compile does. Its first line may give options,
// as
// `// options: mesh=dp:2,tp:2 zero=1 sp microbatches=2 recompute=full sgd
// reference differentiate llvm`, so that they change with the rest; readOptions
// has them all.
//
//===----------------------------------------------------------------------===//

#include "Support.h"

using namespace llvm;

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  sheaf::registerSheafPasses();
  return 0;
}

/// What the driver would take from its command line; nothing that it would
/// refuse.
static sheaf::CompileOptions readOptions(StringRef text) {
  sheaf::CompileOptions options;
  options.emit = sheaf::Floor::Exec;
  for (auto [name, value] : {std::pair("lr", "0.001"),
                             {"warmup", "0"},
                             {"min-lr", "0"},
                             {"decay-steps", "0"},
                             {"weight-decay", "0.1"},
                             {"beta1", "0.9"},
                             {"beta2", "0.95"},
                             {"eps", "1e-8"},
                             {"clip", "1"},
                             {"momentum", "0"}})
    options.scalars[name] = value;
  StringRef line = text.split('\n').first;
  if (!line.consume_front("// options:"))
    return options;
  SmallVector<StringRef> words;
  line.split(words, ' ', -1, false);
  for (StringRef word : words) {
    auto [name, value] = word.split('=');
    int64_t number = 0;
    bool isNumber = !value.getAsInteger(10, number) && number >= 0;
    if (name == "mesh") {
      options.mesh.clear();
      options.isMeshGiven = true;
      SmallVector<StringRef> axes;
      value.split(axes, ',', -1, false);
      for (StringRef axis : {"dp", "tp"})
        for (StringRef part : axes)
          if (auto [key, size] = part.split(':');
              key == axis && !size.getAsInteger(10, number) && number > 1 &&
              number <= (1 << 20)) {
            options.mesh.emplace_back(axis.str(), number);
            break;
          }
    } else if (name == "zero" && isNumber && number <= 3) {
      options.zero = number;
    } else if (name == "zero-group" && isNumber) {
      options.zeroGroup = number;
    } else if (name == "zero-min-bytes" && isNumber) {
      options.zeroMinBytes = number;
    } else if (word == "gathers=keep") {
      options.zero3Gathers = "keep";
    } else if (word == "accumulate=whole") {
      options.accumulate = "whole";
    } else if (name == "bucket-bytes" && (isNumber || value == "auto")) {
      options.bucketBytes = value.str();
    } else if (name == "gradient-wire" || name == "weight-wire") {
      bool isKnown = llvm::is_contained({"bf16", "int8", "fp8"}, value);
      (name == "weight-wire" ? options.weightWire : options.gradientWire) =
          isKnown ? value.str() : "f32";
    } else if (name == "strict" && isNumber) {
      options.strict = number;
    } else if (name == "explain") {
      options.explain = value == "json" ? sheaf::CompileOptions::Explain::Json
                                        : sheaf::CompileOptions::Explain::Table;
    } else if (name == "why" && !value.empty()) {
      options.why = value.str();
    } else if (name == "level" && isNumber && number <= 3) {
      options.codegen.optLevel = number;
    } else if (word == "fusion") {
      options.printFusion = true;
    } else if (name == "microbatches" && isNumber && number >= 1) {
      options.microbatches = number;
    } else if (name == "recompute" &&
               is_contained({"none", "selective", "full"}, value)) {
      options.recompute = value.str();
    } else if (word == "sp") {
      options.sequenceParallel = true;
    } else if (word == "sgd") {
      options.optimizer = "sgd";
    } else if (name == "reference") {
      options.reference = true;
      options.wide = value == "f64";
    } else if (word == "differentiate") {
      options.differentiate = true;
    } else if (word == "llvm") {
      options.emit = sheaf::Floor::LLVM;
    }
  }
  if (options.reference) {
    options.mesh.clear();
    options.codegen.optLevel = 0;
  }
  return options;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mlir::OwningOpRef<mlir::ModuleOp> module = sheaf::fuzz::parse(data, size);
  if (!module)
    return 0;
  mlir::TimingScope timing;
  (void)sheaf::compile(
      *module, readOptions({reinterpret_cast<const char *>(data), size}),
      "/dev/null", timing);
  return 0;
}
