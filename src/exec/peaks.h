/* The machine's measured peaks: what layers are held against in `octet bench --layers`.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_EXEC_PEAKS_H
#define OCT_EXEC_PEAKS_H

#include "base/context.h"

/* Times short loops of kernels/peak.h with all the context's threads and instruction sets: about a quarter of a second. */
octet_status oct_peaks_measure(octet_context *ctx, octet_peaks *out);

#endif
