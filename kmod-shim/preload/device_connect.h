// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef UROCE_PRELOAD_DEVICE_CONNECT_H
#define UROCE_PRELOAD_DEVICE_CONNECT_H

#include "kmod-shim/uapi/uroce_daemon.h"

// A connection to this namespace's uroced for a device that is being opened, or a negative errno as of
// open().
int device_connect(void);

// What open() says after a HELLO that failed (`error`: an errno, or below 0 one of the stand-in's own); tells
// the user uroced's reason where it is one for him. Negative.
int device_refused(int error, const struct uroce_hello_reply* reply);

#endif
