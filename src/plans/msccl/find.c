/* The files of a directory; each is read once for the process. */
#include "base/mutex.h"
#include "plans/msccl/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/escape.h"
#include "plans/msccl/model.h"

typedef struct entry {
  struct entry *next;
  char *text; /* hash of its bytes, because a file may change between two looks */
  size_t bytes;
  df_plan_file *file;
} entry;

static df_mutex lock = DF_MUTEX_INITIALIZER;
static entry *entries DF_GUARDED_BY(lock);

/* NULL: *sentence gives the reason; errno ENOENT: there is no such file. The caller frees the
 * result. */
static char *read_all(const char *path, size_t *bytes, char *sentence, size_t sentence_bytes) {
  struct stat status;
  char *text = NULL, shown[201];
  df_escape(shown, sizeof shown, path);
  const int in = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe would block */
  const int error = errno;
  if (in < 0 || fstat(in, &status) != 0 || !S_ISREG(status.st_mode)) {
    snprintf(sentence, sentence_bytes, "%s: %s", shown,
             in < 0 ? strerror(error) : "it is no regular file");
  } else if (status.st_size > DF_FILE_MOST_BYTES) {
    snprintf(sentence, sentence_bytes, "%s: it has %lld bytes; at most %d are possible", shown,
             (long long)status.st_size, DF_FILE_MOST_BYTES);
  } else if ((text = malloc((size_t)status.st_size + 1)) == NULL) {
    snprintf(sentence, sentence_bytes, "%s: no memory to read it", shown);
  } else {
    *bytes = 0;
    for (ssize_t n = 1; n > 0 && *bytes < (size_t)status.st_size; *bytes += (size_t)DF_MAX(n, 0))
      n = read(in, text + *bytes, (size_t)status.st_size - *bytes);
  }
  if (in >= 0) close(in);
  errno = in < 0 ? error : 0;
  return text;
}

/* The file's name in a diagnostic: its path, whose beginning is cut if it is long. */
static const char *shown(const char *path) {
  const size_t length = strlen(path);
  return length < 200 ? path : path + (length - 199);
}

df_plan_file *df_plan_file_read(const char *path, char *sentence, size_t sentence_bytes) {
  size_t bytes;
  char *text = read_all(path, &bytes, sentence, sentence_bytes);
  if (text == NULL) return NULL;
  df_plan_file *file = df_plan_file_make(shown(path), text, bytes, sentence, sentence_bytes);
  free(text);
  return file;
}

static const df_plan_file *enter(const char *path, char *text, size_t bytes, char *sentence,
                                 size_t sentence_bytes) DF_REQUIRES(lock) {
  for (entry *at = entries; at; at = at->next)
    if (at->bytes == bytes && memcmp(at->text, text, bytes) == 0) {
      free(text);
      return at->file;
    }
  entry *added = calloc(1, sizeof *added);
  df_plan_file *file =
      added ? df_plan_file_make(shown(path), text, bytes, sentence, sentence_bytes) : NULL;
  if (added == NULL) snprintf(sentence, sentence_bytes, "%s: no memory to read it", path);
  if (file == NULL) {
    free(added);
    free(text);
    return NULL;
  }
  *added = (entry){.next = entries, .text = text, .bytes = bytes, .file = file};
  entries = added;
  return file;
}

const df_plan_file *df_plan_file_find(const char *directory, const char *name, char *sentence,
                                      size_t sentence_bytes) {
  char path[1024], escaped[DF_FILE_NAME_BYTES];
  size_t bytes;
  df_escape(escaped, sizeof escaped, name);
  if (*name == '\0' || *name == '.' || strchr(name, '/') != NULL ||
      strlen(name) >= DF_FILE_NAME_BYTES) {
    snprintf(sentence, sentence_bytes,
             "\"file:%s\" must name a file of DFCCL_ALGORITHMS, without a directory and in less "
             "than %d characters",
             escaped, DF_FILE_NAME_BYTES);
    return NULL;
  }
  if (*directory == '\0') {
    snprintf(sentence, sentence_bytes,
             "\"file:%s\" names a file, but DFCCL_ALGORITHMS names no directory to find it in",
             escaped);
    return NULL;
  }
  snprintf(path, sizeof path, "%s/%s", directory, name);
  char *text = read_all(path, &bytes, sentence, sentence_bytes);
  if (text == NULL && errno == ENOENT) {
    snprintf(path, sizeof path, "%s/%s.xml", directory, name);
    text = read_all(path, &bytes, sentence, sentence_bytes);
  }
  if (text == NULL) return NULL;
  df_lock(&lock);
  const df_plan_file *file = enter(path, text, bytes, sentence, sentence_bytes);
  df_unlock(&lock);
  return file;
}
