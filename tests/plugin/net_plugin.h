/* What a test may ask of the plugin for tests, by dlsym in its library. */
#ifndef DF_TESTS_PLUGIN_NET_PLUGIN_H
#define DF_TESTS_PLUGIN_NET_PLUGIN_H

/* "": none; else a word of net_plugin.c, with a number behind a colon. At first, what
 * DFCCL_TEST_PLUGIN_FAULT has. */
typedef void (*net_plugin_set_fault)(const char *fault);
/* Listeners, communicators and registrations that are not closed. */
typedef int (*net_plugin_count_open)(void);

#endif
