/* Types, numbers, attributes and quantization parameters of the text form.
 * SPDX-License-Identifier: MIT */
#include "ir/text_parser.h"
#include "ir/verify.h"

#define MAX_FILL ((int64_t)1 << 22) /* elements that one number may fill: a short text must not ask for all memory */
#define MAX_LIST ((size_t)1 << 24)

static octet_status parse_dim(oct_parser *p, oct_text_type *type) {
  int d = type->shape.rank;
  if (d == OCT_MAX_RANK) return oct_text_fail(p->ctx, &p->token, "a shape has at most %d dimensions", OCT_MAX_RANK);
  type->shape.dim[d] = OCT_DIM_UNKNOWN;
  int64_t size;
  if (oct_token_is_name(&p->token)) type->dim_names[d] = p->token.text;
  else if (oct_token_int(&p->token, &size) && size >= 0) type->shape.dim[d] = size;
  else if (!oct_token_is(&p->token, '?')) return oct_parse_expected(p, "a size, a name for a size, or '?'");
  type->shape.rank++;
  return oct_parse_advance(p);
}

octet_status oct_parse_type(oct_parser *p, oct_text_type *out) {
  *out = (oct_text_type){0};
  if (p->token.kind == OCT_TOKEN_NAME) out->dtype = oct_dtype_parse(p->token.text);
  if (out->dtype == OCT_DTYPE_NONE)
    return oct_parse_expected(p, "a type such as f32[1,3,?] (types: f32 f64 f16 bf16 i8 u8 i16 u16 i32 u32 i64 u64 bool)");
  OCT_TRY(oct_parse_advance(p));
  if (!oct_token_is(&p->token, '[')) return OCTET_OK;
  out->has_shape = true;
  OCT_TRY(oct_parse_advance(p));
  while (!oct_token_is(&p->token, ']')) {
    OCT_TRY(parse_dim(p, out));
    if (!oct_token_is(&p->token, ',')) break;
    OCT_TRY(oct_parse_advance(p));
  }
  return oct_parse_punctuation(p, ']');
}

/* ---- Numbers ------------------------------------------------------------------------------------------------- */

static bool is_number(const oct_token *token) {
  float f;
  int64_t i;
  return token->kind == OCT_TOKEN_NUMBER || oct_token_float(token, &f) || oct_token_int(token, &i);
}

/* Range of an integer type that is narrower than 64 bits. */
static void integer_range(oct_dtype dtype, int64_t *low, int64_t *high) {
  int bits = dtype == OCT_BOOL ? 1 : (int)oct_dtype_size(dtype) * 8;
  bool is_signed = oct_dtype_is_signed(dtype);
  *high = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - is_signed)) - 1;
  *low = is_signed ? -*high - 1 : 0;
}

static octet_status store_number(oct_parser *p, oct_dtype dtype, void *data, int64_t index) {
  double d;
  float f;
  uint64_t u;
  int64_t i, low, high;
  if (dtype == OCT_F64) {
    if (!oct_token_double(&p->token, &d)) return oct_parse_expected(p, "a number");
    ((double *)data)[index] = d;
  } else if (oct_dtype_is_float(dtype)) {
    if (!oct_token_float(&p->token, &f)) return oct_parse_expected(p, "a number that a float holds");
    oct_set_f64(data, dtype, index, (double)f);
  } else if (dtype == OCT_U64) {
    if (!oct_token_u64(&p->token, &u)) return oct_parse_expected(p, "a whole number of 64 bits, not negative");
    ((uint64_t *)data)[index] = u;
  } else {
    integer_range(dtype, &low, &high);
    if (!oct_token_int(&p->token, &i)) return oct_parse_expected(p, "a whole number");
    if (i < low || i > high)
      return oct_text_fail(p->ctx, &p->token, "%s is out of range for %s: %lld to %lld", p->token.text, oct_dtype_name(dtype),
                           (long long)low, (long long)high);
    oct_set_i64(data, dtype, index, i);
  }
  return oct_parse_advance(p);
}

/* Copies element 0 to all others. */
static void fill(oct_tensor *tensor, int64_t count) {
  size_t size = oct_dtype_size(tensor->dtype);
  for (int64_t i = 1; i < count; i++) memcpy((char *)tensor->data + (size_t)i * size, tensor->data, size);
}

static octet_status read_numbers(oct_parser *p, oct_tensor *tensor, int64_t count) {
  oct_token start = p->token;
  int64_t given = 0;
  char shape[OCT_SHAPE_TEXT];
  while (is_number(&p->token)) {
    if (given == count)
      return oct_text_fail(p->ctx, &p->token, "more numbers than %s holds (%lld)", oct_shape_text(&tensor->shape, shape), (long long)count);
    OCT_TRY(store_number(p, tensor->dtype, tensor->data, given++));
    if (!oct_token_is(&p->token, ',')) break;
    OCT_TRY(oct_parse_advance(p));
  }
  if (given == 1 && count > 1) fill(tensor, count);
  else if (given != count)
    return oct_text_fail(p->ctx, &start, "%lld numbers for %s%s, which holds %lld", (long long)given, oct_dtype_name(tensor->dtype),
                         oct_shape_text(&tensor->shape, shape), (long long)count);
  return OCTET_OK;
}

octet_status oct_parse_numbers(oct_parser *p, oct_dtype dtype, const oct_shape *shape, oct_tensor **out) {
  *out = NULL;
  int64_t count = oct_shape_count(shape);
  if (!oct_shape_known(shape))
    return oct_text_fail(p->ctx, &p->token, "the shape of numbers must be known: sizes only, no names and no '?'");
  if (count < 0 || count > MAX_FILL) return oct_text_fail(p->ctx, &p->token, "so many numbers belong in the weights file");
  oct_tensor *tensor;
  OCT_TRY(oct_tensor_create(p->ctx, dtype, shape, &tensor));
  octet_status status = read_numbers(p, tensor, count);
  if (status == OCTET_OK) *out = tensor;
  else oct_tensor_release(tensor);
  return status;
}

octet_status oct_parse_array(oct_parser *p, oct_tensor **out) {
  const char *name;
  *out = NULL;
  OCT_TRY(oct_parse_punctuation(p, '@'));
  oct_token at = p->token;
  OCT_TRY(oct_parse_name(p, "the name of an array", &name));
  const oct_named_tensor *item = oct_bundle_find(&p->weights, name);
  if (!item && !p->weights_file) return oct_text_fail(p->ctx, &at, "array \"%s\": no weights statement stands above", name);
  if (!item) return oct_text_fail(p->ctx, &at, "%s holds no array \"%s\"", p->weights_file, name);
  *out = oct_tensor_retain(item->tensor);
  return OCTET_OK;
}

/* ---- Attributes ---------------------------------------------------------------------------------------------- */

static const char *attribute_candidate(const void *user, size_t index) {
  const oct_attribute_spec *specs = user;
  return specs ? specs[index].name : NULL;
}

static octet_status unknown_attribute(oct_parser *p, const oct_node *node, const oct_token *at) {
  oct_strbuf text = oct_strbuf_make(p->ctx);
  oct_text_hint(&text, at->text, attribute_candidate, node->op->attributes);
  if (!node->op->attributes || !node->op->attributes->name) oct_strbuf_puts(&text, "; it has none");
  else oct_strbuf_puts(&text, "; it knows:");
  for (const oct_attribute_spec *spec = node->op->attributes; spec && spec->name; spec++) oct_strbuf_printf(&text, " %s", spec->name);
  octet_status status = oct_text_fail(p->ctx, at, "%s has no attribute \"%.80s\"%s", node->op->name, at->text, text.text ? text.text : "");
  oct_strbuf_free(&text);
  return status;
}

typedef struct list {
  void *items;
  size_t count, capacity, size;
} list;

static octet_status push(oct_parser *p, list *l, const void *item) {
  if (l->count >= MAX_LIST) return oct_text_fail(p->ctx, &p->token, "the list is too long");
  OCT_TRY(oct_grow(p->ctx, &l->items, &l->capacity, l->count + 1, l->size));
  memcpy((char *)l->items + l->count++ * l->size, item, l->size);
  return OCTET_OK;
}

static octet_status parse_element(oct_parser *p, oct_attribute_type type, list *l) {
  int64_t i;
  float f;
  switch (type) {
    case OCT_ATTRIBUTE_INTS:
      if (!oct_token_int(&p->token, &i)) return oct_parse_expected(p, "a whole number");
      OCT_TRY(push(p, l, &i));
      break;
    case OCT_ATTRIBUTE_FLOATS:
      if (!oct_token_float(&p->token, &f)) return oct_parse_expected(p, "a number");
      OCT_TRY(push(p, l, &f));
      break;
    default:
      if (!oct_token_is_name(&p->token)) return oct_parse_expected(p, "a string");
      OCT_TRY(push(p, l, &p->token.text));
  }
  return oct_parse_advance(p);
}

/* `1,2,3`, `[1,2,3]` or `[]`. */
static octet_status parse_list(oct_parser *p, oct_attribute_type type, list *l) {
  bool bracket = oct_token_is(&p->token, '[');
  if (bracket) OCT_TRY(oct_parse_advance(p));
  while (!bracket || !oct_token_is(&p->token, ']')) {
    OCT_TRY(parse_element(p, type, l));
    if (!oct_token_is(&p->token, ',')) break;
    OCT_TRY(oct_parse_advance(p));
  }
  return bracket ? oct_parse_punctuation(p, ']') : OCTET_OK;
}

static octet_status parse_list_attribute(oct_parser *p, oct_node *node, oct_attribute *attribute) {
  list l = {.size = attribute->type == OCT_ATTRIBUTE_FLOATS ? sizeof(float)
                    : attribute->type == OCT_ATTRIBUTE_INTS ? sizeof(int64_t)
                                                            : sizeof(char *)};
  octet_status status = parse_list(p, attribute->type, &l);
  attribute->count = l.count;
  attribute->ints = l.items; /* the lists share their place in the union */
  if (status == OCTET_OK) status = oct_node_set_attribute(p->ctx, p->graph, node, attribute);
  oct_free(l.items);
  return status;
}

/* `@name` or `f32[2]{1,2}`. */
static octet_status parse_tensor_attribute(oct_parser *p, oct_node *node, oct_attribute *attribute) {
  oct_tensor *tensor;
  if (oct_token_is(&p->token, '@')) {
    OCT_TRY(oct_parse_array(p, &tensor));
  } else {
    oct_text_type type;
    OCT_TRY(oct_parse_type(p, &type));
    if (!type.has_shape) return oct_parse_expected(p, "'[' and a shape");
    OCT_TRY(oct_parse_punctuation(p, '{'));
    OCT_TRY(oct_parse_numbers(p, type.dtype, &type.shape, &tensor));
    octet_status status = oct_parse_punctuation(p, '}');
    if (status != OCTET_OK) {
      oct_tensor_release(tensor);
      return status;
    }
  }
  attribute->tensor = tensor;
  octet_status status = oct_node_set_attribute(p->ctx, p->graph, node, attribute);
  oct_tensor_release(tensor);
  return status;
}

static octet_status parse_attribute_value(oct_parser *p, oct_node *node, oct_attribute *attribute) {
  switch (attribute->type) {
    case OCT_ATTRIBUTE_TENSOR: return parse_tensor_attribute(p, node, attribute);
    case OCT_ATTRIBUTE_INTS:
    case OCT_ATTRIBUTE_FLOATS:
    case OCT_ATTRIBUTE_STRINGS: return parse_list_attribute(p, node, attribute);
    case OCT_ATTRIBUTE_INT:
      if (!oct_token_int(&p->token, &attribute->i)) return oct_parse_expected(p, "a whole number");
      break;
    case OCT_ATTRIBUTE_FLOAT:
      if (!oct_token_float(&p->token, &attribute->f)) return oct_parse_expected(p, "a number");
      break;
    case OCT_ATTRIBUTE_STRING:
      if (!oct_token_is_name(&p->token)) return oct_parse_expected(p, "a string");
      attribute->s = p->token.text;
  }
  OCT_TRY(oct_node_set_attribute(p->ctx, p->graph, node, attribute));
  return oct_parse_advance(p);
}

octet_status oct_parse_attribute(oct_parser *p, oct_node *node) {
  oct_token at = p->token;
  const oct_attribute_spec *spec = node->op->attributes;
  while (spec && spec->name && strcmp(spec->name, at.text) != 0) spec++;
  if (!spec || !spec->name) return unknown_attribute(p, node, &at);
  if (oct_node_attribute(node, at.text)) return oct_text_fail(p->ctx, &at, "attribute \"%s\" is given twice", at.text);
  OCT_TRY(oct_parse_advance(p));
  OCT_TRY(oct_parse_punctuation(p, '='));
  if (p->token.kind == OCT_TOKEN_NAME && strcmp(p->token.text, "graph") == 0 && oct_token_is(&p->next, '{'))
    return oct_text_fail(p->ctx, &p->token, "nested graphs are reserved for a later version");
  oct_attribute attribute = {.name = spec->name, .type = spec->type};
  return parse_attribute_value(p, node, &attribute);
}

/* ---- Quantization parameters --------------------------------------------------------------------------------- */

typedef struct quant_text {
  oct_tensor *scale, *zero_point;
  int64_t axis;
  bool has_axis;
} quant_text;

static octet_status parse_quant_list(oct_parser *p, oct_dtype dtype, oct_tensor **out) {
  if (oct_token_is(&p->token, '@')) return oct_parse_array(p, out);
  list l = {.size = dtype == OCT_F32 ? sizeof(float) : sizeof(int64_t)};
  octet_status status = parse_list(p, dtype == OCT_F32 ? OCT_ATTRIBUTE_FLOATS : OCT_ATTRIBUTE_INTS, &l);
  oct_shape shape = {.rank = 1, .dim = {(int64_t)l.count}};
  if (status == OCTET_OK) status = oct_tensor_create(p->ctx, dtype, &shape, out);
  if (status == OCTET_OK) memcpy((*out)->data, l.items, l.count * l.size);
  oct_free(l.items);
  return status;
}

static octet_status parse_quant_field(oct_parser *p, quant_text *q) {
  oct_token at = p->token;
  bool scale = strcmp(at.text, "scale") == 0, zero = strcmp(at.text, "zero_point") == 0, axis = strcmp(at.text, "axis") == 0;
  if (!scale && !zero && !axis)
    return oct_text_fail(p->ctx, &at, "a quant statement has no \"%.80s\"; it knows: axis scale zero_point", at.text);
  if ((scale && q->scale) || (zero && q->zero_point) || (axis && q->has_axis))
    return oct_text_fail(p->ctx, &at, "%s is given twice", at.text);
  OCT_TRY(oct_parse_advance(p));
  OCT_TRY(oct_parse_punctuation(p, '='));
  if (scale) return parse_quant_list(p, OCT_F32, &q->scale);
  if (zero) return parse_quant_list(p, OCT_I64, &q->zero_point);
  if (!oct_token_int(&p->token, &q->axis) || q->axis < 0 || q->axis >= OCT_MAX_RANK)
    return oct_parse_expected(p, "an axis, counted from 0");
  q->has_axis = true;
  return oct_parse_advance(p);
}

/* Number of scales: one, or as many as the axis is long. */
static octet_status quant_count(oct_parser *p, const oct_value *value, const quant_text *q, const oct_token *at, int64_t *count) {
  int64_t given = oct_shape_count(&q->scale->shape), zeros = q->zero_point ? oct_shape_count(&q->zero_point->shape) : 1;
  *count = given > zeros ? given : zeros;
  if (!q->has_axis && *count != 1) return oct_text_fail(p->ctx, at, "%lld scales or zero points need an axis", (long long)*count);
  if (q->has_axis && value->has_shape) {
    int64_t size = q->axis < value->shape.rank ? value->shape.dim[q->axis] : 0;
    if (size == 0) return oct_text_fail(p->ctx, at, "axis %lld of \"%s\" does not exist or is empty", (long long)q->axis, value->name);
    if (size > 0 && *count != 1 && *count != size)
      return oct_text_fail(p->ctx, at, "%lld scales for axis %lld of \"%s\", which is %lld long", (long long)*count, (long long)q->axis,
                           value->name, (long long)size);
    if (size > 0) *count = size;
  }
  if ((given != 1 && given != *count) || (zeros != 1 && zeros != *count))
    return oct_text_fail(p->ctx, at, "%lld scales but %lld zero points", (long long)given, (long long)zeros);
  if (*count < 1 || *count > (int64_t)MAX_LIST) return oct_text_fail(p->ctx, at, "scales for %lld channels", (long long)*count);
  return OCTET_OK;
}

static octet_status apply_quant(oct_parser *p, oct_value *value, oct_dtype dtype, const quant_text *q, const oct_token *at) {
  int64_t count;
  if (!q->scale || q->scale->dtype != OCT_F32) return oct_text_fail(p->ctx, at, "quantization parameters need a scale (f32)");
  if (q->zero_point && oct_dtype_is_float(q->zero_point->dtype)) return oct_text_fail(p->ctx, at, "zero points must be integers");
  OCT_TRY(quant_count(p, value, q, at, &count));
  oct_quant *quant = oct_quant_create(p->ctx, &p->graph->region, dtype, q->has_axis ? (int)q->axis : -1, count, NULL, NULL);
  if (!quant) return OCTET_OUT_OF_MEMORY;
  bool one_scale = oct_shape_count(&q->scale->shape) == 1, one_zero = q->zero_point && oct_shape_count(&q->zero_point->shape) == 1;
  for (int64_t i = 0; i < count; i++) {
    quant->scale[i] = ((const float *)q->scale->data)[one_scale ? 0 : i];
    int64_t zero = q->zero_point ? oct_get_i64(q->zero_point->data, q->zero_point->dtype, one_zero ? 0 : i) : 0;
    if (zero < INT32_MIN || zero > INT32_MAX) return oct_text_fail(p->ctx, at, "zero point %lld is out of range", (long long)zero);
    quant->zero_point[i] = (int32_t)zero;
  }
  value->quant = quant;
  value->dtype = OCT_F32;
  octet_status status = oct_value_verify(p->ctx, value);
  return status == OCTET_OK ? OCTET_OK : oct_fail_prefix(p->ctx, "line %d, column %d", at->line, at->column);
}

octet_status oct_parse_quant(oct_parser *p, oct_value *value) {
  oct_token at = p->token;
  quant_text q = {0};
  oct_dtype dtype = at.kind == OCT_TOKEN_NAME ? oct_dtype_parse(at.text) : OCT_DTYPE_NONE;
  if (dtype == OCT_DTYPE_NONE) return oct_parse_expected(p, "the type that the values are stored as (u8, i8, i32, ...)");
  octet_status status = oct_parse_advance(p);
  while (status == OCTET_OK && p->token.kind == OCT_TOKEN_NAME) status = parse_quant_field(p, &q);
  if (status == OCTET_OK) status = apply_quant(p, value, dtype, &q, &at);
  oct_tensor_release(q.scale);
  oct_tensor_release(q.zero_point);
  return status;
}
