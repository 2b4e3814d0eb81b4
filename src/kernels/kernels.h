/* Kernel families: what a kernel is given, what it must do, and how variants are found. No graph knowledge here.
 *
 * A variant is one row at the bottom of its own file, whose suffix names the instruction set (conv_i8_direct__avx512vnni.c).
 * The build collects the rows by name; oct_*_select() takes the best one that the instruction-set mask and the
 * row's own predicate allow. The scalar row accepts everything and is the oracle.
 *
 * All 8-bit activations are unsigned here: signed ones are stored with 128 added to value and zero point.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_KERNELS_H
#define OCT_KERNELS_KERNELS_H

#include "base/cpu.h"
#include "kernels/numerics.h"

/* Every activation buffer may be read this many bytes past its last element (values there do not matter), but not written. */
#define OCT_OVERREAD 64

/* A channels-last activation [batch][height][width][channels]; `data` is logical pixel (0,0,0), strides are in elements.
 * Around each image lies a physical border as wide as the consumers' padding, filled with the zero point (0 for floats), so
 * pixels at negative or too large coordinates within the padding may be read. Matrices [M][K] are height 1, width M. */
typedef struct oct_view {
  void *data;
  ptrdiff_t image, row, pixel;
} oct_view;

static inline void *oct_view_at(const oct_view *v, size_t element_size, int64_t n, int64_t y, int64_t x) {
  return (char *)v->data + (ptrdiff_t)element_size * (n * v->image + y * v->row + x * v->pixel);
}

/* A convolution problem; groups == channels is depthwise (any multiplier). A dense layer [M][K]x[K][N] is batch 1, height 1, width M, 1x1.
 * Output pixel (y,x) reads input rows y*stride_h - pad_top + i*dilation_h. */
typedef struct oct_conv_shape {
  int64_t batch, in_h, in_w, channels, out_h, out_w, out_channels;
  int kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left, groups;
} oct_conv_shape;

typedef enum oct_epilogue_out { OCT_EPILOGUE_U8, OCT_EPILOGUE_F32, OCT_EPILOGUE_S32, OCT_EPILOGUE_ROUNDED } oct_epilogue_out;

/* What happens to the int32 accumulator of output channel c (all per-channel arrays have out_channels entries, padded with zeros to a
 * multiple of 64; bias is int32 with the input zero point folded in: bias - zero_point * sum of weights):
 *   U8 : t = float(acc + bias[c]) * multiplier[c];  t += float(residual - residual_zero_point) * residual_scale  (mul, then add: no FMA)
 *        q = requantize_onnx(t, zero_point, low, high);  out = table ? table[q] : q
 *        profile tflite: fixed_point(multiplier[c]) takes the place of the float product (no residual there)
 *   F32: bias is as above (without the zero-point term when row_scale is given). Without row_scale
 *          y = float(acc + bias[c]) * multiplier[c] + float_bias[c]
 *        with row_scale (dynamic quantization; index = image when rows_per_scale > 1, i.e. (global output pixel index) / rows_per_scale):
 *          y = float(acc + bias[c] - row_zero_point[i] * weight_sum[c]) * (row_scale[i] * multiplier[c]) + float_bias[c]
 *        then y += residual (float), then y = clamp(y, float_low, float_high). float_bias NULL: not added.
 *   S32: out = acc + bias[c] (bias may be NULL)
 *   ROUNDED: t = y as in F32 before residual and clamp (multiplier and float_bias are in units of the output's scale);
 *        with row_scale, n = take_units(&float_bias[c], row_scale[i] * multiplier[c]) is added to the accumulator;
 *        out = requantize_onnx(t, zero_point, low, high), u8; no residual, no table */
typedef struct oct_epilogue_i8 {
  oct_profile profile;
  oct_epilogue_out out;
  const int32_t *bias;
  const float *multiplier;
  int32_t zero_point, low, high;
  const uint8_t *table;
  float residual_scale;
  int32_t residual_zero_point;
  const float *float_bias;
  float float_low, float_high;
  const float *row_scale;
  const int32_t *row_zero_point;
  const int32_t *weight_sum;
  int64_t rows_per_scale;
} oct_epilogue_i8;

typedef struct oct_conv_i8_args {
  oct_conv_shape shape;
  oct_view in;        /* u8 */
  oct_view out;       /* u8, f32 or s32 */
  oct_view residual;  /* u8 (out U8) or f32 (out F32); data NULL: none */
  const void *packed; /* from pack() */
  const void *next;   /* weights that a later step will wait for, worth being fetched meanwhile; NULL: none */
  size_t next_bytes;
  oct_epilogue_i8 epilogue;
} oct_conv_i8_args;

typedef struct oct_conv_i8_kernel {
  const char *name; /* conv_i8_<how>_<tile>__<isa> */
  oct_isa isa;
  int preference;                                     /* the highest accepted one wins */
  const char *(*reject)(const oct_conv_shape *shape); /* NULL when it accepts, else the reason in words */
  /* NULL, or, for a row that is exact only for some weights: like reject(), and asked after it. `weights` as for pack(), `bias` as in the
   * epilogue (NULL: zeros). What it accepts must be exact for any input bytes. Rows that have it share one rule: the answer of one is taken
   * for all. */
  const char *(*reject_weights)(const oct_conv_shape *shape, const int8_t *weights, const int32_t *bias);
  bool packs_by_size; /* how weights are packed depends on the size of the image, not only on channels, kernel, stride and dilation */
  size_t (*packed_bytes)(const oct_conv_shape *shape);
  void (*pack)(const oct_conv_shape *shape, const int8_t *weights, void *packed); /* weights [out][channels/groups][kernel_h][kernel_w] */
  size_t (*workspace_bytes)(const oct_conv_shape *shape);                         /* per worker, aligned to 64 bytes; NULL: none */
  size_t (*units)(const oct_conv_shape *shape);                                   /* independent pieces of work */
  void (*run)(const oct_conv_i8_args *args, size_t begin, size_t end, void *workspace); /* units [begin, end) */
} oct_conv_i8_kernel;

/* Set in an instruction-set mask given to oct_conv_f32_select(): rows flagged `approximate` are passed over. */
#define OCT_EXACT_FLOAT (UINT32_C(1) << 31)

/* Likewise: approximate rows whose packed weights are larger than the weights themselves are passed over. */
#define OCT_FEW_BYTES (UINT32_C(1) << 30)

/* Float: y = acc + bias[c]; y += residual; y = clamp(y, low, high). */
typedef struct oct_conv_f32_args {
  oct_conv_shape shape;
  oct_view in, out, residual; /* f32 */
  const void *packed;
  const float *bias; /* padded to a multiple of 64 with zeros; NULL: none */
  float low, high;   /* -INFINITY, INFINITY: no clamp */
} oct_conv_f32_args;

typedef struct oct_conv_f32_kernel {
  const char *name;
  oct_isa isa;
  int preference;
  bool approximate; /* Winograd: the error is bounded by the largest inputs near the output, not by the output's own products; NaN and
                       infinities spread to neighbouring outputs. The bound stands in the variant's file. */
  const char *(*reject)(const oct_conv_shape *shape);
  size_t (*packed_bytes)(const oct_conv_shape *shape);
  void (*pack)(const oct_conv_shape *shape, const float *weights, void *packed);
  /* The same for a 1x1 problem of one group whose weight of input k and output n lies at w[k * k_stride + n * n_stride], times scale; NULL: none. */
  void (*pack_matrix)(const oct_conv_shape *shape, const float *w, ptrdiff_t k_stride, ptrdiff_t n_stride, float scale, void *packed);
  size_t (*workspace_bytes)(const oct_conv_shape *shape);
  size_t (*units)(const oct_conv_shape *shape);
  void (*run)(const oct_conv_f32_args *args, size_t begin, size_t end, void *workspace);
} oct_conv_f32_kernel;

/* Pooling windows are clipped to the image (padding never takes part in a maximum). */
typedef struct oct_pool_args {
  oct_conv_shape shape; /* channels == out_channels == groups; no weights */
  oct_view in, out;
  /* average only */
  bool include_pad; /* divide by the whole window (clipped to the padded image: pad_bottom/right below) instead of the pixels inside */
  int pad_bottom, pad_right;
  float multiplier;                                 /* u8: input scale / output scale */
  int32_t in_zero_point, out_zero_point, low, high; /* u8: q = requantize_onnx(float(sum(x - in_zp)) * (multiplier / float(count))) */
} oct_pool_args;

/* Functions of floats (kernels/math_f32.h states their errors) over dense runs, and rows that are normalized. Variants differ by rounding.
 * x and y may be the same memory. */
typedef struct oct_vector_math {
  void (*exp_f32)(size_t n, const float *x, float *y);
  void (*sigmoid_f32)(size_t n, const float *x, float *y);
  void (*tanh_f32)(size_t n, const float *x, float *y);
  void (*erf_f32)(size_t n, const float *x, float *y);
  void (*gelu_f32)(size_t n, const float *x, float *y);    /* x / 2 * (1 + erf(x / sqrt 2)) */
  void (*softmax_f32)(size_t n, const float *x, float *y); /* one row: e^(x - max) over its sum */
  /* One row: (x - mean) / sqrt(variance + epsilon) * scale + shift; shift NULL: 0 */
  void (*layer_norm_f32)(size_t n, const float *x, const float *scale, const float *shift, float epsilon, float *y);
  /* softmax of many rows of n, one after the other: made for short ones. A row's result does not depend on those beside it. */
  void (*softmax_rows_f32)(size_t rows, size_t n, const float *x, float *y);
  /* softmax of `columns` columns side by side: element k of column c is x[k * stride + c] */
  void (*softmax_columns_f32)(size_t columns, size_t n, const float *x, float *y, size_t stride);
} oct_vector_math;

#define OCT_QUANTIZE_PLANES 4
#define OCT_HISTOGRAM_BINS 4096
#define OCT_HISTOGRAM_SLOTS 8

/* Dense runs of n elements; callers split rows of padded views. in and out may be the same memory where types have one size. */
typedef struct oct_vector_kernels {
  const char *name;
  oct_isa isa;
  void (*quantize_f32_u8)(size_t n, const float *x, uint8_t *y, float scale, int32_t zero_point); /* oct_quantize, range 0..255 */
  void (*dequantize_u8_f32)(size_t n, const uint8_t *x, float *y, float scale, int32_t zero_point);
  void (*table_u8)(size_t n, const uint8_t *x, uint8_t *y, const uint8_t table[256]);
  void (*table_u8_f32)(size_t n, const uint8_t *x, float *y, const float table[256]);
  /* t = float(a - a_zp) * a_scale + float(b - b_zp) * b_scale (each product rounded); q = requantize_onnx(t, zp, low, high) */
  void (*add_u8)(size_t n, const uint8_t *a, const uint8_t *b, uint8_t *y, float a_scale, int32_t a_zp, float b_scale, int32_t b_zp,
                 int32_t zp, int32_t low, int32_t high);
  /* t = float((a - a_zp) * (b - b_zp)) * scale; b_broadcast: b is one element */
  void (*mul_u8)(size_t n, const uint8_t *a, const uint8_t *b, bool b_broadcast, uint8_t *y, float scale, int32_t a_zp, int32_t b_zp,
                 int32_t zp, int32_t low, int32_t high);
  void (*minmax_f32)(size_t n, const float *x, float *low, float *high); /* widens *low, *high; NaN is ignored */
  void (*add_f32)(size_t n, const float *a, const float *b, float *y);
  void (*sub_f32)(size_t n, const float *a, const float *b, float *y);
  void (*mul_f32)(size_t n, const float *a, const float *b, float *y);
  void (*div_f32)(size_t n, const float *a, const float *b, float *y);
  void (*scale_f32)(size_t n, const float *x, float *y, float scale, float shift); /* y = x * scale + shift, two roundings */
  void (*clamp_f32)(size_t n, const float *x, float *y, float low, float high);    /* NaN stays */
  const oct_vector_math *math;
  void (*max_pool_u8)(const oct_pool_args *args, size_t begin, size_t end); /* units: output rows, batch * out_h */
  void (*max_pool_f32)(const oct_pool_args *args, size_t begin, size_t end);
  void (*average_pool_u8)(const oct_pool_args *args, size_t begin, size_t end);
  void (*average_pool_f32)(const oct_pool_args *args, size_t begin, size_t end);
  /* y[c * y_row + r] = x[r * x_row + c] for r < rows, c < columns; strides in elements, >= 0; x and y apart */
  void (*transpose_u8)(size_t rows, size_t columns, const uint8_t *x, ptrdiff_t x_row, uint8_t *y, ptrdiff_t y_row);
  void (*transpose_u32)(size_t rows, size_t columns, const uint32_t *x, ptrdiff_t x_row, uint32_t *y, ptrdiff_t y_row);
  /* y[r * y_row + i * planes + c] = oct_quantize(x[r * x_row + c * plane + i]) for r < rows, i < n, c < planes <= OCT_QUANTIZE_PLANES: the
   * planes of an image to its pixels */
  void (*quantize_planes_u8)(size_t rows, size_t n, size_t planes, const float *x, ptrdiff_t x_row, ptrdiff_t plane, uint8_t *y,
                             ptrdiff_t y_row, float scale, int32_t zero_point);
  /* An epilogue with one row_scale, F32 or ROUNDED, to one without: constants of n channels, float_bias being 0 where there is none. Returns
   * whether all of these are 0. */
  bool (*fold_scale)(size_t n, const oct_epilogue_i8 *from, int32_t *bias, float *multiplier, float *float_bias);
  bool (*extremes_f32)(size_t n, const float *x, float *low, float *high); /* widens *low, *high; false: there is a NaN or an infinity */
  /* bins[floor(x * factor) - first]++ for x other than 0, which all must lie in [0, OCT_HISTOGRAM_BINS); zeros to *zeros. `factor` is a power of two.
   * `bins` has room for OCT_HISTOGRAM_BINS + OCT_HISTOGRAM_SLOTS; the last ones are 0 before and after. */
  void (*histogram_f32)(size_t n, const float *x, float factor, int32_t first, uint32_t *bins, uint32_t *zeros);
} oct_vector_kernels;

/* Never NULL. `reasons` (or NULL) receives "name: reason; ..." for every better row that was passed over, at most `size` bytes. */
const oct_conv_i8_kernel *oct_conv_i8_select(uint32_t isa_mask, const oct_conv_shape *shape, char *reasons, size_t size);
/* The same among all rows; oct_conv_i8_select() passes over those that have reject_weights. */
const oct_conv_i8_kernel *oct_conv_i8_select_for(uint32_t isa_mask, const oct_conv_shape *shape, const int8_t *weights, const int32_t *bias,
                                                 char *reasons, size_t size);
/* Milliseconds that the row is estimated to take for the problem on one core of 2.5 GHz (cost.c); 0: not estimated. */
double oct_conv_i8_estimate(const oct_conv_i8_kernel *kernel, const oct_conv_shape *shape);

/* Rows that compute the problem exactly, whether fast or not. First comes the one to take: that of oct_conv_i8_select_for(), unless another one is
 * estimated to be faster by a fifth; then the rest by rising estimate.
 * Returns their number, at most OCT_MAX_CANDIDATES. */
#define OCT_MAX_CANDIDATES 8
typedef struct oct_candidate {
  const oct_conv_i8_kernel *kernel;
  double estimate; /* ms, or 0 */
} oct_candidate;
size_t oct_conv_i8_candidates(uint32_t isa_mask, const oct_conv_shape *shape, const int8_t *weights, const int32_t *bias,
                              oct_candidate list[OCT_MAX_CANDIDATES], char *reasons, size_t size);

const oct_conv_f32_kernel *oct_conv_f32_select(uint32_t isa_mask, const oct_conv_shape *shape, char *reasons, size_t size);
const oct_vector_kernels *oct_vector_select(uint32_t isa_mask);

/* All rows, ended by NULL; for tests and `octet ops`. */
extern const oct_conv_i8_kernel *const oct_conv_i8_kernels[];
extern const oct_conv_f32_kernel *const oct_conv_f32_kernels[];
extern const oct_vector_kernels *const oct_vector_kernel_rows[];

#endif
