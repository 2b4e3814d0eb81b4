/* The configuration file: settings per layer, as JSON.
 * SPDX-License-Identifier: MIT */
#include <jansson.h>
#include <string.h>

#include "quantize/quantize.h"

#define MAX_CONFIG_BYTES ((size_t)16 << 20)

typedef struct entry {
  octet_context *ctx;
  const char *pattern, *key;
  json_t *value;
  oct_layer_setting *setting;
} entry;

static octet_status wrong(const entry *e, const char *rule) {
  return oct_fail(e->ctx, OCTET_INVALID_ARGUMENT, "configuration: \"%s\".\"%s\" %s", e->pattern, e->key, rule);
}

static octet_status read_mode(const entry *e) {
  if (!json_is_string(e->value) || !oct_quantize_mode_parse(json_string_value(e->value), &e->setting->mode))
    return wrong(e, "must be \"int8\", \"dynamic\", \"weight-only\", \"fp16\" or \"float\"");
  e->setting->has_mode = true;
  return OCTET_OK;
}

static octet_status read_bits(const entry *e) {
  if (!json_is_integer(e->value)) return wrong(e, "must be a whole number");
  if (json_integer_value(e->value) != 8) return wrong(e, "must be 8: other widths are not supported yet");
  return OCTET_OK;
}

static octet_status read_observer(const entry *e) {
  if (!json_is_string(e->value) || !oct_observer_kind_parse(json_string_value(e->value), &e->setting->observer))
    return wrong(e, "must be \"minmax\", \"moving-average\", \"percentile\", \"kl\" or \"mse\"");
  e->setting->has_observer = true;
  return OCTET_OK;
}

static octet_status read_scale(const entry *e) {
  double scale = json_number_value(e->value);
  if (!json_is_number(e->value) || !(scale >= 1e-18 && scale <= 1e30)) return wrong(e, "must be a number between 1e-18 and 1e30");
  e->setting->scale = (float)scale;
  e->setting->has_scale = true;
  return OCTET_OK;
}

static octet_status read_zero_point(const entry *e) {
  json_int_t zero_point = json_integer_value(e->value);
  if (!json_is_integer(e->value) || zero_point < 0 || zero_point > 255)
    return wrong(e, "must be a whole number from 0 to 255 (unsigned 8-bit)");
  e->setting->zero_point = (int32_t)zero_point;
  e->setting->has_zero_point = true;
  return OCTET_OK;
}

static octet_status read_per_tensor(const entry *e) {
  if (!json_is_boolean(e->value)) return wrong(e, "must be true or false");
  e->setting->per_tensor = json_is_true(e->value);
  e->setting->has_per_tensor = true;
  return OCTET_OK;
}

static octet_status read_keep_float(const entry *e) {
  if (!json_is_boolean(e->value)) return wrong(e, "must be true or false");
  if (!json_is_true(e->value)) return OCTET_OK;
  e->setting->mode = OCT_MODE_FLOAT;
  e->setting->has_mode = true;
  return OCTET_OK;
}

static const struct {
  const char *key;
  octet_status (*read)(const entry *e);
} readers[] = {{"mode", read_mode},
               {"bits", read_bits},
               {"observer", read_observer},
               {"scale", read_scale},
               {"zero_point", read_zero_point},
               {"per_tensor", read_per_tensor},
               {"keep_float", read_keep_float}};

static octet_status read_key(const entry *e) {
  for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
    if (strcmp(readers[i].key, e->key) == 0) return readers[i].read(e);
  return wrong(e, "is unknown; there are mode, bits, observer, scale, zero_point, per_tensor, keep_float");
}

static octet_status read_layer(octet_context *ctx, const char *pattern, json_t *object, oct_quantize_config *out) {
  if (!json_is_object(object)) return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "configuration: \"%s\" must be an object of settings", pattern);
  OCT_TRY(oct_grow(ctx, &out->layers, &out->capacity, out->n_layers + 1, sizeof *out->layers));
  oct_layer_setting *setting = &out->layers[out->n_layers];
  *setting = (oct_layer_setting){.pattern = oct_region_strdup(ctx, &out->region, pattern)};
  if (!setting->pattern) return OCTET_OUT_OF_MEMORY;
  const char *key;
  json_t *value;
  json_object_foreach(object, key, value) OCT_TRY(read_key(&(entry){ctx, pattern, key, value, setting}));
  if (setting->has_zero_point && !setting->has_scale)
    return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "configuration: \"%s\" gives a zero point, but no scale", pattern);
  out->n_layers++;
  return OCTET_OK;
}

octet_status oct_quantize_config_parse(octet_context *ctx, const char *text, size_t length, oct_quantize_config *out) {
  *out = (oct_quantize_config){0};
  json_error_t error;
  if (length > MAX_CONFIG_BYTES) return oct_fail(ctx, OCTET_FORMAT, "configuration: %zu bytes are too many", length);
  json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
  if (!root) return oct_fail(ctx, OCTET_FORMAT, "configuration: line %d, column %d: %s", error.line, error.column, error.text);
  octet_status status = OCTET_OK;
  if (!json_is_object(root))
    status = oct_fail(ctx, OCTET_INVALID_ARGUMENT, "configuration: the file must hold one object {\"LAYER\": {...}, ...}");
  const char *pattern;
  json_t *layer;
  if (status == OCTET_OK) {
    json_object_foreach(root, pattern, layer) {
      status = read_layer(ctx, pattern, layer, out);
      if (status != OCTET_OK) break;
    }
  }
  json_decref(root);
  return status;
}

octet_status oct_quantize_config_load(octet_context *ctx, const char *path, oct_quantize_config *out) {
  *out = (oct_quantize_config){0};
  oct_file *file;
  OCT_TRY(oct_file_open(ctx, path, &file));
  oct_bytes bytes = oct_file_bytes(file);
  octet_status status = oct_quantize_config_parse(ctx, (const char *)bytes.data, bytes.size, out);
  oct_file_close(file);
  return status == OCTET_OK ? OCTET_OK : oct_fail_prefix(ctx, "%s", path);
}

void oct_quantize_config_free(oct_quantize_config *config) {
  oct_free(config->layers);
  oct_region_free(&config->region);
  *config = (oct_quantize_config){0};
}
