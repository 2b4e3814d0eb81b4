/* How bytes (of images, IDX files, uint8 arrays) become a network's input:
 * "scale=1/255 mean=0.485,0.456,0.406 std=0.229,0.224,0.225 color=rgb resize=256 crop=224".
 * y = (x * scale - mean) / std, per channel. Float data is never touched by it.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_PREPROCESS_H
#define OCT_FORMATS_PREPROCESS_H

#include "formats/image.h"

#define OCT_PREPROCESS_CHANNELS 4

typedef struct oct_preprocess {
  double scale_numerator, scale_denominator; /* kept apart so that 1/255 divides by 255 */
  int n_mean, n_std;                         /* 0: none; 1: the same for every channel; else one per channel */
  double mean[OCT_PREPROCESS_CHANNELS], std[OCT_PREPROCESS_CHANNELS];
  bool bgr;                        /* images: blue first */
  int resize_height, resize_width; /* images; 0: none; width 0: `resize_height` is the shorter side, the aspect is kept */
  int crop_height, crop_width;     /* images; 0: none; the centre */
} oct_preprocess;

/* Scale 1, nothing else: the bytes' own values. */
oct_preprocess oct_preprocess_default(void);
/* Parses words separated by blanks; NULL and "" give the default. Sizes are N or HEIGHTxWIDTH, numbers may be fractions a/b. */
octet_status oct_preprocess_parse(octet_context *ctx, const char *text, oct_preprocess *out);
/* The text that parses to the same; "" for the default (oct_free it). */
octet_status oct_preprocess_text(octet_context *ctx, const oct_preprocess *preprocess, char **out);

/* The value that each byte becomes in `channel`. A failure when mean or std has no value for the channel. */
octet_status oct_preprocess_table(octet_context *ctx, const oct_preprocess *preprocess, int channel, int channels, float table[256]);
/* Applies resize and crop, replacing the image. */
octet_status oct_preprocess_image(octet_context *ctx, const oct_preprocess *preprocess, oct_image *image);

#endif
