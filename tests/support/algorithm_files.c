#include "support/algorithm_files.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/harness.h"

/* ---- words */

static int n_steps, n_blocks;

static void algo(FILE *out, const char *coll, int ranks, int chunks, int channels,
                 const char *place) {
  fprintf(out,
          "<?xml version=\"1.0\"?>\n<!-- generated -->\n<algo name=\"test\" proto=\"Simple\" "
          "nchannels=\"%d\" nchunksperloop=\"%d\" ngpus=\"%d\" coll=\"%s\" %s>\n",
          channels, chunks, ranks, coll, place);
}
static void gpu(FILE *out, int id, int inputs, int outputs, int scratch) {
  n_blocks = 0;
  fprintf(out, " <gpu id=\"%d\" i_chunks=\"%d\" o_chunks=\"%d\" s_chunks=\"%d\">\n", id, inputs,
          outputs, scratch);
}
static void tb(FILE *out, int send, int recv, int channel) {
  n_steps = 0;
  fprintf(out, "  <tb id=\"%d\" send=\"%d\" recv=\"%d\" chan=\"%d\">\n", n_blocks++, send, recv,
          channel);
}
/* from, to: "i3". after: a block and its step, or -1. */
static void step(FILE *out, const char *type, char from, int from_at, char to, int to_at, int count,
                 int after_block, int after_step) {
  fprintf(out,
          "   <step s=\"%d\" type=\"%s\" srcbuf=\"%c\" srcoff=\"%d\" dstbuf=\"%c\" dstoff=\"%d\" "
          "cnt=\"%d\" depid=\"%d\" deps=\"%d\" hasdep=\"0\"/>\n",
          n_steps++, type, from, from_at, to, to_at, count, after_block, after_step);
}
static void wait_for(FILE *out, int after_block, int after_step) {
  step(out, "nop", 'i', -1, 'o', -1, 0, after_block, after_step);
}
static void end_tb(FILE *out) { fprintf(out, "  </tb>\n"); }
static void end_gpu(FILE *out) { fprintf(out, " </gpu>\n"); }
static void end_algo(FILE *out) { fprintf(out, "</algo>\n"); }

static int around(int rank, int by, int ranks) { return ((rank + by) % ranks + ranks) % ranks; }

/* ---- algorithms */

/* Three rings side by side, in place. */
static void ring(FILE *out, int n) {
  enum { CHANNELS = 3 };
  algo(out, "allreduce", n, n * CHANNELS, CHANNELS, "inplace=\"1\" outofplace=\"0\"");
  for (int r = 0; r < n; r++) {
    gpu(out, r, n * CHANNELS, 0, 0);
    for (int c = 0; c < CHANNELS; c++) {
      tb(out, around(r, 1, n), around(r, -1, n), c);
      for (int k = 0; k <= 2 * n - 2; k++) {
        const int at = around(r, -k, n) * CHANNELS + c;
        step(out,
             k == 0           ? "s"
             : k < n - 1      ? "rrs"
             : k == n - 1     ? "rrcs"
             : k == 2 * n - 2 ? "r"
                              : "rcs",
             'i', at, 'i', at, 1, -1, -1);
      }
      end_tb(out);
    }
    end_gpu(out);
  }
  end_algo(out);
}

/* Each rank sends a part to each other rank, several chunks in a message, through scratch
 * memory. */
static void all_pairs(FILE *out, int n) {
  enum { PART = 3 };
  algo(out, "allreduce", n, n * PART, 1, "inplace=\"1\"");
  for (int r = 0; r < n; r++) {
    gpu(out, r, n * PART, 0, (n - 1) * PART);
    const int local = 2 * (n - 1);
    for (int k = 1; k < n; k++) { /* block k - 1 */
      tb(out, around(r, k, n), -1, 0);
      step(out, "s", 'i', around(r, k, n) * PART, 's', 0, PART, -1, -1);
      step(out, "s", 'i', r * PART, 'i', r * PART, PART, local, PART * (n - 1) + n - 2);
      end_tb(out);
    }
    for (int k = 1; k < n; k++) { /* block n - 1 + k - 1 */
      const int peer = around(r, k, n);
      tb(out, -1, peer, 0);
      step(out, "r", 'i', 0, 's', (k - 1) * PART, PART, -1, -1);
      step(out, "r", 'i', peer * PART, 'i', peer * PART, PART, k - 1, 0);
      end_tb(out);
    }
    tb(out, -1, -1, 0);
    for (int k = 1; k < n; k++) {
      wait_for(out, n - 1 + k - 1, 0);
      for (int part = 0; part < PART; part++)
        step(out, "re", 's', (k - 1) * PART + part, 'i', r * PART + part, 1, -1, -1);
    }
    end_tb(out);
    end_gpu(out);
  }
  end_algo(out);
}

/* Two groups: partners exchange through channel 1, then each group runs a ring. Older files have
 * this form. */
static void two_groups(FILE *out, int n) {
  const int group = n / 2;
  algo(out, "allgather", n, n, 2, "inplace=\"0\" outofplace=\"1\" minBytes=\"64\" maxBytes=\"0\"");
  for (int r = 0; r < n; r++) {
    const int base = r / group * group, me = r - base, partner = (r + group) % n;
    gpu(out, r, 1, n, 0);
    tb(out, partner, partner, 1);
    fprintf(out, "   <step step=\"0\" type=\"s\" buf=\"i\" off=\"0\"/>\n");
    fprintf(out, "   <step step=\"1\" type=\"r\" buf=\"o\" off=\"%d\"/>\n", partner);
    end_tb(out);
    tb(out, -1, -1, 0);
    step(out, "cpy", 'i', 0, 'o', r, 1, -1, -1);
    end_tb(out);
    if (group > 1) tb(out, base + around(me, 1, group), base + around(me, -1, group), 0);
    for (int k = 0; k < group - 1; k++)
      for (int half = 0; half < 2; half++) {
        const int from = base + around(me, -k, group), to = base + around(me, -k - 1, group);
        const int sent = half ? (from + group) % n : from, got = half ? (to + group) % n : to;
        step(out, "s", 'o', sent, 'o', sent, 1, k == 0 ? !half : -1, k == 0 ? half : -1);
        step(out, "r", 'o', got, 'o', got, 1, -1, -1);
      }
    if (group > 1) end_tb(out);
    end_gpu(out);
  }
  end_algo(out);
}

/* Copies as in TE-CCL's files, and rows in the middle of the output. */
static void copied_gather(FILE *out, int n) {
  enum { PART = 2 };
  algo(out, "allgather", n, n * PART, 1, "inplace=\"1\" outofplace=\"0\" redop=\"nop\"");
  for (int r = 0; r < n; r++) {
    gpu(out, r, PART, n * PART, 0);
    for (int part = 0; part < PART; part++)
      fprintf(out, "  <copy i_off=\"%d\" o_off=\"%d\"/>\n", part, r * PART + part);
    tb(out, around(r, 1, n), around(r, -1, n), 0);
    step(out, "s", 'o', r * PART, 'o', r * PART, PART, -1, -1);
    for (int k = 1; k < n; k++) {
      const int at = around(r, -k, n) * PART;
      step(out, k < n - 1 ? "rcs" : "r", 'o', at, 'o', at, PART, -1, -1);
    }
    end_tb(out);
    end_gpu(out);
  }
  end_algo(out);
}

/* Receives into scratch memory, and copies from there to the place. */
static void through_scratch(FILE *out, int n) {
  algo(out, "alltoall", n, n, 1, "outofplace=\"1\" inplace=\"0\"");
  for (int r = 0; r < n; r++) {
    gpu(out, r, n, n, n - 1);
    tb(out, -1, -1, 0);
    step(out, "cpy", 'i', r, 'o', r, 1, -1, -1);
    for (int k = 1; k < n; k++) step(out, "cpy", 's', k - 1, 'o', around(r, k, n), 1, 2 * k, 0);
    end_tb(out);
    for (int k = 1; k < n; k++) {
      tb(out, around(r, k, n), -1, 0);
      step(out, "s", 'i', around(r, k, n), 's', 0, 1, -1, -1);
      end_tb(out);
      tb(out, -1, around(r, k, n), 0);
      step(out, "r", 'i', 0, 's', k - 1, 1, -1, -1);
      end_tb(out);
    }
    end_gpu(out);
  }
  end_algo(out);
}

static void chain_broadcast(FILE *out, int n) {
  enum { CHUNKS = 5 };
  algo(out, "broadcast", n, CHUNKS, 1, "inplace=\"0\" outofplace=\"1\"");
  for (int r = 0; r < n; r++) {
    gpu(out, r, CHUNKS, CHUNKS, 0);
    if (r == 0) {
      tb(out, -1, -1, 0);
      step(out, "cpy", 'i', 0, 'o', 0, CHUNKS, -1, -1);
      end_tb(out);
    }
    tb(out, r < n - 1 ? r + 1 : -1, r - 1, 0);
    for (int c = 0; c < CHUNKS; c++)
      step(out, r == 0 ? "s" : r < n - 1 ? "rcs" : "r", r ? 'o' : 'i', c, 'o', c, 1, -1, -1);
    end_tb(out);
    end_gpu(out);
  }
  end_algo(out);
}

static void chain_reduce(FILE *out, int n) {
  enum { CHUNKS = 2 };
  algo(out, "reduce", n, CHUNKS, 1, "inplace=\"0\" outofplace=\"1\"");
  for (int r = 0; r < n; r++) {
    gpu(out, r, CHUNKS, CHUNKS, 0);
    tb(out, r - 1, r < n - 1 ? r + 1 : -1, 0);
    for (int c = 0; c < CHUNKS; c++)
      step(out, r == n - 1 ? "s" : r > 0 ? "rrs" : "rrc", 'i', c, 'o', c, 1, -1, -1);
    end_tb(out);
    end_gpu(out);
  }
  end_algo(out);
}

static void ring_scatter(FILE *out, int n) {
  algo(out, "reduce_scatter", n, n, 1, "inplace=\"0\" outofplace=\"1\"");
  for (int r = 0; r < n; r++) {
    gpu(out, r, n, 1, 0);
    tb(out, around(r, 1, n), around(r, -1, n), 0);
    for (int k = 0; k < n; k++)
      step(out,
           k == 0      ? "s"
           : k < n - 1 ? "rrs"
                       : "rrc",
           'i', around(r, -k - 1, n), 'o', 0, 1, -1, -1);
    end_tb(out);
    end_gpu(out);
  }
  end_algo(out);
}

/* In place only: partial sums are in the input. */
static void scatter_in_place(FILE *out, int n) {
  algo(out, "reduce_scatter", n, n, 1, "inplace=\"1\" outofplace=\"0\"");
  for (int r = 0; r < n; r++) {
    gpu(out, r, n, 1, 0);
    tb(out, around(r, 1, n), around(r, -1, n), 0);
    step(out, "s", 'i', around(r, -1, n), 'i', around(r, -1, n), 1, -1, -1);
    for (int k = 1; k < n; k++) {
      const int at = around(r, -k - 1, n);
      step(out, k < n - 1 ? "rrcs" : "rrc", 'i', at, 'i', at, 1, -1, -1);
    }
    end_tb(out);
    end_gpu(out);
  }
  end_algo(out);
}

static void flat(FILE *out, int n, int gathers) {
  enum { PART = 2 };
  algo(out, gathers ? "gather" : "scatter", n, n * PART, 1, "inplace=\"0\" outofplace=\"1\"");
  for (int r = 0; r < n; r++) {
    gpu(out, r, gathers ? PART : n * PART, gathers ? n * PART : PART, 0);
    if (r == 0) {
      tb(out, -1, -1, 0);
      step(out, "cpy", 'i', 0, 'o', 0, PART, -1, -1);
      end_tb(out);
    }
    for (int k = 1; r == 0 && k < n; k++) {
      tb(out, gathers ? -1 : k, gathers ? k : -1, 0);
      step(out, gathers ? "r" : "s", 'i', gathers ? 0 : k * PART, 'o', gathers ? k * PART : 0, PART,
           -1, -1);
      end_tb(out);
    }
    if (r > 0) {
      tb(out, gathers ? 0 : -1, gathers ? -1 : 0, 0);
      step(out, gathers ? "s" : "r", 'i', 0, 'o', 0, PART, -1, -1);
      end_tb(out);
    }
    end_gpu(out);
  }
  end_algo(out);
}
static void gather(FILE *out, int n) { flat(out, n, 1); }
static void scatter(FILE *out, int n) { flat(out, n, 0); }

const df_algorithm_file df_algorithm_files[] = {
    {"ring", DF_ALL_REDUCE, ring},
    {"all-pairs", DF_ALL_REDUCE, all_pairs},
    {"two-groups", DF_ALL_GATHER, two_groups},
    {"copied-gather", DF_ALL_GATHER, copied_gather},
    {"through-scratch", DF_ALL_TO_ALL, through_scratch},
    {"chain-broadcast", DF_BROADCAST, chain_broadcast},
    {"chain-reduce", DF_REDUCE, chain_reduce},
    {"ring-scatter", DF_REDUCE_SCATTER, ring_scatter},
    {"scatter-in-place", DF_REDUCE_SCATTER, scatter_in_place},
    {"gather", DF_GATHER, gather},
    {"scatter", DF_SCATTER, scatter}};
const int df_algorithm_files_count = sizeof df_algorithm_files / sizeof df_algorithm_files[0];

/* ---- files */

static FILE *create(const char *directory, const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s.xml", directory, name);
  FILE *out = fopen(path, "w");
  CHECK(out != NULL, "cannot write %s", path);
  return out;
}

const char *df_algorithm_directory(int ranks) {
  static char directory[64];
  snprintf(directory, sizeof directory, "/tmp/dfccl-files-XXXXXX");
  CHECK(mkdtemp(directory) != NULL, "mkdtemp");
  for (int i = 0; i < df_algorithm_files_count; i++) {
    FILE *out = create(directory, df_algorithm_files[i].name);
    df_algorithm_files[i].write(out, ranks);
    CHECK(fclose(out) == 0, "cannot write %s", df_algorithm_files[i].name);
  }
  setenv("DFCCL_ALGORITHMS", directory, 1);
  return directory;
}

void df_algorithm_write(const char *directory, const char *name, const char *text) {
  FILE *out = create(directory, name);
  fputs(text, out);
  CHECK(fclose(out) == 0, "cannot write %s", name);
}

void df_algorithm_directory_remove(const char *directory) {
  DIR *listing = opendir(directory);
  const struct dirent *entry;
  while (listing && (entry = readdir(listing)) != NULL) {
    char path[512];
    snprintf(path, sizeof path, "%s/%.200s", directory, entry->d_name);
    if (entry->d_name[0] != '.') unlink(path);
  }
  if (listing) closedir(listing);
  rmdir(directory);
}
