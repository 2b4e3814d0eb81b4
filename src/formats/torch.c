/* PyTorch checkpoints: from the tree of values to named tensors. Containers are in torch_storage.c, single tensors in
 * torch_tensor.c, the pickle itself in pickle.c.
 * SPDX-License-Identifier: MIT */
#include "formats/torch.h"

#include "base/strbuf.h"
#include "formats/torch_tensor.h"

#define MAX_DEPTH 64        /* of nested dicts and lists */
#define MAX_VISITED 1048576 /* values looked at: shared nodes could multiply without end */
#define MAX_NAME 4096       /* bytes */

typedef struct walk {
  oct_torch_file *file;
  oct_torch_budget budget;
  oct_bundle *out;
  size_t visited;
  char name[MAX_NAME + 1];
} walk;

static bool is_container(const oct_pickle *node) {
  return node->kind == OCT_PICKLE_DICT || node->kind == OCT_PICKLE_LIST || node->kind == OCT_PICKLE_TUPLE;
}

/* Appends ".part" to the name; returns the old length to go back to, or SIZE_MAX when it grows too long. */
static size_t extend(walk *w, const char *part, size_t length) {
  size_t old = strlen(w->name), dot = old > 0;
  if (length > MAX_NAME - old - dot || memchr(part, 0, length)) return SIZE_MAX;
  if (dot) w->name[old] = '.';
  memcpy(w->name + old + dot, part, length);
  w->name[old + dot + length] = 0;
  return old;
}

static octet_status add_tensor(walk *w, const oct_pickle *node) {
  oct_tensor *tensor;
  oct_quant *quant;
  const char *name = *w->name ? w->name : "tensor";
  octet_status status = oct_torch_tensor(w->file, &w->budget, &w->out->region, node, &tensor, &quant);
  if (status != OCTET_OK) return oct_fail_prefix(w->file->ctx, "tensor %s", name);
  return oct_bundle_add(w->file->ctx, w->out, name, tensor, quant);
}

static octet_status collect(walk *w, const oct_pickle *node, int depth);

static octet_status collect_named(walk *w, const oct_pickle *node, const char *part, size_t length, int depth) {
  if (!is_container(node) && !oct_torch_is_tensor(node)) return OCTET_OK;
  size_t old = extend(w, part, length);
  if (old == SIZE_MAX)
    return oct_fail(w->file->ctx, OCTET_FORMAT, "a name under \"%.64s\" is longer than %d bytes or has a zero byte", w->name, MAX_NAME);
  octet_status status = collect(w, node, depth + 1);
  w->name[old] = 0;
  return status;
}

/* `fc._packed_params._packed_params`: (weight, bias) of a quantized module becomes fc.weight and fc.bias. */
static bool is_packed(const walk *w, const oct_pickle *node) {
  static const char suffix[] = "_packed_params";
  size_t length = strlen(w->name);
  return node->kind == OCT_PICKLE_TUPLE && node->count == 2 && oct_torch_is_tensor(node->items[0]) && length >= sizeof suffix - 1 &&
         !strcmp(w->name + length - (sizeof suffix - 1), suffix);
}

static octet_status collect_packed(walk *w, const oct_pickle *node, int depth) {
  static const char suffix[] = "_packed_params";
  char whole[MAX_NAME + 1];
  memcpy(whole, w->name, sizeof whole);
  for (size_t length; (length = strlen(w->name)) >= sizeof suffix - 1 && !strcmp(w->name + length - (sizeof suffix - 1), suffix);) {
    length -= sizeof suffix - 1;
    w->name[length > 0 ? length - 1 : 0] = 0; /* the '.' before it too */
  }
  octet_status status = collect_named(w, node->items[0], "weight", 6, depth);
  if (status == OCTET_OK) status = collect_named(w, node->items[1], "bias", 4, depth);
  memcpy(w->name, whole, sizeof whole);
  return status;
}

static octet_status collect_list(walk *w, const oct_pickle *node, int depth) {
  char number[16];
  for (uint32_t i = 0; i < node->count; i++) {
    int length = snprintf(number, sizeof number, "%u", i);
    OCT_TRY(collect_named(w, node->items[i], number, (size_t)length, depth));
  }
  return OCTET_OK;
}

static octet_status collect_dict(walk *w, const oct_pickle *node, int depth) {
  char number[32];
  for (uint32_t i = 0; i + 1 < node->count; i += 2) {
    const oct_pickle *key = node->items[i], *value = node->items[i + 1];
    w->visited++;
    if (key->kind == OCT_PICKLE_STRING) {
      OCT_TRY(collect_named(w, value, key->text, key->count, depth));
    } else if (key->kind == OCT_PICKLE_INTEGER) {
      int length = snprintf(number, sizeof number, "%lld", (long long)key->integer);
      OCT_TRY(collect_named(w, value, number, (size_t)length, depth));
    } /* other keys name no weights */
  }
  return OCTET_OK;
}

static octet_status collect(walk *w, const oct_pickle *node, int depth) {
  w->visited += 1 + (is_container(node) ? node->count : 0);
  if (depth > MAX_DEPTH || w->visited > MAX_VISITED)
    return oct_fail(w->file->ctx, OCTET_FORMAT, "the checkpoint nests too deeply or refers to itself (at \"%.64s\")", w->name);
  if (oct_torch_is_tensor(node)) return add_tensor(w, node);
  if (is_packed(w, node)) return collect_packed(w, node, depth);
  return node->kind == OCT_PICKLE_DICT ? collect_dict(w, node, depth) : is_container(node) ? collect_list(w, node, depth) : OCTET_OK;
}

/* true when the node or something below it, within a few levels, is a tensor. */
static bool holds_tensor(const oct_pickle *node, int levels, size_t *left) {
  if (oct_torch_is_tensor(node)) return true;
  if (!is_container(node) || levels == 0) return false;
  for (uint32_t i = 0; i<node->count && * left> 0; i++) {
    --*left;
    if (holds_tensor(node->items[i], levels - 1, left)) return true;
  }
  return false;
}

/* The dict of weights inside a training checkpoint; a model that has a layer of that name holds tensors at the top as well. */
static const oct_pickle *pick_weights(const oct_pickle *root) {
  static const char *const keys[] = {"state_dict", "model_state_dict", "model"};
  if (root->kind != OCT_PICKLE_DICT) return root;
  for (uint32_t i = 0; i + 1 < root->count; i += 2)
    if (oct_torch_is_tensor(root->items[i + 1])) return root;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const oct_pickle *inner = oct_pickle_get(root, keys[i]);
    size_t left = 100000;
    if (inner && inner->kind == OCT_PICKLE_DICT && holds_tensor(inner, 4, &left)) return inner;
  }
  return root;
}

/* What a training checkpoint keeps beside the weights. */
static bool is_training_state(const oct_pickle *key) {
  static const char *const keys[] = {
      "optimizer", "optimizer_state_dict", "optimizer_state", "optim", "optim_dict", "lr_scheduler", "scheduler", "scaler", "rng_state",
      "epoch"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (oct_pickle_is(key, keys[i])) return true;
  return false;
}

static octet_status collect_root(walk *w, const oct_pickle *root) {
  const oct_pickle *weights = pick_weights(root);
  if (weights != root || root->kind != OCT_PICKLE_DICT) return collect(w, weights, 0);
  oct_pickle kept = {.kind = OCT_PICKLE_DICT}; /* one entry at a time, without the training state */
  for (uint32_t i = 0; i + 1 < root->count; i += 2) {
    if (is_training_state(root->items[i]) && !oct_torch_is_tensor(root->items[i + 1])) continue;
    kept.items = &root->items[i];
    kept.count = 2;
    OCT_TRY(collect_dict(w, &kept, 0));
  }
  return OCTET_OK;
}

/* Drops DataParallel's "module." when every name has it. */
static octet_status strip_module(octet_context *ctx, oct_bundle *bundle) {
  static const char prefix[] = "module.";
  for (size_t i = 0; i < bundle->count; i++)
    if (strncmp(bundle->items[i].name, prefix, sizeof prefix - 1) || !bundle->items[i].name[sizeof prefix - 1]) return OCTET_OK;
  oct_bundle stripped = {.region = bundle->region};
  octet_status status = OCTET_OK;
  for (size_t i = 0; status == OCTET_OK && i < bundle->count; i++) {
    const oct_named_tensor *item = &bundle->items[i];
    status = oct_bundle_add(ctx, &stripped, item->name + sizeof prefix - 1, oct_tensor_retain(item->tensor), item->quant);
  }
  bundle->region = (oct_region){0}; /* now the new bundle's */
  oct_bundle_free(bundle);
  *bundle = stripped;
  return status;
}

static octet_status read_open(oct_torch_file *file, const char *name, oct_bundle *out) {
  walk w = {.file = file, .budget = oct_torch_budget_for(file->bytes), .out = out};
  octet_status status = oct_torch_open(file, oct_torch_policy);
  if (status == OCTET_OK) status = collect_root(&w, file->root);
  if (status == OCTET_OK && out->count == 0) status = oct_fail(file->ctx, OCTET_FORMAT, "the checkpoint holds no tensors");
  if (status == OCTET_OK) status = strip_module(file->ctx, out);
  oct_torch_close(file);
  return status == OCTET_OK ? OCTET_OK : oct_fail_prefix(file->ctx, "%s", name);
}

octet_status oct_torch_read_bytes(octet_context *ctx, oct_bytes bytes, const char *name, oct_bundle *out) {
  *out = (oct_bundle){0};
  oct_torch_file file = {.ctx = ctx, .bytes = bytes};
  return read_open(&file, name, out);
}

octet_status oct_torch_read(octet_context *ctx, const char *path, oct_bundle *out) {
  *out = (oct_bundle){0};
  oct_file *mapped;
  OCT_TRY(oct_file_open(ctx, path, &mapped));
  oct_torch_file file = {.ctx = ctx, .bytes = oct_file_bytes(mapped), .file = mapped};
  octet_status status = read_open(&file, path, out);
  oct_file_close(mapped);
  return status;
}

bool oct_torch_is(oct_bytes bytes) { return oct_zip_is(bytes) || oct_torch_is_legacy(bytes); }
