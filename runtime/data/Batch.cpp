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
  for (int64_t i = 0; i < model.batch; ++i) {
    int64_t offset = sampleOffset(order, seed, step * model.batch + i,
                                  model.sequence, file.size());
    file.read(offset, length, model.vocab, &tokens[i * length]);
  }
  fillBatch(program, tokens);
}

void sheaf::fillBatch(Program &program, const std::vector<uint32_t> &tokens) {
  const Manifest &manifest = program.manifest;
  int64_t batch = manifest.model.batch, sequence = manifest.model.sequence;
  for (int index : manifest.ofKind(BufferKind::Batch)) {
    const BufferInfo &buffer = manifest.buffers[index];
    void *data = program.data(index);
    if (!data)
      continue;
    for (int64_t i = 0; i < batch; ++i)
      for (int64_t t = 0; t < sequence; ++t) {
        const uint32_t *sample = &tokens[i * (sequence + 1)];
        int64_t value = buffer.role == BatchRole::Tokens      ? sample[t]
                        : buffer.role == BatchRole::Targets   ? sample[t + 1]
                        : buffer.role == BatchRole::Positions ? t
                                                              : 0;
        if (buffer.type == SHEAF_I64)
          static_cast<int64_t *>(data)[i * sequence + t] = value;
        else
          static_cast<int32_t *>(data)[i * sequence + t] =
              static_cast<int32_t>(value);
      }
  }
}
