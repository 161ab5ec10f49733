/*
 * A list of the processes that have opened allocations: entries at the beginning of the exporter's
 * memory file, each with the allocation's page and the importer's process in one word. Entries of a
 * killed process do not count.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emulator.h"

enum { PAGE_SHIFT = 12, PROCESS_BITS = 24 };
enum { ENTRIES = EMULATOR_IMPORTERS_BYTES / sizeof(uint64_t) };

static uint64_t entry_of(uint64_t offset, pid_t process) {
  return offset >> PAGE_SHIFT << PROCESS_BITS | (uint64_t)process;
}

static uint64_t *open_table(int file) {
  void *table = mmap(NULL, EMULATOR_IMPORTERS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (table == MAP_FAILED) cuda_emulator_mistake("no memory for the table of importers");
  return table;
}

static void close_table(uint64_t *table) { munmap(table, EMULATOR_IMPORTERS_BYTES); }

static void replace_one(int file, uint64_t before, uint64_t after) {
  uint64_t *table = open_table(file);
  for (int i = 0; i < ENTRIES; i++) {
    uint64_t expected = before;
    if (__atomic_compare_exchange_n(&table[i], &expected, after, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED)) {
      close_table(table);
      return;
    }
  }
  cuda_emulator_mistake("the table of importers is full, or has lost an entry");
}

void emulator_note_import(int file, uint64_t offset) {
  replace_one(file, 0, entry_of(offset, getpid()));
}

void emulator_forget_import(int file, uint64_t offset) {
  replace_one(file, entry_of(offset, getpid()), 0);
}

/* A process that exists, and is not a killed one that nobody has waited for. */
static bool lives(pid_t process) {
  char path[64], state = 'Z';
  snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
  FILE *file = fopen(path, "r");
  if (!file) return false;
  if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
  fclose(file);
  return state != 'Z' && state != 'X';
}

void emulator_check_not_imported(int file, uint64_t offset) {
  uint64_t *table = open_table(file);
  for (int i = 0; i < ENTRIES; i++) {
    const uint64_t entry = __atomic_load_n(&table[i], __ATOMIC_ACQUIRE);
    const pid_t process = (pid_t)(entry & ((1u << PROCESS_BITS) - 1));
    if (entry && entry >> PROCESS_BITS == offset >> PAGE_SHIFT && lives(process))
      cuda_emulator_mistake("memory is freed that process %d has mapped", (int)process);
  }
  close_table(table);
}
