/* Files that others read while they are written anew. */
#ifndef DF_BASE_WHOLE_FILE_H
#define DF_BASE_WHOLE_FILE_H

#include <stddef.h>

/* Writes the bytes to a file of another name beside path, which no other writer has, and gives it
 * the name path. A reader sees the former file or the new one, never a part. Other users may read
 * it. Blocks as long as the disk does. Returns 0, or the number of the error; then path is as
 * before. */
int df_write_whole_file(const char *path, const char *bytes, size_t length);

#endif
