//===- Artifact.h - a loaded artifact ---------------------------*- C++ -*-===//
//
// Opens the ELF shared object that sheaf-compile wrote and checks that this
// runtime and this machine can run it.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_ARTIFACT_H
#define SHEAF_ARTIFACT_H

#include "sheaf/Manifest.h"
#include <map>
#include <span>
#include <string>
#include <vector>

namespace sheaf {

class Artifact {
public:
  /// Throws an Error that starts with the path where the file is no artifact,
  /// is damaged, has another ABI version, or needs CPU features that this
  /// machine lacks.
  explicit Artifact(const std::string &path);
  ~Artifact();
  Artifact(const Artifact &) = delete;
  Artifact &operator=(const Artifact &) = delete;

  std::string path;
  std::string_view manifestText; ///< of the mapped file
  Manifest manifest;
  /// By their symbols.
  std::map<std::string, SheafEntry> functions;
  /// The model as MLIR bytecode; empty where the artifact has none.
  std::span<const uint8_t> model;

private:
  void open();
  const void *symbol(const char *name, uint64_t &size) const;
  void *handle = nullptr;
};

/// Those of `features`, in LLVM's spelling, that this machine lacks.
std::vector<std::string>
missingCpuFeatures(const std::vector<std::string> &features);

/// The manifest and the machine code's figures, for `sheaf-run --info`.
std::string describe(const Artifact &artifact);

/// The manifest as JSON, with `bytes` added, the bytes of each kind of buffer,
/// and `memory`, what each entry needs by what it is.
std::string describeJson(const Artifact &artifact);

} // namespace sheaf

#endif // SHEAF_ARTIFACT_H
