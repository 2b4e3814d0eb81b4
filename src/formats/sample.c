/* One sample on its way from stored elements to a model input: shape, layout, preprocessing of bytes, checks of values.
 * SPDX-License-Identifier: MIT */
#include <math.h>

#include "formats/dataset_parts.h"

/* ---- shape ---- */

/* Dimensions from `h` of the stored shape against those from `w` of the wanted one: equal, save for dimensions of 1 that
 * either side may have more. Where more are wanted than stored, a new one stands as far left as it can. */
static bool match_from(const oct_shape *have, int h, const oct_shape *want, int w, oct_shape *out) {
  if (h == have->rank && w == want->rank) return true;
  bool added = w < want->rank && (want->dim[w] == 1 || want->dim[w] == OCT_DIM_UNKNOWN);
  if (added && want->rank - w > have->rank - h) {
    out->dim[w] = 1;
    if (match_from(have, h, want, w + 1, out)) return true;
  }
  if (h < have->rank && w < want->rank && (want->dim[w] == OCT_DIM_UNKNOWN || want->dim[w] == have->dim[h])) {
    out->dim[w] = have->dim[h];
    if (match_from(have, h + 1, want, w + 1, out)) return true;
  }
  if (h < have->rank && have->dim[h] == 1 && match_from(have, h + 1, want, w, out)) return true;
  if (!added) return false;
  out->dim[w] = 1;
  return match_from(have, h, want, w + 1, out);
}

static bool match(const oct_shape *have, const oct_shape *want, oct_shape *out) {
  *out = *want;
  return match_from(have, 0, want, 0, out);
}

/* CHW <-> HWC, leading dimensions kept. */
static oct_shape turned(const oct_shape *shape, bool to_channels_last) {
  oct_shape out = *shape;
  int64_t *d = out.dim + out.rank - 3;
  int64_t a = d[0], b = d[1], c = d[2];
  if (to_channels_last) d[0] = b, d[1] = c, d[2] = a;
  else d[0] = c, d[1] = a, d[2] = b;
  return out;
}

static int channels_of(const oct_shape *shape, bool channels_last) {
  if (shape->rank < 3) return 1;
  int64_t channels = shape->dim[channels_last ? shape->rank - 1 : shape->rank - 3];
  return channels > 0 && channels <= 65536 ? (int)channels : 1;
}

bool oct_sample_fits(const oct_sample_source *source, const oct_sample_form *form, oct_sample_fit *fit) {
  *fit = (oct_sample_fit){0};
  const oct_shape *want = &form->shape;
  bool bytes = source->dtype == OCT_U8, spatial = source->shape.rank >= 3;
  oct_shape have = source->shape;
  if (source->is_image) {
    int64_t wanted_channels = want->rank >= 3 ? want->dim[form->channels_last ? want->rank - 1 : want->rank - 3] : 1;
    fit->grey = wanted_channels == 1;
    if (fit->grey) have.dim[2] = 1;
    fit->turn = !form->channels_last && !fit->grey;
  }
  bool done = false;
  if (!source->is_image) done = match(&have, want, &fit->shape);
  if (!done && (source->is_image || (bytes && spatial))) {
    bool turn = source->is_image ? !form->channels_last : true;
    oct_shape other = turn ? turned(&have, !source->is_image && form->channels_last) : have;
    done = match(&other, want, &fit->shape);
    if (!source->is_image) fit->turn = done;
  }
  fit->channels = channels_of(&fit->shape, form->channels_last);
  return done;
}

/* ---- values ---- */

static octet_status bad_value(octet_context *ctx, int64_t element, double value, const char *rule) {
  return oct_fail(ctx, OCTET_DATA, "element %lld is %g: %s", (long long)element, value, rule);
}

/* Least and greatest value of an integer type, as doubles where exact; 64-bit types are handled apart. */
static bool fits_integer(oct_dtype dtype, oct_dtype from, int64_t value) {
  switch (dtype) {
    case OCT_BOOL: return value == 0 || value == 1;
    case OCT_I8: return value >= INT8_MIN && value <= INT8_MAX;
    case OCT_U8: return value >= 0 && value <= UINT8_MAX;
    case OCT_I16: return value >= INT16_MIN && value <= INT16_MAX;
    case OCT_U16: return value >= 0 && value <= UINT16_MAX;
    case OCT_I32: return value >= INT32_MIN && value <= INT32_MAX;
    case OCT_U32: return value >= 0 && value <= UINT32_MAX;
    case OCT_I64: return from != OCT_U64 || value >= 0;
    default: return from == OCT_U64 || value >= 0;
  }
}

static octet_status convert_element(octet_context *ctx, const oct_sample_source *s, int64_t from, oct_dtype dtype, void *to, int64_t at) {
  if (oct_dtype_is_float(s->dtype)) {
    double value = oct_get_f64(s->data, s->dtype, from);
    if (!isfinite(value)) return bad_value(ctx, from, value, "data must be finite");
    oct_set_f64(to, dtype, at, value);
    if (!isfinite(oct_get_f64(to, dtype, at))) return bad_value(ctx, from, value, "too large for the input's type");
    return OCTET_OK;
  }
  if (oct_dtype_is_float(dtype)) {
    oct_set_f64(to, dtype, at, oct_get_f64(s->data, s->dtype, from));
    return OCTET_OK;
  }
  int64_t value = oct_get_i64(s->data, s->dtype, from);
  if (!fits_integer(dtype, s->dtype, value)) return bad_value(ctx, from, (double)value, "out of range for the input's type");
  oct_set_i64(to, dtype, at, value);
  return OCTET_OK;
}

static bool finite_floats(const float *values, int64_t count) {
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, values + i, sizeof bits);
    bad |= (bits & 0x7f800000u) == 0x7f800000u;
  }
  return !bad;
}

/* Elements that keep their order. */
static octet_status convert_plain(octet_context *ctx, const oct_sample_source *s, oct_dtype dtype, int64_t count, void *to) {
  if (s->dtype == dtype && (dtype != OCT_F32 || finite_floats(s->data, count)) && (dtype == OCT_F32 || !oct_dtype_is_float(dtype))) {
    if (count) memcpy(to, s->data, (size_t)count * oct_dtype_size(dtype));
    return OCTET_OK;
  }
  for (int64_t i = 0; i < count; i++) OCT_TRY(convert_element(ctx, s, i, dtype, to, i));
  return OCTET_OK;
}

/* ---- bytes ---- */

static uint8_t grey_of(const uint8_t *rgb) { return (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16); }

static void store(void *to, oct_dtype dtype, int64_t at, uint8_t byte, const float *table) {
  if (dtype == OCT_F32) ((float *)to)[at] = table[byte];
  else if (dtype == OCT_U8) ((uint8_t *)to)[at] = byte;
  else if (oct_dtype_is_float(dtype)) oct_set_f64(to, dtype, at, table[byte]);
  else oct_set_i64(to, dtype, at, byte);
}

/* Strides of (outer, channel, pixel) in a block laid out CHW or HWC. */
typedef struct strides {
  int64_t outer, channel, pixel;
} strides;

static strides strides_of(bool channels_last, int64_t channels, int64_t pixels) {
  return (strides){channels * pixels, channels_last ? 1 : pixels, channels_last ? channels : 1};
}

static octet_status convert_bytes(octet_context *ctx, const oct_preprocess *p, const oct_sample_source *s, const oct_sample_form *form,
                                  const oct_sample_fit *fit, void *to) {
  const uint8_t *bytes = s->data;
  int64_t count = oct_shape_count(&fit->shape), channels = fit->channels, outer = 1;
  if (count <= 0) return OCTET_OK;
  for (int i = 0; i < fit->shape.rank - 3; i++) outer *= fit->shape.dim[i];
  int64_t pixels = count / (outer * channels);
  strides write = strides_of(form->channels_last, channels, pixels), read = strides_of(form->channels_last != fit->turn, channels, pixels);
  if (fit->grey) read.pixel = 3;
  for (int64_t c = 0; c < channels; c++) {
    float table[256];
    int64_t stored = s->is_image && p->bgr && channels == 3 ? 2 - c : c;
    OCT_TRY(oct_preprocess_table(ctx, p, (int)c, (int)channels, table));
    for (int64_t o = 0; o < outer; o++)
      for (int64_t i = 0; i < pixels; i++) {
        const uint8_t *from = bytes + o * read.outer + stored * read.channel + i * read.pixel;
        store(to, form->dtype, o * write.outer + c * write.channel + i * write.pixel, fit->grey ? grey_of(from) : *from, table);
      }
  }
  return OCTET_OK;
}

octet_status oct_sample_convert(octet_context *ctx, const oct_preprocess *preprocess, const oct_sample_source *source,
                                const oct_sample_form *form, const oct_sample_fit *fit, void *to) {
  if (oct_dtype_is_float(source->dtype) && !oct_dtype_is_float(form->dtype))
    return oct_fail(ctx, OCTET_DATA, "the data is %s, but the input takes %s", oct_dtype_name(source->dtype), oct_dtype_name(form->dtype));
  if (source->dtype == OCT_U8 && form->dtype != OCT_I8 && form->dtype != OCT_BOOL)
    return convert_bytes(ctx, preprocess, source, form, fit, to);
  if (fit->turn || fit->grey) return oct_fail(ctx, OCTET_UNSUPPORTED, "bytes cannot become %s", oct_dtype_name(form->dtype));
  return convert_plain(ctx, source, form->dtype, oct_shape_count(&fit->shape), to);
}
