#include "sheaf/Gathered.h"
#include <algorithm>
#include <cstring>

using namespace sheaf;

static uint64_t hashOf(const GatheredWeights::Range &range) {
  uint64_t hash = 0xcbf29ce484222325, word = 0;
  for (int64_t i = 0; i < range.bytes; i += sizeof(word)) {
    word = 0;
    std::memcpy(&word, range.begin + i,
                std::min<int64_t>(sizeof(word), range.bytes - i));
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return hash;
}

bool GatheredWeights::isWeight(const void *pointer) const {
  return made.count(pointer) ||
         std::any_of(parameters.begin(), parameters.end(),
                     [&](const Range &range) { return range.has(pointer); });
}

void GatheredWeights::add(const void *at, int64_t bytes) {
  Range range{static_cast<const char *>(at), bytes};
  if (!arena.has(at) || bytes <= 0)
    return;
  for (Gather &other : gathers)
    other.isOver |= other.range.begin < range.begin + range.bytes &&
                    range.begin < other.range.begin + other.range.bytes;
  gathers.push_back({range, now, now, now});
}

/// Where the bytes are still those that were gathered, this was a use of them.
void GatheredWeights::touch(const void *pointer) {
  for (Gather &gather : gathers) {
    if (gather.isOver || !gather.isThere || gather.last == now ||
        !gather.range.has(pointer))
      continue;
    if (hashOf(gather.range) == gather.hash)
      gather.last = now;
    else
      gather.isOver = true;
  }
}

void GatheredWeights::start(const SheafCollective &collective, const void *send,
                            const void *receive, int64_t bytes,
                            int64_t handle) {
  ++now;
  touch(send);
  bool isGather = collective.kind == SHEAF_ALL_GATHER && isWeight(send);
  made.erase(receive);
  if (!isGather || !arena.has(receive))
    return;
  add(receive, bytes);
  open[handle] = gathers.size() - 1;
}

void GatheredWeights::wait(int64_t handle) {
  ++now;
  auto found = open.find(handle);
  if (found == open.end())
    return;
  Gather &gather = gathers[found->second];
  gather.hash = hashOf(gather.range);
  gather.isThere = true;
  gather.first = gather.last = now;
  open.erase(found);
}

void GatheredWeights::ran(const void *const *buffers, int64_t count) {
  ++now;
  for (int64_t i = 0; i < count; ++i)
    touch(buffers[i]);
  if (count == 0)
    return;
  const void *written = buffers[count - 1];
  bool isMade = count > 1 &&
                std::all_of(buffers, buffers + count - 1,
                            [&](const void *read) { return isWeight(read); });
  if (isMade)
    made.insert(written);
  else
    made.erase(written);
}

void GatheredWeights::copied(const void *to, const void *from, int64_t bytes) {
  const void *both[] = {from, to};
  ran(both, 2);
  // A copy of what was gathered is as much in the way.
  for (size_t i = 0; i < gathers.size(); ++i) {
    const Gather &gather = gathers[i];
    if (gather.isOver || !gather.isThere || gather.last != now ||
        !gather.range.has(from))
      continue;
    add(to, bytes);
    if (arena.has(to)) {
      gathers.back().hash = hashOf(gathers.back().range);
      gathers.back().isThere = true;
    }
    return;
  }
}

int64_t GatheredWeights::most(bool withUnderWay) const {
  // What changes at each call; a gather holds its bytes at its last one, too.
  std::map<int64_t, int64_t> changes;
  for (const Gather &gather : gathers) {
    changes[withUnderWay ? gather.started : gather.first] += gather.range.bytes;
    changes[gather.last + 1] -= gather.range.bytes;
  }
  int64_t held = 0, most = 0;
  for (auto [call, change] : changes)
    most = std::max(most, held += change);
  return most;
}
