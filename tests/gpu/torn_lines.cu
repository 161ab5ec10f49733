/* Lines that one side stores over and over, as the daemon's lanes do, while another looks at them.
 */
#include "torn_lines.h"

#include "primitives/move.h"

/* All parts of a line that is stored in a round are the round's number, as is its flag. */
extern "C" __global__ void df_torn_writer(uint8_t *lines, uint64_t rounds) {
  uint8_t *mine = lines + (uint64_t)blockIdx.x * TORN_PAIRS * 2 * DF_LINK_LINE;
  for (uint64_t round = 1; round <= rounds; round++)
    for (uint32_t base = 0; base < TORN_PAIRS * DF_PAIR_LANES; base += blockDim.x) {
      const df_line_part p =
          df_line_part_of<uint8_t>(base + threadIdx.x, TORN_PAIRS, TORN_PAIRS * 240);
      const uint32_t low = (uint32_t)round, high = (uint32_t)(round >> 32);
      const uint4 v = make_uint4(low, high, low, high);
      df_store_lines(mine, &p, v, v, round);
    }
}

/* Eight lanes look at a line, all at the same time; then, the flag having been seen, once more. */
extern "C" __global__ void df_torn_reader(const uint8_t *lines, const uint32_t *stop,
                                          torn_counts *counts) {
  const uint8_t *mine = lines + (uint64_t)blockIdx.x * TORN_PAIRS * 2 * DF_LINK_LINE;
  const uint32_t part = threadIdx.x % DF_PAIR_LANES;
  const uint32_t has_flag = part == DF_LINE_VECTORS;
  uint64_t looks = 0, torn = 0, mixed = 0, seen = 0;
  uint32_t last = 0, line = threadIdx.x / DF_PAIR_LANES;
  if (threadIdx.x == 0) df_device_add_u64(&counts->readers, 1);
  while (!last) {
    last = df_observe_u32(stop); /* one more look at what the last round left */
    last = __shfl_sync(0xffffffffu, last, 0);
    const df_word_pair *at = (const df_word_pair *)(mine + line * DF_LINK_LINE) + part;
    __syncwarp();
    const df_word_pair first = df_load_relaxed_pair(at);
    /* The flag, to the line's other lanes. */
    const uint64_t flag =
        __shfl_sync(0xffffffffu, first.second,
                    threadIdx.x % 32 / DF_PAIR_LANES * DF_PAIR_LANES + DF_LINE_VECTORS);
    const df_word_pair second = df_load_relaxed_pair(at);
    const uint64_t least =
        has_flag ? second.first : DF_MIN(second.first, second.second); /* a flag is no payload */
    if (first.first != flag || (!has_flag && first.second != flag)) mixed++;
    if (flag != seen) looks++;
    if (least < flag) torn++;
    seen = flag;
    line = (line + blockDim.x / DF_PAIR_LANES) % (2 * TORN_PAIRS);
  }
  df_device_add_u64(&counts->looks, looks);
  df_device_add_u64(&counts->torn, torn);
  df_device_add_u64(&counts->mixed, mixed);
}

const void *torn_lines_writer(void) { return (const void *)df_torn_writer; }
const void *torn_lines_reader(void) { return (const void *)df_torn_reader; }
