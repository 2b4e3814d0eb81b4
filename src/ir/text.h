/* The text form: `octet 1`, lossless, with weights by name from a .pth, .npz or .npy beside it. Grammar in docs/text-form.md.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_IR_TEXT_H
#define OCT_IR_TEXT_H

#include "base/strbuf.h"
#include "ir/op.h"

/* Loads the weights file a text names; supplied by the caller so that ir knows no formats. */
typedef octet_status (*oct_weights_loader)(octet_context *ctx, void *user, const char *file, oct_bundle *out);

/* Parses; OCTET_FORMAT with line and column. `loader` NULL: a text that names a weights file is an error. */
octet_status oct_text_parse(octet_context *ctx, const char *text, size_t length, oct_weights_loader loader, void *user, oct_graph **out);
/* Prints. Constants over 16 elements go to `arrays` under their value's name (the caller saves it as `weights_file`, named in the text). */
octet_status oct_text_print(octet_context *ctx, const oct_graph *graph, const char *weights_file, oct_strbuf *out, oct_bundle *arrays);

#endif
