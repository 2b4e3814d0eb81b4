/* Inside of a dataset, shared by dataset.c (opening, arrays) and dataset_folder.c (images).
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_DATASET_PARTS_H
#define OCT_FORMATS_DATASET_PARTS_H

#include "formats/dataset.h"

typedef struct oct_image_file {
  const char *name; /* below the folder, with '/' */
  int class_index;
} oct_image_file;

struct oct_dataset {
  char *path;
  oct_preprocess preprocess;
  oct_bundle arrays; /* names "" for .npy and IDX */
  bool named;        /* .npz */
  oct_region region; /* names of files and classes */
  oct_image_file *files;
  size_t n_files, files_capacity;
  const char **classes;
  size_t n_classes, classes_capacity;
  int64_t count;
};

octet_status oct_dataset_open_folder(octet_context *ctx, oct_dataset *data);
octet_status oct_dataset_image(octet_context *ctx, const oct_dataset *data, int64_t index, oct_image *out);

/* Raw bytes [height][width][channels] or [channels][height][width] on their way to the wanted form. */
typedef struct oct_sample_source {
  const void *data;
  oct_dtype dtype;
  oct_shape shape;
  bool is_image; /* three channels, channels last */
} oct_sample_source;

/* How a source's elements lie in the wanted shape: logical order channel, y, x. */
typedef struct oct_sample_fit {
  oct_shape shape; /* wanted, with every dimension known */
  bool turn;       /* CHW and HWC are exchanged */
  bool grey;       /* three channels become one */
  int channels;    /* 1 where there is no channel axis */
} oct_sample_fit;

/* false when the source cannot take the form. */
bool oct_sample_fits(const oct_sample_source *source, const oct_sample_form *form, oct_sample_fit *fit);
/* Converts; failures do not name the sample yet. */
octet_status oct_sample_convert(octet_context *ctx, const oct_preprocess *preprocess, const oct_sample_source *source,
                                const oct_sample_form *form, const oct_sample_fit *fit, void *to);

#endif
