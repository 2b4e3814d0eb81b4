/* The classes that count as right for each sample of a dataset: from an IDX file, a .npy array, a TSV, or sub-folders.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_LABELS_H
#define OCT_FORMATS_LABELS_H

#include "formats/dataset.h"

typedef struct oct_labels {
  int64_t count;  /* samples */
  int64_t *start; /* count + 1: sample i accepts classes[start[i]] .. classes[start[i + 1] - 1]; none: it is left out */
  int32_t *classes;
  int64_t labelled; /* samples with at least one class */
} oct_labels;

/* IDX and .npy: one integer per sample. TSV: file name, comma-separated classes, further columns not read; a first row
 * without classes is a header, later rows without classes leave their sample out. Rows are matched with a folder's files
 * by path or by name; for other data they are its samples in order. A sample without any row is left out, with a warning. */
octet_status oct_labels_read(octet_context *ctx, const char *path, const oct_dataset *data, oct_labels *out);
/* From the sub-folders of an image folder: classes count from 0 in the order of their names. */
octet_status oct_labels_from_folders(octet_context *ctx, const oct_dataset *data, oct_labels *out);
void oct_labels_free(oct_labels *labels);
/* Is `class_index` accepted for the sample? */
bool oct_labels_accept(const oct_labels *labels, int64_t sample, int64_t class_index);

#endif
