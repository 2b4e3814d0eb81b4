/* The memory plan on random graphs: no two buffers that are alive together lie over one another (but for a step that is allowed to work in place),
 * the arena is no larger than all buffers together, and the results are those of the references.
 * A failure prints the seed and the graph.
 * SPDX-License-Identifier: MIT */
#include "exec_checks.h"

/* ---- Random graphs ---- */

typedef struct drawn_value {
  int channels, size; /* [N, channels, size, size]; size 0: a constant-sized leftover, never drawn */
} drawn_value;

typedef struct drawing {
  oct_strbuf text;
  drawn_value values[64];
  int count, weights;
  bool quantized;
} drawing;

static void declare(drawing *d, int channels, int size) {
  if (d->quantized)
    oct_strbuf_printf(&d->text, "quant v%d u8 scale=%.4f zero_point=%d\n", d->count, 0.01 + 0.0001 * exec_random(200), exec_random(256));
  d->values[d->count++] = (drawn_value){channels, size};
}

static int draw(const drawing *d) {
  return exec_random(3) ? d->count - 1 - exec_random(d->count < 4 ? d->count : 4) : exec_random(d->count);
}

/* Another value of the same shape, or the value itself. */
static int draw_like(const drawing *d, int value) {
  int at = exec_random(d->count);
  for (int i = 0; i < d->count; i++, at = (at + 1) % d->count)
    if (d->values[at].channels == d->values[value].channels && d->values[at].size == d->values[value].size) return at;
  return value;
}

static void draw_convolution(drawing *d, int from) {
  static const int kernels[] = {1, 3, 5};
  drawn_value v = d->values[from];
  int k = kernels[exec_random(3)], channels = 1 + exec_random(9), w = d->weights++;
  bool stride = v.size > 4 && exec_random(3) == 0;
  if (d->quantized)
    oct_strbuf_printf(&d->text, "const w%d i8[%d,%d,%d,%d] = rnd\nquant w%d i8 scale=0.004\n", w, channels, v.channels, k, k, w);
  else oct_strbuf_printf(&d->text, "const w%d f32[%d,%d,%d,%d] = rnd\n", w, channels, v.channels, k, k);
  oct_strbuf_printf(&d->text, "v%d = conv(v%d, w%d) pads=%d,%d,%d,%d strides=%d,%d\n", d->count, from, w, k / 2, k / 2, k / 2, k / 2,
                    stride + 1, stride + 1);
  declare(d, channels, stride ? (v.size + 1) / 2 : v.size);
}

static void draw_depthwise(drawing *d, int from) {
  drawn_value v = d->values[from];
  int w = d->weights++;
  oct_strbuf_printf(&d->text, "const w%d %s[%d,1,3,3] = rnd\n", w, d->quantized ? "i8" : "f32", v.channels);
  if (d->quantized) oct_strbuf_printf(&d->text, "quant w%d i8 scale=0.004\n", w);
  oct_strbuf_printf(&d->text, "v%d = conv(v%d, w%d) group=%d pads=1,1,1,1\n", d->count, from, w, v.channels);
  declare(d, v.channels, v.size);
}

static void draw_node(drawing *d) {
  static const char *const unary[] = {"relu", "sigmoid", "tanh", "hard_swish"}, *const binary[] = {"add", "mul", "sub", "max"};
  int from = draw(d), like = draw_like(d, from), other = draw(d);
  drawn_value v = d->values[from];
  switch (exec_random(8)) {
    case 0:
    case 1: draw_convolution(d, from); return;
    case 7: draw_depthwise(d, from); return;
    case 2:
      oct_strbuf_printf(&d->text, "v%d = %s(v%d)\n", d->count, unary[exec_random(4)], from);
      declare(d, v.channels, v.size);
      return;
    case 3:
      oct_strbuf_printf(&d->text, "v%d = %s(v%d, v%d)\n", d->count, binary[exec_random(4)], from, like);
      declare(d, v.channels, v.size);
      return;
    case 4:
      oct_strbuf_printf(&d->text, "v%d = %s_pool(v%d) kernel_shape=3,3 pads=1,1,1,1\n", d->count, exec_random(2) ? "max" : "average", from);
      declare(d, v.channels, v.size);
      return;
    case 5:
      if (d->values[other].size != v.size || v.channels + d->values[other].channels > 24) return;
      oct_strbuf_printf(&d->text, "v%d = concat(v%d, v%d) axis=1\n", d->count, from, other);
      declare(d, v.channels + d->values[other].channels, v.size);
      return;
    default: /* there and back: a view and a movement */
      oct_strbuf_printf(&d->text, "t%d = transpose(v%d) perm=0,1,3,2\n", d->count, from);
      if (d->quantized) oct_strbuf_printf(&d->text, "quant t%d u8 scale=0.02 zero_point=99\n", d->count);
      oct_strbuf_printf(&d->text, "v%d = identity(t%d)\n", d->count, d->count);
      declare(d, v.channels, v.size);
  }
}

static char *draw_graph(uint32_t seed, bool quantized) {
  drawing d = {.text = oct_strbuf_make(ctx), .quantized = quantized};
  exec_seed = seed;
  int inputs = 1 + exec_random(2), nodes = 3 + exec_random(20);
  for (int i = 0; i < inputs; i++) {
    int channels = 1 + exec_random(6), size = 5 + exec_random(20);
    oct_strbuf_printf(&d.text, "input v%d f32[N,%d,%d,%d]\n", d.count, channels, size, size);
    declare(&d, channels, size);
  }
  for (int i = 0; i < nodes; i++) draw_node(&d);
  oct_strbuf_printf(&d.text, "output v%d\n", d.count - 1);
  for (int i = 0; i + 1 < d.count; i++)
    if (exec_random(6) == 0) oct_strbuf_printf(&d.text, "output v%d\n", i);
  char *text;
  check(oct_strbuf_take(&d.text, &text));
  return text;
}

/* ---- What must hold ---- */

typedef struct life {
  int first, last;
} life;

/* From the relocations alone: what the steps read and write. */
static life *lives_of(const oct_plan *plan) {
  life *lives = oct_alloc(ctx, plan->n_buffers + 1, sizeof *lives);
  for (size_t i = 0; i < plan->n_buffers; i++) lives[i] = (life){OCT_FOREVER, -1};
  for (size_t i = 0; i < plan->n_relocations; i++) {
    const oct_relocation *r = &plan->relocations[i];
    if (r->buffer < 0) continue;
    if (r->step < lives[r->buffer].first) lives[r->buffer].first = r->step;
    if (r->step > lives[r->buffer].last) lives[r->buffer].last = r->step;
  }
  return lives;
}

static bool touches(const oct_plan *plan, int step, int buffer, bool write) {
  for (size_t i = 0; i < plan->n_relocations; i++) {
    const oct_relocation *r = &plan->relocations[i];
    if (r->step == step && r->buffer == buffer && r->write == write) return true;
  }
  return false;
}

/* `a` dies in the step that makes `b`, which says that it may work in place, on the very same bytes. */
static bool handed_over(const oct_plan *plan, const life *lives, int a, int b) {
  int step = lives[b].first;
  return lives[a].last == step && step >= 0 && plan->steps[step]->in_place && plan->buffers[a].offset == plan->buffers[b].offset &&
         plan->buffers[a].bytes == plan->buffers[b].bytes && touches(plan, step, a, false) && touches(plan, step, b, true) &&
         !touches(plan, step, a, true);
}

static bool overlap(const oct_buffer *a, const oct_buffer *b) {
  return a->offset < b->offset + b->bytes + OCT_OVERREAD && b->offset < a->offset + a->bytes + OCT_OVERREAD;
}

/* Inputs and outputs are in nobody's way: they lie outside of the arena, whatever the steps do. */
static bool ports_are_apart(const oct_session *session) {
  size_t n = oct_session_inputs(session), outputs = oct_session_outputs(session);
  const char *arena = (const char *)session->arena;
  for (size_t i = 0; i < n + outputs; i++) {
    oct_session_port p = i < n ? oct_session_input(session, i) : oct_session_output(session, i - n);
    const char *data = p.data;
    if (data < arena + session->plan.arena_bytes && arena < data + p.bytes) return false;
  }
  return true;
}

static bool plan_is_right(const oct_plan *plan) {
  life *lives = lives_of(plan);
  bool right = true;
  size_t sum = 0;
  for (size_t i = 0; i < plan->n_buffers; i++) {
    const oct_buffer *a = &plan->buffers[i];
    if (a->external || (lives[i].last < 0 && lives[i].first == OCT_FOREVER))
      continue; /* external: memory of its own, for the whole batch */
    sum += a->bytes + OCT_OVERREAD + OCT_ALIGNMENT;
    if (a->offset % OCT_ALIGNMENT || a->offset + a->bytes > plan->arena_bytes) right = false;
    for (size_t k = 0; k < plan->n_buffers; k++) {
      const oct_buffer *b = &plan->buffers[k];
      bool together = lives[k].first <= lives[i].last && lives[i].first <= lives[k].last;
      if (k <= i || b->external || !together || !overlap(a, b)) continue;
      if (handed_over(plan, lives, (int)i, (int)k) || handed_over(plan, lives, (int)k, (int)i)) continue;
      print_error("buffers %zu [%d,%d] and %zu [%d,%d] overlap: %zu+%zu, %zu+%zu\n", i, lives[i].first, lives[i].last, k, lives[k].first,
                  lives[k].last, a->offset, a->bytes, b->offset, b->bytes);
      right = false;
    }
  }
  if (plan->arena_bytes > sum) {
    print_error("the arena has %zu bytes, all buffers together %zu\n", plan->arena_bytes, sum);
    right = false;
  }
  oct_free(lives);
  return right;
}

static void check_seed(uint32_t seed, bool quantized) {
  char *text = draw_graph(seed, quantized);
  oct_graph *graph = exec_parse(text);
  exec_tensors inputs = exec_inputs(graph, 1 + (int64_t)(seed % 3)), want = exec_expected(graph, &inputs);
  for (int fused = 0; fused < 2; fused++) {
    oct_session *session = exec_session(graph, (exec_form){.fuse = fused ? OCT_FUSE_ALL : 0}, &inputs);
    bool right = plan_is_right(&session->plan) && ports_are_apart(session);
    exec_fill(session, &inputs);
    check(oct_session_run(session));
    check(oct_session_run(session));
    exec_tensors got = exec_outputs(session);
    /* Differences of large sums make floats drift; roundings may differ on ties and move on through later layers: only what is plainly wrong is looked for in quantized graphs. */
    if (!quantized) right = exec_close(&got, &want, -1e-3) && right;
    for (size_t i = 0; quantized && i < got.count; i++) {
      int64_t far = 0, n = oct_shape_count(&got.item[i]->shape);
      for (int64_t k = 0; k < n; k++)
        far += fabs((double)((float *)got.item[i]->data)[k] - (double)((float *)want.item[i]->data)[k]) > 0.031;
      if (far > n / 50) print_error("output %zu: %lld of %lld elements are more than a step off\n", i, (long long)far, (long long)n);
      right = right && far <= n / 50;
    }
    if (!right) {
      print_error("seed %u, %s, %s:\n%s", seed, quantized ? "quantized" : "float", fused ? "fused" : "not fused", text);
      fail();
    }
    exec_free(&got);
    oct_session_destroy(session);
  }
  exec_free(&inputs);
  exec_free(&want);
  oct_graph_destroy(graph);
  oct_free(text);
}

static uint32_t graphs_to_try(void) { return getenv("OCTET_SANITIZED") ? 40 : 150; }

static void float_plans_are_right(void **state) {
  (void)state;
  for (uint32_t seed = 1; seed <= graphs_to_try(); seed++) check_seed(seed, false);
}

static void quantized_plans_are_right(void **state) {
  (void)state;
  for (uint32_t seed = 1001; seed <= 1000 + graphs_to_try(); seed++) check_seed(seed, true);
}

/* Forty layers of one size need the memory of a few, not of forty. */
static void a_long_chain_takes_little_memory(void **state) {
  (void)state;
  oct_strbuf text = oct_strbuf_make(ctx);
  oct_strbuf_puts(&text, "input v0 f32[1,8,32,32]\nconst w f32[8,8,3,3] = rnd\n");
  for (int i = 1; i <= 40; i++) oct_strbuf_printf(&text, "v%d = conv(v%d, w) pads=1,1,1,1\n", i, i - 1);
  oct_strbuf_puts(&text, "output v40\n");
  char *whole;
  check(oct_strbuf_take(&text, &whole));
  oct_graph *graph = exec_parse(whole);
  exec_tensors inputs = exec_inputs(graph, 1);
  oct_session *session = exec_session(graph, (exec_form){.fuse = OCT_FUSE_ALL}, &inputs);
  size_t activation = 8 * 34 * 34 * 4; /* with its border */
  assert_true(session->plan.arena_bytes >= activation);
  assert_true(session->plan.arena_bytes <= 6 * activation);
  oct_session_destroy(session);
  exec_free(&inputs);
  oct_graph_destroy(graph);
  oct_free(whole);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(float_plans_are_right),
      cmocka_unit_test(quantized_plans_are_right),
      cmocka_unit_test(a_long_chain_takes_little_memory),
  };
  return cmocka_run_group_tests(tests, context_create, context_destroy);
}
