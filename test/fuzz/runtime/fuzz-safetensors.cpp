//===- fuzz-safetensors.cpp - Files of named tensors ----------------------===//

#include "InputFile.h"
#include "sheaf/Error.h"
#include "sheaf/Safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  InputFile input(data, size);
  try {
    sheaf::SafetensorsFile file(input.path());
    for (auto &[name, tensor] : file.tensors) {
      if (tensor.elements < 0 || tensor.bytes > static_cast<int64_t>(size))
        abort();
      std::vector<double> wide(tensor.elements);
      std::vector<char> same(tensor.bytes);
      try {
        file.read(tensor, tensor.type, same.data());
        file.read(tensor, SHEAF_F64, wide.data());
        if (tensor.elements > 2)
          file.readRange(tensor, SHEAF_F64, 1, tensor.elements - 2,
                         wide.data());
      } catch (const sheaf::Error &) {
        // Types that do not convert to one another.
      }
    }
  } catch (const sheaf::Error &) {
  }
  return 0;
}
