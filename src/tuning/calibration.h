/*
 * Calibration: rules that `dfccl-bench tune --quick` has measured on this machine, for groups on
 * one host. They come after the user's rules and before the built-in ones. The file lies in the
 * user's cache directory, is a tuning table (tuning/table.h), and names its machine in the second
 * line:
 *
 *   dfccl-tuning 1
 *   # calibrated: dfccl 0.1.0; AMD EPYC; 2 processors
 *   reduce        3-5    64K-256K    host    ring slot=64K
 */
#ifndef DF_TUNING_CALIBRATION_H
#define DF_TUNING_CALIBRATION_H

#include <stddef.h>
#include <stdint.h>

struct df_tuning;

enum { DF_CALIBRATION_PATH_BYTES = 600, DF_CALIBRATION_MACHINE_BYTES = 160 };
#define DF_CALIBRATION_WORD "# calibrated: "

/* The file of this machine: a home directory may serve several. cache, home: values of
 * XDG_CACHE_HOME and HOME, or NULL. 0: neither is an absolute path, or it is too long. */
int df_calibration_path(const char *cache, const char *home, char path[DF_CALIBRATION_PATH_BYTES]);

/* The processor's model name, or "unknown processor". */
void df_machine_processor(char *text, size_t bytes);

/* Version, processor and number of processors. */
void df_calibration_describe_machine(char text[DF_CALIBRATION_MACHINE_BYTES]);

/* Adds the file's rules to tuning->calibrated. A file that is not there has none; neither has one
 * that is damaged, of another machine, or too long, which is logged: nobody has asked for it. */
void df_calibration_read(struct df_tuning *tuning, const char *path);

/* A hash of the calibrated rules; 0: there are none. */
uint64_t df_calibration_digest(const struct df_tuning *tuning);

#endif
