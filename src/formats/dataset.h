/* Data to calibrate and evaluate with: F.npy, F.npz (one array per input), an IDX file (.gz too) or a folder of PNG and
 * JPEG images (sub-folders are classes). Axis 0 of an array is the sample axis. Images are decoded when they are read.
 * A dataset is read-only after opening: threads may share it, each with a context of its own.
 * Labels are in labels.h, the byte-to-float rule in preprocess.h.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_DATASET_H
#define OCT_FORMATS_DATASET_H

#include "formats/preprocess.h"
#include "tensor/tensor.h"

typedef struct oct_dataset oct_dataset;

/* `preprocess` NULL: none. Empty data, arrays of different length and unknown files are errors that name the path. */
octet_status oct_dataset_open(octet_context *ctx, const char *path, const oct_preprocess *preprocess, oct_dataset **out);
void oct_dataset_close(oct_dataset *data); /* NULL is fine */

int64_t oct_dataset_count(const oct_dataset *data);
const char *oct_dataset_path(const oct_dataset *data);
/* What values are stored as: an array's type, u8 for images. `input` as in oct_dataset_read(); OCT_DTYPE_NONE when absent. */
oct_dtype oct_dataset_dtype(const oct_dataset *data, const char *input);
/* true when `input` is one of a .npz file's arrays, or the data has only one array (or images). */
bool oct_dataset_has(const oct_dataset *data, const char *input);
/* Names of a .npz file's arrays; 0 for other data. */
size_t oct_dataset_n_names(const oct_dataset *data);
const char *oct_dataset_name(const oct_dataset *data, size_t index);

/* What one sample shall become. */
typedef struct oct_sample_form {
  oct_dtype dtype;    /* F32 for most; the model input's type */
  bool channels_last; /* of `shape`, when it has three or more dimensions: HWC, else CHW */
  oct_shape shape;    /* without the batch dimension; OCT_DIM_UNKNOWN where anything will do */
} oct_sample_form;

/* The full shape (no unknown dimension) that the sample has in this form: what a caller allocates for. */
octet_status oct_dataset_shape(octet_context *ctx, const oct_dataset *data, const char *input, int64_t index, const oct_sample_form *form,
                               oct_shape *out);
/* Writes sample `index` to `to` (oct_shape_count elements of form->dtype, as oct_dataset_shape() says).
 * `input`: name of a .npz array; NULL (or anything, where there is but one array or images) is the only one.
 * Shapes must agree, save for dimensions of 1 (IDX images gain a channel axis so); bytes are also turned between CHW and
 * HWC. Bytes that become floats go through the preprocessing; floats and other integers keep their values. Integers
 * become other integers when they fit. Images become grey (ITU-R 601) where one channel is wanted.
 * A NaN or infinity, a value that does not fit, or another shape is an error that names file, sample and rule. */
octet_status oct_dataset_read(octet_context *ctx, const oct_dataset *data, const char *input, int64_t index, const oct_sample_form *form,
                              void *to);

/* For folders: path of the sample's file below the folder, its class (-1: not in a sub-folder), and the classes' names. */
const char *oct_dataset_file(const oct_dataset *data, int64_t index); /* NULL when the data is no folder */
int oct_dataset_class(const oct_dataset *data, int64_t index);
int oct_dataset_n_classes(const oct_dataset *data);
const char *oct_dataset_class_name(const oct_dataset *data, int class_index);

/* `count` different indices below `total`, in the order drawn: splitmix64 started with `seed`, a partial Fisher-Yates
 * shuffle of 0, 1, ..., total - 1 (index i is exchanged with i + r, r uniform below total - i by rejection).
 * The same seed gives the same draw on every machine. A failure when count > total. */
octet_status oct_dataset_draw(octet_context *ctx, uint64_t seed, int64_t total, int64_t count, int64_t *indices);

#endif
