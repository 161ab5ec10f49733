#include "bootstrap/net/security.h"

const char *const df_security_names[DF_SECURITY_BEYOND] = {"auth", "integrity", "encrypt", "tls",
                                                           "none"};
