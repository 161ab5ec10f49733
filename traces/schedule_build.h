/* Schedule builder: readers of schedules and traces add groups and events, GPU after GPU. */
#ifndef DF_TRACES_SCHEDULE_BUILD_H
#define DF_TRACES_SCHEDULE_BUILD_H

#include "schedule.h"

/* The parts of the schedule that grow. Members of a group that is being read stand behind
 * member_count, in the group's order in member[] and, once added, ascending in sorted[]. */
typedef struct {
  df_schedule *schedule;
  uint32_t group_count, member_count, member_room;
  uint32_t *group_first; /* with one entry more than groups */
  uint32_t *member, *sorted;
  uint32_t first_room;
  uint64_t event_count, event_room;
  uint32_t *event;
  df_call *call;           /* parallel to event[]; NULL without df_call */
  uint64_t *first, *count; /* GPU -> its events */
  uint8_t *recorded;       /* GPU -> df_recorded */
  uint32_t *last_gpu;      /* collective -> the GPU + 1 that ran it last */
  uint32_t *group_of;
  uint32_t collective_room;
  bool with_calls;
  uint32_t gpu_count; /* largest GPU named anywhere + 1 */
} df_schedule_builder;

/* calls: events come with df_call. Freed with df_schedule_abandon, also after df_schedule_finish.
 */
dfcclResult_t df_schedule_begin(df_schedule_builder *build, df_schedule *schedule, bool calls);
void df_schedule_abandon(df_schedule_builder *build);
dfcclResult_t df_schedule_no_memory(const char *file);

/* Checks a name's length. path: where in the file it is. */
dfcclResult_t df_schedule_check_name(const char *file, const char *path, const char *name);

/* Room for so many members behind member_count; path for sentences. */
dfcclResult_t df_schedule_reserve_members(df_schedule_builder *build, const char *file,
                                          const char *path, uint32_t count);

/* Makes a group of the count members behind member_count. A group that is there already must have
 * the same members. */
dfcclResult_t df_schedule_add_group(df_schedule_builder *build, const char *file, const char *path,
                                    const char *name, uint32_t count, uint32_t *group);
bool df_schedule_is_member(const df_schedule_builder *build, uint32_t group, uint32_t gpu);

/* The events that follow are this GPU's. */
dfcclResult_t df_schedule_open_gpu(df_schedule_builder *build, const char *file, const char *path,
                                   uint32_t gpu, df_recorded recorded);

/* The event of a collective, by name; *twice: the GPU has run it already. */
dfcclResult_t df_schedule_name_event(df_schedule_builder *build, const char *file, uint32_t gpu,
                                     uint32_t group, const char *name, uint32_t *event,
                                     bool *twice);
/* call: NULL, or what is known of the call. */
dfcclResult_t df_schedule_add_event(df_schedule_builder *build, const char *file, uint32_t gpu,
                                    uint32_t event, const df_call *call);

/* The number of a content among all of the schedule. */
dfcclResult_t df_schedule_intern_content(df_schedule_builder *build, const char *file,
                                         const df_call_content *content, uint32_t *number);
/* Appends a step; a call's steps follow each other. */
dfcclResult_t df_schedule_add_step(df_schedule_builder *build, const char *file,
                                   df_step_before step);

/* Puts the GPUs' events in the order of their numbers and hands everything to the schedule. */
dfcclResult_t df_schedule_finish(df_schedule_builder *build, const char *file);

#endif
