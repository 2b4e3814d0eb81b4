/* Rebuilding tensors: which of torch's functions are known, their arguments, strided views made row-major, and
 * quantization parameters. Source: torch/_utils.py (_rebuild_*) of PyTorch 1.0 to 2.x.
 * SPDX-License-Identifier: MIT */
#include "formats/torch_tensor.h"

#include <math.h>

#include "formats/byteorder.h"

#define MAX_WRAPPERS 8 /* parameter of a subclass of a tensor */

typedef enum rebuild { PLAIN, WITH_DTYPE, QUANTIZED, WRAPPED, FROM_TYPE, NOT_READ } rebuild;

/* PLAIN: (storage, offset, size, stride, ...). WITH_DTYPE: (storage, offset, size, stride, requires_grad, hooks, dtype, ...).
 * QUANTIZED: (storage, offset, size, stride, quantizer, ...). WRAPPED: (tensor, ...). FROM_TYPE: (function, type, arguments, state). */
static const struct {
  const char *name;
  rebuild kind;
} REBUILDERS[] = {
    {"torch._utils._rebuild_tensor", PLAIN},
    {"torch._utils._rebuild_tensor_v2", PLAIN},
    {"torch._utils._rebuild_tensor_v3", WITH_DTYPE},
    {"torch._utils._rebuild_qtensor", QUANTIZED},
    {"torch._utils._rebuild_parameter", WRAPPED},
    {"torch._utils._rebuild_parameter_with_state", WRAPPED},
    {"torch._tensor._rebuild_from_type", FROM_TYPE},
    {"torch._tensor._rebuild_from_type_v2", FROM_TYPE},
    {"torch.tensor._rebuild_from_type", FROM_TYPE},
    {"torch._utils._rebuild_sparse_tensor", NOT_READ},
    {"torch._utils._rebuild_sparse_csr_tensor", NOT_READ},
    {"torch._utils._rebuild_meta_tensor_no_storage", NOT_READ},
    {"torch._utils._rebuild_device_tensor_from_numpy", NOT_READ},
    {"torch._utils._rebuild_device_tensor_from_cpu_tensor", NOT_READ},
    {"torch._utils._rebuild_nested_tensor", NOT_READ},
    {"torch._utils._rebuild_wrapper_subclass", NOT_READ},
};

/* Calls that make plain values: kept as inert nodes, so that a checkpoint may hold such entries beside its tensors. */
static const char *const INERT[] = {
    "torch.Size",
    "torch.device",
    "torch.Tensor",
    "torch.nn.parameter.Parameter",
    "torch.nn.parameter.Buffer",
    "torch.serialization._get_layout",
    "torch.per_tensor_affine",
    "torch.per_channel_affine",
    "torch.per_tensor_symmetric",
    "torch.per_channel_symmetric",
    "torch.per_channel_affine_float_qparams",
    "torch.strided",
    "torch.contiguous_format",
    "torch.channels_last",
    "torch.preserve_format",
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray.scalar",
    "numpy.core.multiarray._reconstruct",
    "numpy._core.multiarray._reconstruct",
    "numpy.dtype",
    "numpy.ndarray",
    "_codecs.encode",
    "argparse.Namespace",
    "datetime.datetime",
    "pathlib.PosixPath",
    "builtins.complex",
    "__builtin__.complex",
    "builtins.bytearray",
    "__builtin__.bytearray",
    "builtins.int",
    "builtins.float",
    "builtins.list",
    "builtins.dict",
    "__builtin__.int",
    "__builtin__.float",
    "__builtin__.list",
    "__builtin__.dict",
};

static const char *const DICTS[] = {"collections.OrderedDict", "collections.defaultdict", "collections.Counter"};
static const char *const SETS[] = {"builtins.set", "__builtin__.set", "builtins.frozenset", "__builtin__.frozenset"};

static bool listed(const char *const *list, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (!strcmp(list[i], name)) return true;
  return false;
}
#define LISTED(list, name) listed(list, sizeof list / sizeof *list, name)

static bool find_rebuilder(const char *name, rebuild *kind) {
  for (size_t i = 0; i < sizeof REBUILDERS / sizeof *REBUILDERS; i++) {
    if (strcmp(REBUILDERS[i].name, name)) continue;
    *kind = REBUILDERS[i].kind;
    return true;
  }
  return false;
}

oct_pickle_call oct_torch_policy(const char *global) {
  rebuild kind;
  if (LISTED(DICTS, global)) return OCT_PICKLE_MAKE_DICT;
  if (LISTED(SETS, global)) return OCT_PICKLE_MAKE_SET;
  return find_rebuilder(global, &kind) || oct_torch_type_find(global) || LISTED(INERT, global) ? OCT_PICKLE_INERT : OCT_PICKLE_REFUSED;
}

bool oct_torch_is_tensor(const oct_pickle *node) {
  rebuild kind;
  return node->kind == OCT_PICKLE_CALL && find_rebuilder(node->items[0]->text, &kind);
}

oct_torch_budget oct_torch_budget_for(oct_bytes file) {
  return (oct_torch_budget){.bytes_left = ((uint64_t)64 << 20) + 16 * (uint64_t)file.size};
}

static octet_status malformed(oct_torch_file *file, const char *what) { return oct_fail(file->ctx, OCTET_FORMAT, "%s", what); }

static const oct_pickle *argument(const oct_pickle *arguments, uint32_t index) {
  static const oct_pickle nothing = {.kind = OCT_PICKLE_NONE};
  return index < arguments->count ? arguments->items[index] : &nothing;
}

static bool is_list(const oct_pickle *node) { return node->kind == OCT_PICKLE_TUPLE || node->kind == OCT_PICKLE_LIST; }

/* A region of a storage, seen with a shape and strides in elements. */
typedef struct view {
  oct_shape shape;
  int64_t stride[OCT_MAX_RANK];
  uint64_t offset;   /* elements from the start of the storage */
  uint64_t elements; /* of the storage that the view may use */
  const oct_torch_type *type;
  const uint8_t *data;
} view;

static octet_status read_sizes(oct_torch_file *file, const oct_pickle *size, const oct_pickle *stride, view *v) {
  /* torch.Size is written as a call with the tuple in it */
  if (size->kind == OCT_PICKLE_CALL && size->items[1]->count == 1) size = size->items[1]->items[0];
  if (!is_list(size) || !is_list(stride) || size->count != stride->count)
    return malformed(file, "shape and strides of a tensor are no tuples of one length");
  if (size->count > OCT_MAX_RANK)
    return oct_fail(file->ctx, OCTET_UNSUPPORTED, "%u dimensions; at most %d are supported", size->count, OCT_MAX_RANK);
  v->shape.rank = (int)size->count;
  for (uint32_t i = 0; i < size->count; i++) {
    const oct_pickle *n = size->items[i], *s = stride->items[i];
    if (n->kind != OCT_PICKLE_INTEGER || s->kind != OCT_PICKLE_INTEGER || n->integer < 0 || s->integer < 0)
      return malformed(file, "a size or stride of a tensor is negative or no integer");
    v->shape.dim[i] = n->integer;
    v->stride[i] = s->integer;
  }
  return OCTET_OK;
}

/* Legacy files may say that a storage is a part of another: view = (key, offset, size). */
static octet_status read_view_of_storage(oct_torch_file *file, const oct_pickle *id, view *v) {
  const oct_pickle *part = argument(id, 5);
  if (part->kind == OCT_PICKLE_NONE) return OCTET_OK;
  const oct_pickle *offset = argument(part, 1), *size = argument(part, 2);
  if (part->kind != OCT_PICKLE_TUPLE || offset->kind != OCT_PICKLE_INTEGER || size->kind != OCT_PICKLE_INTEGER || offset->integer < 0 ||
      size->integer < 0 || (uint64_t)offset->integer > v->elements || (uint64_t)size->integer > v->elements - (uint64_t)offset->integer)
    return malformed(file, "a part of a storage reaches beyond it");
  v->data += (uint64_t)offset->integer * oct_dtype_size(v->type->dtype);
  v->elements = (uint64_t)size->integer;
  return OCTET_OK;
}

/* Does the last element lie inside the storage? */
static bool view_fits(const view *v, int64_t count) {
  if (count == 0) return true;
  uint64_t last = v->offset;
  for (int i = 0; i < v->shape.rank; i++) {
    uint64_t span;
    if (__builtin_mul_overflow((uint64_t)(v->shape.dim[i] - 1), (uint64_t)v->stride[i], &span) || __builtin_add_overflow(last, span, &last))
      return false;
  }
  return last < v->elements;
}

static octet_status read_view(oct_torch_file *file, const oct_pickle *arguments, const char *dtype, view *v) {
  const oct_pickle *persistent = argument(arguments, 0), *offset = argument(arguments, 1);
  if (persistent->kind != OCT_PICKLE_PERSISTENT || offset->kind != OCT_PICKLE_INTEGER || offset->integer < 0)
    return malformed(file, "a tensor without a storage and offset");
  const oct_pickle *id = persistent->items[0];
  const oct_torch_storage *storage;
  OCT_TRY(oct_torch_storage_of(file, id, &storage));
  v->type = oct_torch_type_find(dtype ? dtype : id->items[1]->text);
  if (!v->type || v->type->dtype == OCT_DTYPE_NONE)
    return oct_fail(file->ctx, OCTET_UNSUPPORTED, "elements of type %s are not supported", v->type ? v->type->name : dtype);
  v->data = storage->bytes.data;
  v->elements = storage->bytes.size / oct_dtype_size(v->type->dtype);
  v->offset = (uint64_t)offset->integer;
  OCT_TRY(read_view_of_storage(file, id, v));
  OCT_TRY(read_sizes(file, argument(arguments, 2), argument(arguments, 3), v));
  int64_t count = oct_shape_count(&v->shape);
  char text[OCT_SHAPE_TEXT];
  if (count >= 0 && view_fits(v, count)) return OCTET_OK;
  return oct_fail(file->ctx, OCTET_FORMAT, "a view of shape %s at offset %llu reaches beyond its storage of %llu elements",
                  oct_shape_text(&v->shape, text), (unsigned long long)v->offset, (unsigned long long)v->elements);
}

static bool is_row_major(const view *v) {
  int64_t expected = 1;
  for (int i = v->shape.rank - 1; i >= 0; i--) {
    if (v->shape.dim[i] != 1 && v->stride[i] != expected) return false;
    expected *= v->shape.dim[i];
  }
  return true;
}

/* Walks the view in row-major order: an odometer over the dimensions, and the element offset that goes with it. */
static void copy_strided(const view *v, uint8_t *to, int64_t count) {
  size_t size = oct_dtype_size(v->type->dtype);
  int64_t at[OCT_MAX_RANK] = {0};
  uint64_t element = v->offset;
  for (int64_t i = 0; i < count; i++) {
    memcpy(to + (size_t)i * size, v->data + element * size, size);
    for (int d = v->shape.rank - 1; d >= 0; d--) {
      element += (uint64_t)v->stride[d];
      if (++at[d] < v->shape.dim[d]) break;
      element -= (uint64_t)v->stride[d] * (uint64_t)v->shape.dim[d];
      at[d] = 0;
    }
  }
}

static octet_status materialize(oct_torch_file *file, oct_torch_budget *budget, const view *v, oct_tensor **out) {
  size_t size = oct_dtype_size(v->type->dtype);
  int64_t count = oct_shape_count(&v->shape);
  uint64_t bytes;
  if (__builtin_mul_overflow((uint64_t)count, (uint64_t)size, &bytes) || bytes > budget->bytes_left)
    return oct_fail(file->ctx, OCTET_FORMAT,
                    "tensors that are views of the file's data would take far more memory than the file has bytes: refused");
  budget->bytes_left -= bytes;
  bool direct = is_row_major(v) && !file->big_endian;
  const uint8_t *start = count ? v->data + v->offset * size : v->data;
  bool mapped = start >= file->bytes.data && start < file->bytes.data + file->bytes.size;
  if (direct) return oct_tensor_from_bytes(file->ctx, v->type->dtype, &v->shape, mapped ? file->file : NULL, start, (size_t)bytes, out);
  OCT_TRY(oct_tensor_create(file->ctx, v->type->dtype, &v->shape, out));
  copy_strided(v, (*out)->data, count);
  if (file->big_endian) oct_swap_elements((*out)->data, (size_t)bytes, size);
  return OCTET_OK;
}

/* ---- quantization parameters ---- */

static double number_of(const oct_pickle *node) {
  return node->kind == OCT_PICKLE_FLOAT ? node->number : node->kind == OCT_PICKLE_INTEGER ? (double)node->integer : NAN;
}

/* A list of numbers: a Python list (PyTorch 1.3) or a tensor (later). */
typedef struct numbers {
  const oct_pickle *list;
  oct_tensor *tensor;
  int64_t count;
} numbers;

static octet_status read_numbers(oct_torch_file *file, oct_torch_budget *budget, const oct_pickle *node, numbers *out) {
  *out = (numbers){.list = node, .count = node->count};
  if (is_list(node)) return OCTET_OK;
  if (!oct_torch_is_tensor(node)) return malformed(file, "scales or zero points are neither a list nor a tensor");
  oct_quant *quant = NULL;
  oct_region unused = {0};
  octet_status status = oct_torch_tensor(file, budget, &unused, node, &out->tensor, &quant);
  oct_region_free(&unused);
  if (status == OCTET_OK) out->count = oct_shape_count(&out->tensor->shape);
  if (status == OCTET_OK && quant) status = malformed(file, "scales or zero points are themselves quantized");
  return status;
}

static double number_at(const numbers *n, int64_t index) {
  return n->tensor ? oct_get_f64(n->tensor->data, n->tensor->dtype, index) : number_of(n->list->items[index]);
}

static octet_status set_channel(oct_torch_file *file, oct_quant *quant, int64_t channel, double scale, double zero_point) {
  float narrow = (float)scale;
  if (!(narrow > 0) || !isfinite(narrow))
    return oct_fail(file->ctx, OCTET_FORMAT, "scale %g of channel %lld is not positive and finite", scale, (long long)channel);
  if (!(zero_point >= -2147483648.0 && zero_point <= 2147483647.0) || zero_point != floor(zero_point))
    return oct_fail(file->ctx, OCTET_UNSUPPORTED, "zero point %g of channel %lld is no 32-bit integer", zero_point, (long long)channel);
  quant->scale[channel] = narrow;
  quant->zero_point[channel] = (int32_t)zero_point;
  return OCTET_OK;
}

static octet_status read_per_tensor(oct_torch_file *file, oct_region *region, const view *v, const oct_pickle *quantizer, oct_quant **out) {
  *out = oct_quant_create(file->ctx, region, v->type->dtype, -1, 1, NULL, NULL);
  if (!*out) return OCTET_OUT_OF_MEMORY;
  return set_channel(file, *out, 0, number_of(argument(quantizer, 1)), number_of(argument(quantizer, 2)));
}

static octet_status read_per_channel(oct_torch_file *file, oct_torch_budget *budget, oct_region *region, const view *v,
                                     const oct_pickle *quantizer, oct_quant **out) {
  const oct_pickle *axis = argument(quantizer, 3);
  if (axis->kind != OCT_PICKLE_INTEGER || axis->integer < 0 || axis->integer >= v->shape.rank)
    return malformed(file, "the axis of per-channel scales is no axis of the tensor");
  numbers scales = {0}, zero_points = {0};
  int64_t count = v->shape.dim[axis->integer];
  octet_status status = read_numbers(file, budget, argument(quantizer, 1), &scales);
  if (status == OCTET_OK) status = read_numbers(file, budget, argument(quantizer, 2), &zero_points);
  if (status == OCTET_OK && (count < 1 || scales.count != count || zero_points.count != count))
    status = oct_fail(file->ctx, OCTET_FORMAT, "%lld scales and %lld zero points for %lld channels", (long long)scales.count,
                      (long long)zero_points.count, (long long)count);
  if (status == OCTET_OK && !(*out = oct_quant_create(file->ctx, region, v->type->dtype, (int)axis->integer, count, NULL, NULL)))
    status = OCTET_OUT_OF_MEMORY;
  for (int64_t c = 0; status == OCTET_OK && c < count; c++)
    status = set_channel(file, *out, c, number_at(&scales, c), number_at(&zero_points, c));
  oct_tensor_release(scales.tensor);
  oct_tensor_release(zero_points.tensor);
  return status;
}

static octet_status read_quantizer(oct_torch_file *file, oct_torch_budget *budget, oct_region *region, const view *v,
                                   const oct_pickle *quantizer, oct_quant **out) {
  const oct_pickle *scheme = argument(quantizer, 0);
  if (quantizer->kind != OCT_PICKLE_TUPLE || scheme->kind != OCT_PICKLE_GLOBAL)
    return malformed(file, "a quantized tensor without its scheme");
  if (!strcmp(scheme->text, "torch.per_tensor_affine")) return read_per_tensor(file, region, v, quantizer, out);
  if (!strcmp(scheme->text, "torch.per_channel_affine")) return read_per_channel(file, budget, region, v, quantizer, out);
  return oct_fail(file->ctx, OCTET_UNSUPPORTED, "quantization scheme %s is not supported", scheme->text);
}

/* ---- the call ---- */

/* Goes through parameters and subclasses to the call that has the storage. */
static octet_status unwrap(oct_torch_file *file, const oct_pickle *node, const char **name, const oct_pickle **arguments, rebuild *kind) {
  if (!oct_torch_is_tensor(node)) return malformed(file, "no tensor");
  *name = node->items[0]->text;
  *arguments = node->items[1];
  find_rebuilder(*name, kind);
  for (int level = 0; *kind == WRAPPED || *kind == FROM_TYPE; level++) {
    const oct_pickle *inner = argument(*arguments, 0);
    if (level == MAX_WRAPPERS) return malformed(file, "a parameter of a parameter, too deeply");
    if (*kind == WRAPPED) {
      if (!oct_torch_is_tensor(inner)) return malformed(file, "a parameter that holds no tensor");
      *name = inner->items[0]->text;
      *arguments = inner->items[1];
    } else {
      const oct_pickle *inner_arguments = argument(*arguments, 2);
      if (inner->kind != OCT_PICKLE_GLOBAL || inner_arguments->kind != OCT_PICKLE_TUPLE)
        return malformed(file, "a subclass of a tensor that holds no tensor");
      *name = inner->text;
      *arguments = inner_arguments;
    }
    if (!find_rebuilder(*name, kind)) return malformed(file, "a subclass of a tensor that holds no tensor");
  }
  return OCTET_OK;
}

octet_status oct_torch_tensor(oct_torch_file *file, oct_torch_budget *budget, oct_region *region, const oct_pickle *node, oct_tensor **out,
                              oct_quant **quant) {
  *out = NULL;
  *quant = NULL;
  const char *name = "", *dtype = NULL;
  const oct_pickle *arguments = node;
  rebuild kind = NOT_READ;
  OCT_TRY(unwrap(file, node, &name, &arguments, &kind));
  if (kind == NOT_READ) return oct_fail(file->ctx, OCTET_UNSUPPORTED, "a tensor made by %s is not supported", name);
  if (kind == WITH_DTYPE) {
    const oct_pickle *given = argument(arguments, 6);
    if (given->kind != OCT_PICKLE_GLOBAL) return malformed(file, "a tensor without its type");
    dtype = given->text;
  }
  view v = {0};
  OCT_TRY(read_view(file, arguments, dtype, &v));
  if (v.type->quantized != (kind == QUANTIZED)) return malformed(file, "quantized and plain types are mixed up");
  if (kind == QUANTIZED) OCT_TRY(read_quantizer(file, budget, region, &v, argument(arguments, 4), quant));
  return materialize(file, budget, &v, out);
}
