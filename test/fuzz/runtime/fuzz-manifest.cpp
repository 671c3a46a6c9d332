//===- fuzz-manifest.cpp - Manifests of artifacts -------------------------===//

#include "sheaf/Error.h"
#include "sheaf/Manifest.h"
#include <cstdlib>
#include <limits>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  try {
    sheaf::Manifest manifest =
        sheaf::Manifest::parse({reinterpret_cast<const char *>(data), size});
    // What is accepted is consistent: its sums fit, its indices exist.
    for (const sheaf::EntryInfo &entry : manifest.entries) {
      int64_t bytes = 0;
      for (auto &[kind, part] : memoryOf(manifest, entry))
        if (part < 0 || __builtin_add_overflow(bytes, part, &bytes))
          abort();
      for (int argument : entry.arguments)
        (void)manifest.buffers.at(argument).key();
      (void)manifest.entry(entry.name);
    }
    for (const sheaf::BufferInfo &buffer : manifest.buffers)
      if (buffer.bytes < 0 || buffer.elements < 0)
        abort();
  } catch (const sheaf::Error &) {
  }
  return 0;
}
