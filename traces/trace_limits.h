/* Limits of what is read from files. Input is checked against them, and the sentence names the
 * limit. */
#ifndef DF_TRACES_TRACE_LIMITS_H
#define DF_TRACES_TRACE_LIMITS_H

#define DF_TRACE_MAX_GPUS (1u << 20)
#define DF_TRACE_MAX_GROUPS (1u << 20)
#define DF_TRACE_MAX_MEMBERSHIPS (1u << 26)     /* members of all groups together */
#define DF_TRACE_MAX_EVENTS (UINT64_C(1) << 27) /* events held in memory at once */
#define DF_TRACE_MAX_FILE_BYTES (UINT64_C(512) << 20)
#define DF_TRACE_MAX_VALUE_BYTES (UINT64_C(2) << 30) /* memory for the values of one file */
/* A recorded group is named by its ranks: long names are normal. */
#define DF_TRACE_MAX_NAME_BYTES (1 << 20)

#endif
