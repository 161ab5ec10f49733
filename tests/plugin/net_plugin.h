/* Functions of the plugin for tests that a test finds by dlsym in its library. */
#ifndef DF_TESTS_PLUGIN_NET_PLUGIN_H
#define DF_TESTS_PLUGIN_NET_PLUGIN_H

/* "": none; otherwise a fault of net_plugin.c, with a number behind a colon. The initial value is
 * that of DFCCL_TEST_PLUGIN_FAULT. */
typedef void (*net_plugin_set_fault)(const char *fault);
/* The number of listeners, communicators and registrations that are not closed. */
typedef int (*net_plugin_count_open)(void);

#endif
