#include "sheaf/Data.h"
#include "sheaf/Error.h"

using namespace sheaf;

int64_t sheaf::sampleOffset(DataOrder order, uint64_t seed, int64_t j,
                            int64_t sequence, int64_t count) {
  if (order == DataOrder::Sequential)
    return static_cast<int64_t>(static_cast<unsigned __int128>(j) * sequence %
                                count);
  return static_cast<int64_t>(randomBits(seed, OrderStream, j) %
                              static_cast<uint64_t>(count - sequence));
}

Batches::Batches(TokenFile &file, const Manifest &manifest, DataOrder order,
                 uint64_t seed)
    : file(file), order(order), seed(seed) {
  int64_t needed = manifest.model.sequence + 1;
  if (file.size() < needed)
    fail("{}: {} tokens; expected at least {}: the model's sequence length "
         "and one more",
         file.path, file.size(), needed);
}

void Batches::load(Program &program, int64_t step) {
  const ModelInfo &model = program.manifest.model;
  int64_t length = model.sequence + 1;
  tokens.resize(model.batch * length);
  read.assign(model.batch, false);
  fillBatch(program, [&](int64_t i) {
    if (!read[i]) {
      int64_t offset = sampleOffset(order, seed, step * model.batch + i,
                                    model.sequence, file.size());
      file.read(offset, length, model.vocab, &tokens[i * length]);
      read[i] = true;
    }
    return &tokens[i * length];
  });
}

void sheaf::fillBatch(Program &program, const std::vector<uint32_t> &tokens) {
  int64_t length = program.manifest.model.sequence + 1;
  fillBatch(program, [&](int64_t i) { return &tokens[i * length]; });
}

void sheaf::fillBatch(
    Program &program,
    const std::function<const uint32_t *(int64_t)> &sampleOf) {
  const Manifest &manifest = program.manifest;
  int64_t place = program.communicator().place();
  for (int index : manifest.ofKind(BufferKind::Batch)) {
    const BufferInfo &buffer = manifest.buffers[index];
    if (!program.data(index))
      continue;
    auto set = [&](int64_t row, int64_t column, int64_t value) {
      int64_t at = row * buffer.shape[1] + column;
      if (buffer.type == SHEAF_I64)
        static_cast<int64_t *>(program.data(index))[at] = value;
      else
        static_cast<int32_t *>(program.data(index))[at] =
            static_cast<int32_t>(value);
    };
    if (buffer.layout.isSharded())
      for (int64_t row = 0; row < buffer.shape[0]; ++row)
        for (int64_t t = 0; t < buffer.shape[1]; ++t)
          set(row, t, buffer.role == BatchRole::Targets ? -1 : 0);
    std::vector<DimensionRange> columns = buffer.layout.ranges(1, place);
    for (const DimensionRange &rows : buffer.layout.ranges(0, place))
      for (int64_t i = 0; i < rows.length; ++i) {
        const uint32_t *sample = sampleOf(rows.global + i);
        for (const DimensionRange &range : columns)
          for (int64_t j = 0; j < range.length; ++j) {
            int64_t t = range.global + j;
            int64_t value = buffer.role == BatchRole::Tokens    ? sample[t]
                            : buffer.role == BatchRole::Targets ? sample[t + 1]
                            : buffer.role == BatchRole::Positions ? t
                                                                  : 0;
            set(rows.local + i, range.local + j, value);
          }
      }
  }
}
