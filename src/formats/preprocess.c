/* The preprocessing specification: parsing, printing, and its arithmetic.
 * SPDX-License-Identifier: MIT */
#include "formats/preprocess.h"

#include <math.h>
#include <stdlib.h>

#include "base/strbuf.h"

oct_preprocess oct_preprocess_default(void) { return (oct_preprocess){.scale_numerator = 1, .scale_denominator = 1}; }

/* ---- parsing ---- */

static octet_status bad_word(octet_context *ctx, const char *word, const char *rule) {
  return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "preprocess \"%s\": %s", word, rule);
}

/* "0.5" or "1/255" up to `stop`; false when it is neither or not finite. */
static bool read_fraction(const char **text, double *numerator, double *denominator) {
  char *end;
  *numerator = strtod(*text, &end);
  *denominator = 1;
  if (end == *text) return false;
  if (*end == '/') {
    const char *below = end + 1;
    *denominator = strtod(below, &end);
    if (end == below || *denominator == 0) return false;
  }
  *text = end;
  return isfinite(*numerator) && isfinite(*denominator) && isfinite(*numerator / *denominator);
}

static octet_status read_scale(octet_context *ctx, const char *word, const char *value, oct_preprocess *out) {
  if (!read_fraction(&value, &out->scale_numerator, &out->scale_denominator) || *value || out->scale_numerator == 0)
    return bad_word(ctx, word, "the scale is a number or fraction other than 0, such as 1/255");
  return OCTET_OK;
}

static octet_status read_channels(octet_context *ctx, const char *word, const char *value, bool divisor, double *values, int *count) {
  *count = 0;
  for (;;) {
    double numerator, denominator;
    if (*count == OCT_PREPROCESS_CHANNELS) return bad_word(ctx, word, "at most 4 numbers, one per channel");
    if (!read_fraction(&value, &numerator, &denominator))
      return bad_word(ctx, word, "numbers separated by commas, one per channel or one for all");
    values[*count] = numerator / denominator;
    if (divisor && values[*count] == 0) return bad_word(ctx, word, "a divisor must not be 0");
    ++*count;
    if (!*value) return OCTET_OK;
    if (*value++ != ',') return bad_word(ctx, word, "numbers separated by commas, one per channel or one for all");
  }
}

static octet_status read_mean(octet_context *ctx, const char *word, const char *value, oct_preprocess *out) {
  return read_channels(ctx, word, value, false, out->mean, &out->n_mean);
}
static octet_status read_std(octet_context *ctx, const char *word, const char *value, oct_preprocess *out) {
  return read_channels(ctx, word, value, true, out->std, &out->n_std);
}

static octet_status read_color(octet_context *ctx, const char *word, const char *value, oct_preprocess *out) {
  out->bgr = !strcmp(value, "bgr");
  return out->bgr || !strcmp(value, "rgb") ? OCTET_OK : bad_word(ctx, word, "the color order is rgb or bgr");
}

/* N or HEIGHTxWIDTH. */
static octet_status read_size(octet_context *ctx, const char *word, const char *value, int *height, int *width) {
  char *end;
  long h = strtol(value, &end, 10), w = 0;
  bool good = end > value && h >= 1 && h <= OCT_IMAGE_MAX_SIDE;
  if (good && *end == 'x') {
    value = end + 1;
    w = strtol(value, &end, 10);
    good = end > value && w >= 1 && w <= OCT_IMAGE_MAX_SIDE;
  }
  if (!good || *end) return bad_word(ctx, word, "a size is N or HEIGHTxWIDTH, from 1 to 16384");
  *height = (int)h;
  *width = (int)w;
  return OCTET_OK;
}

static octet_status read_resize(octet_context *ctx, const char *word, const char *value, oct_preprocess *out) {
  return read_size(ctx, word, value, &out->resize_height, &out->resize_width);
}
static octet_status read_crop(octet_context *ctx, const char *word, const char *value, oct_preprocess *out) {
  OCT_TRY(read_size(ctx, word, value, &out->crop_height, &out->crop_width));
  if (!out->crop_width) out->crop_width = out->crop_height;
  return OCTET_OK;
}

static const struct {
  const char *name;
  octet_status (*read)(octet_context *ctx, const char *word, const char *value, oct_preprocess *out);
} WORDS[] = {{"scale", read_scale}, {"mean", read_mean},     {"std", read_std},
             {"color", read_color}, {"resize", read_resize}, {"crop", read_crop}};
#define N_WORDS (sizeof WORDS / sizeof *WORDS)

static octet_status read_word(octet_context *ctx, const char *word, oct_preprocess *out, unsigned *seen) {
  const char *equals = strchr(word, '=');
  for (size_t i = 0; equals && i < N_WORDS; i++) {
    size_t length = strlen(WORDS[i].name);
    if ((size_t)(equals - word) != length || strncmp(word, WORDS[i].name, length)) continue;
    if (*seen & 1u << i) return bad_word(ctx, word, "given twice");
    *seen |= 1u << i;
    return WORDS[i].read(ctx, word, equals + 1, out);
  }
  return bad_word(ctx, word, "known are scale=, mean=, std=, color=, resize= and crop=");
}

octet_status oct_preprocess_parse(octet_context *ctx, const char *text, oct_preprocess *out) {
  static const char blanks[] = " \t\r\n";
  *out = oct_preprocess_default();
  unsigned seen = 0;
  for (const char *at = text ? text + strspn(text, blanks) : ""; *at; at += strspn(at, blanks)) {
    size_t length = strcspn(at, blanks);
    char *word = oct_strndup(ctx, at, length);
    if (!word) return OCTET_OUT_OF_MEMORY;
    octet_status status = read_word(ctx, word, out, &seen);
    oct_free(word);
    if (status != OCTET_OK) return status;
    at += length;
  }
  return OCTET_OK;
}

/* ---- printing ---- */

static void print_channels(oct_strbuf *text, const char *name, const double *values, int count) {
  for (int i = 0; i < count; i++) {
    oct_strbuf_puts(text, i ? "," : name);
    oct_strbuf_double(text, values[i]);
  }
}

static void print_size(oct_strbuf *text, const char *name, int height, int width) {
  if (height && width && (height != width || !strcmp(name, " resize="))) oct_strbuf_printf(text, "%s%dx%d", name, height, width);
  else if (height) oct_strbuf_printf(text, "%s%d", name, height);
}

octet_status oct_preprocess_text(octet_context *ctx, const oct_preprocess *p, char **out) {
  oct_strbuf text = oct_strbuf_make(ctx);
  if (p->scale_numerator != p->scale_denominator) {
    oct_strbuf_puts(&text, " scale=");
    oct_strbuf_double(&text, p->scale_numerator);
    if (p->scale_denominator != 1) oct_strbuf_puts(&text, "/"), oct_strbuf_double(&text, p->scale_denominator);
  }
  print_channels(&text, " mean=", p->mean, p->n_mean);
  print_channels(&text, " std=", p->std, p->n_std);
  if (p->bgr) oct_strbuf_puts(&text, " color=bgr");
  print_size(&text, " resize=", p->resize_height, p->resize_width);
  print_size(&text, " crop=", p->crop_height, p->crop_width);
  OCT_TRY(oct_strbuf_take(&text, out));
  if (**out) memmove(*out, *out + 1, strlen(*out)); /* the first blank */
  return OCTET_OK;
}

/* ---- arithmetic ---- */

static bool channel_value(const double *values, int count, int channel, int channels, double otherwise, double *out) {
  *out = count == 0 ? otherwise : values[count == 1 ? 0 : channel];
  return count <= 1 || count == channels;
}

octet_status oct_preprocess_table(octet_context *ctx, const oct_preprocess *p, int channel, int channels, float table[256]) {
  double mean, std;
  if (channel < 0 || channel >= channels || !channel_value(p->mean, p->n_mean, channel, channels, 0, &mean) ||
      !channel_value(p->std, p->n_std, channel, channels, 1, &std))
    return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "preprocess gives %d means and %d stds for data of %d channels", p->n_mean, p->n_std,
                    channels);
  for (int x = 0; x < 256; x++) table[x] = (float)((x * p->scale_numerator / p->scale_denominator - mean) / std);
  return OCTET_OK;
}

/* Applies one step that makes a new image, and drops the old one. */
static octet_status replace(octet_context *ctx, octet_status (*step)(octet_context *, const oct_image *, int, int, oct_image *), int width,
                            int height, oct_image *image) {
  oct_image made;
  OCT_TRY(step(ctx, image, width, height, &made));
  oct_image_free(image);
  *image = made;
  return OCTET_OK;
}

octet_status oct_preprocess_image(octet_context *ctx, const oct_preprocess *p, oct_image *image) {
  int height = p->resize_height, width = p->resize_width;
  if (height && !width) { /* the shorter side, as torchvision's Resize: the longer one is rounded down */
    int64_t side = height, w = image->width, h = image->height;
    width = (int)(w <= h ? side : side * w / h);
    height = (int)(w <= h ? side * h / w : side);
  }
  if (height && (height != image->height || width != image->width)) OCT_TRY(replace(ctx, oct_image_resize, width, height, image));
  if (p->crop_height) OCT_TRY(replace(ctx, oct_image_crop, p->crop_width, p->crop_height, image));
  return OCTET_OK;
}
