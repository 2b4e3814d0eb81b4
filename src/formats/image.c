/* Images: choice of decoder, resizing, cropping. The decoders are in image_png.c and image_jpeg.c.
 * SPDX-License-Identifier: MIT */
#include "formats/image.h"

#include <math.h>

octet_status oct_image_create(octet_context *ctx, uint64_t width, uint64_t height, oct_image *out) {
  *out = (oct_image){0};
  if (width < 1 || height < 1 || width > OCT_IMAGE_MAX_SIDE || height > OCT_IMAGE_MAX_SIDE || width * height > OCT_IMAGE_MAX_PIXELS)
    return oct_fail(ctx, OCTET_UNSUPPORTED, "an image of %llu x %llu pixels; at most %d on a side and %d in all are read",
                    (unsigned long long)width, (unsigned long long)height, OCT_IMAGE_MAX_SIDE, OCT_IMAGE_MAX_PIXELS);
  out->pixels = oct_alloc_raw(ctx, (size_t)width * (size_t)height * 3);
  if (!out->pixels) return OCTET_OUT_OF_MEMORY;
  out->width = (int)width;
  out->height = (int)height;
  return OCTET_OK;
}

void oct_image_free(oct_image *image) {
  oct_free(image->pixels);
  *image = (oct_image){0};
}

octet_status oct_image_read_bytes(octet_context *ctx, oct_bytes bytes, const char *name, oct_image *out) {
  *out = (oct_image){0};
  octet_status status;
  if (bytes.size >= 8 && !memcmp(bytes.data, "\x89PNG\r\n\x1a\n", 8)) status = oct_image_read_png(ctx, bytes, out);
  else if (bytes.size >= 3 && !memcmp(bytes.data, "\xff\xd8\xff", 3)) status = oct_image_read_jpeg(ctx, bytes, out);
  else status = oct_fail(ctx, OCTET_FORMAT, "neither a PNG nor a JPEG file");
  return status == OCTET_OK ? OCTET_OK : oct_fail_prefix(ctx, "%s", name);
}

octet_status oct_image_read(octet_context *ctx, const char *path, oct_image *out) {
  *out = (oct_image){0};
  oct_file *file;
  OCT_TRY(oct_file_open(ctx, path, &file));
  octet_status status = oct_image_read_bytes(ctx, oct_file_bytes(file), path, out);
  oct_file_close(file);
  return status;
}

/* ---- resizing ---- */

#define WEIGHT_BITS 22 /* Pillow's fixed point: 32 - 8 - 2 */

/* For each output pixel along one axis: the input pixels that it is made of, and their weights in 1 / 2^22. */
typedef struct taps {
  int *first, *count;
  int32_t *weight; /* [out][widest] */
  int widest;
} taps;

static void free_taps(taps *t) {
  oct_free(t->first);
  oct_free(t->count);
  oct_free(t->weight);
}

static void fill_taps(taps *t, int out, int in, int to) {
  double scale = (double)in / to, stretch = scale < 1 ? 1 : scale, centre = (out + 0.5) * scale;
  int first = (int)(centre - stretch + 0.5), last = (int)(centre + stretch + 0.5);
  if (first < 0) first = 0;
  if (last > in) last = in;
  double sum = 0;
  for (int i = first; i < last; i++) {
    double distance = fabs((i - centre + 0.5) * (1.0 / stretch));
    sum += distance < 1 ? 1 - distance : 0;
  }
  t->first[out] = first;
  t->count[out] = last - first;
  for (int i = first; i < last; i++) {
    double distance = fabs((i - centre + 0.5) * (1.0 / stretch)), weight = distance < 1 ? 1 - distance : 0;
    if (sum != 0) weight *= 1.0 / sum;
    t->weight[(size_t)out * (size_t)t->widest + (size_t)(i - first)] = (int32_t)(0.5 + weight * (1 << WEIGHT_BITS));
  }
}

static octet_status make_taps(octet_context *ctx, int in, int to, taps *t) {
  double scale = (double)in / to;
  *t = (taps){.widest = (int)ceil(scale < 1 ? 1 : scale) * 2 + 1};
  t->first = oct_alloc(ctx, (size_t)to, sizeof *t->first);
  t->count = oct_alloc(ctx, (size_t)to, sizeof *t->count);
  t->weight = oct_alloc(ctx, (size_t)to * (size_t)t->widest, sizeof *t->weight);
  if (!t->first || !t->count || !t->weight) return OCTET_OUT_OF_MEMORY; /* the caller frees */
  for (int i = 0; i < to; i++) fill_taps(t, i, in, to);
  return OCTET_OK;
}

/* One weighted sum of bytes that lie `step` apart. */
static uint8_t weigh(const uint8_t *from, size_t step, const int32_t *weight, int count) {
  int32_t sum = 1 << (WEIGHT_BITS - 1);
  for (int i = 0; i < count; i++) sum += from[(size_t)i * step] * weight[i];
  sum >>= WEIGHT_BITS;
  return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void resize_rows(const oct_image *in, const taps *t, oct_image *out) {
  for (int y = 0; y < out->height; y++) {
    const uint8_t *row = in->pixels + (size_t)y * (size_t)in->width * 3;
    uint8_t *to = out->pixels + (size_t)y * (size_t)out->width * 3;
    for (int x = 0; x < out->width; x++)
      for (int c = 0; c < 3; c++)
        to[3 * x + c] = weigh(row + 3 * t->first[x] + c, 3, t->weight + (size_t)x * (size_t)t->widest, t->count[x]);
  }
}

static void resize_columns(const oct_image *in, const taps *t, oct_image *out) {
  size_t pitch = (size_t)in->width * 3;
  for (int y = 0; y < out->height; y++) {
    const uint8_t *from = in->pixels + (size_t)t->first[y] * pitch;
    uint8_t *to = out->pixels + (size_t)y * pitch;
    for (size_t i = 0; i < pitch; i++) to[i] = weigh(from + i, pitch, t->weight + (size_t)y * (size_t)t->widest, t->count[y]);
  }
}

octet_status oct_image_resize(octet_context *ctx, const oct_image *in, int width, int height, oct_image *out) {
  *out = (oct_image){0};
  if (width < 1 || height < 1) return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "an image cannot be resized to %d x %d", width, height);
  taps across = {0}, down = {0};
  oct_image narrow = {0};
  octet_status status = oct_image_create(ctx, (uint64_t)width, (uint64_t)in->height, &narrow);
  if (status == OCTET_OK) status = oct_image_create(ctx, (uint64_t)width, (uint64_t)height, out);
  if (status == OCTET_OK) status = make_taps(ctx, in->width, width, &across);
  if (status == OCTET_OK) status = make_taps(ctx, in->height, height, &down);
  if (status == OCTET_OK) {
    resize_rows(in, &across, &narrow);
    resize_columns(&narrow, &down, out);
  } else {
    oct_image_free(out);
  }
  free_taps(&across);
  free_taps(&down);
  oct_image_free(&narrow);
  return status;
}

/* ---- cropping ---- */

static int margin_before(int size, int part) {
  int margin = size - part, half = margin / 2;
  return margin % 2 && half % 2 ? half + 1 : half;
}

octet_status oct_image_crop(octet_context *ctx, const oct_image *in, int width, int height, oct_image *out) {
  *out = (oct_image){0};
  if (width < 1 || height < 1 || width > in->width || height > in->height)
    return oct_fail(ctx, OCTET_SHAPE, "an image of height %d and width %d cannot be cropped to height %d and width %d", in->height,
                    in->width, height, width);
  OCT_TRY(oct_image_create(ctx, (uint64_t)width, (uint64_t)height, out));
  int top = margin_before(in->height, height), left = margin_before(in->width, width);
  for (int y = 0; y < height; y++) {
    const uint8_t *from = in->pixels + ((size_t)(top + y) * (size_t)in->width + (size_t)left) * 3;
    memcpy(out->pixels + (size_t)y * (size_t)width * 3, from, (size_t)width * 3);
  }
  return OCTET_OK;
}
