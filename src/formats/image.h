/* PNG and JPEG files as 8-bit RGB pixels, and the two steps that networks' inputs need: bilinear resizing and cropping.
 * Not for writing images, colour management (gamma and profiles are ignored) or EXIF orientation (not applied).
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_IMAGE_H
#define OCT_FORMATS_IMAGE_H

#include "base/file.h"

#define OCT_IMAGE_MAX_SIDE 16384
#define OCT_IMAGE_MAX_PIXELS 134217728

typedef struct oct_image {
  uint8_t *pixels; /* [height][width][3], red first */
  int width, height;
} oct_image;

/* Decodes PNG (any depth and colour type: 16 bits are rounded to 8, grey becomes RGB, palettes are expanded, alpha is
 * dropped without blending) or JPEG (grey or colour; not CMYK). A damaged or cut-off file is an error.
 * Free with oct_image_free(). */
octet_status oct_image_read(octet_context *ctx, const char *path, oct_image *out);
octet_status oct_image_read_bytes(octet_context *ctx, oct_bytes bytes, const char *name, oct_image *out);
void oct_image_free(oct_image *image);

/* Bilinear resizing whose triangle widens when it shrinks (so nothing is skipped); the arithmetic and so the bytes are
 * those of Pillow's Image.resize(..., BILINEAR). */
octet_status oct_image_resize(octet_context *ctx, const oct_image *in, int width, int height, oct_image *out);
/* The centre part; where the margin is odd, as torchvision's CenterCrop: half of it rounded to even. */
octet_status oct_image_crop(octet_context *ctx, const oct_image *in, int width, int height, oct_image *out);

/* The decoders behind oct_image_read_bytes(). */
octet_status oct_image_read_png(octet_context *ctx, oct_bytes bytes, oct_image *out);
octet_status oct_image_read_jpeg(octet_context *ctx, oct_bytes bytes, oct_image *out);
/* Checks the size and allocates the pixels. */
octet_status oct_image_create(octet_context *ctx, uint64_t width, uint64_t height, oct_image *out);

#endif
