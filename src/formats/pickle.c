/* The pickle machine: a stack, a memo and a table of opcodes. Every loop consumes input; the memo and the number of nodes
 * are bounded by the number of input bytes. See pickle.h for what it does not do.
 * SPDX-License-Identifier: MIT */
#include "formats/pickle.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_MARKS 4096     /* nesting of unfinished lists, tuples and dicts */
#define MAX_NODES 16777216 /* a weight file has a few dozen per tensor */
#define MAX_NUMBER_TEXT 64
#define SLAB 256 /* nodes per region allocation */

typedef struct machine {
  octet_context *ctx;
  oct_region *region;
  oct_reader *in;
  oct_pickle_policy policy;
  oct_pickle **stack, **memo;
  size_t depth, stack_capacity, memo_count, memo_capacity;
  size_t *marks;
  size_t n_marks, marks_capacity;
  oct_pickle *slab;
  size_t slab_left, nodes;
  oct_pickle *none, *yes, *no;
  oct_pickle *refused; /* the first global outside the policy */
  oct_pickle *persistent;
  size_t end;    /* bytes that the pickle may reach: the bound of the memo and of `copied` */
  size_t copied; /* items copied from one container into a new one */
} machine;

static octet_status malformed(machine *m, const char *what) {
  return oct_fail(m->ctx, OCTET_FORMAT, "pickle: %s at byte %zu", what, m->in->position);
}

static octet_status new_node(machine *m, oct_pickle_kind kind, oct_pickle **out) {
  if (m->slab_left == 0) {
    if (m->nodes >= MAX_NODES) return malformed(m, "more values than a weight file needs");
    m->slab = oct_region_alloc(m->ctx, m->region, SLAB, sizeof *m->slab);
    if (!m->slab) return OCTET_OUT_OF_MEMORY;
    m->slab_left = SLAB;
    m->nodes += SLAB;
  }
  *out = m->slab++;
  m->slab_left--;
  (*out)->kind = (uint8_t)kind;
  return OCTET_OK;
}

static octet_status push(machine *m, oct_pickle *value) {
  OCT_TRY(oct_grow(m->ctx, &m->stack, &m->stack_capacity, m->depth + 1, sizeof *m->stack));
  m->stack[m->depth++] = value;
  return OCTET_OK;
}

/* The first stack index that the innermost unfinished container owns. */
static size_t floor_of(const machine *m) { return m->n_marks ? m->marks[m->n_marks - 1] : 0; }

static octet_status need(machine *m, size_t count) { return m->depth - floor_of(m) < count ? malformed(m, "stack underflow") : OCTET_OK; }

static octet_status pop(machine *m, oct_pickle **out) {
  OCT_TRY(need(m, 1));
  *out = m->stack[--m->depth];
  return OCTET_OK;
}

static octet_status mark(machine *m) {
  if (m->n_marks >= MAX_MARKS) return malformed(m, "nested too deeply");
  OCT_TRY(oct_grow(m->ctx, &m->marks, &m->marks_capacity, m->n_marks + 1, sizeof *m->marks));
  m->marks[m->n_marks++] = m->depth;
  return OCTET_OK;
}

/* Takes the values since the last mark off the stack: they are stack[depth .. depth + *count) until the next push. */
static octet_status pop_mark(machine *m, size_t *count) {
  if (m->n_marks == 0) return malformed(m, "no mark to go back to");
  size_t start = m->marks[--m->n_marks];
  *count = m->depth - start;
  m->depth = start;
  return OCTET_OK;
}

static octet_status append(machine *m, oct_pickle *to, oct_pickle *const *values, size_t count) {
  size_t needed = to->count + count;
  if (needed > UINT32_MAX / 2) return malformed(m, "container too large");
  if (needed > to->capacity) {
    size_t capacity = needed > 2 * (size_t)to->capacity ? needed : 2 * (size_t)to->capacity;
    oct_pickle **items = oct_region_alloc(m->ctx, m->region, capacity, sizeof *items);
    if (!items) return OCTET_OUT_OF_MEMORY;
    if (to->count) memcpy(items, to->items, to->count * sizeof *items);
    to->items = items;
    to->capacity = (uint32_t)capacity;
  }
  for (size_t i = 0; i < count; i++) to->items[to->count + i] = values[i];
  to->count += (uint32_t)count;
  return OCTET_OK;
}

/* Pushes a container of `count` values that lie at stack[depth] (just taken off). */
static octet_status push_container(machine *m, oct_pickle_kind kind, size_t count) {
  oct_pickle *node;
  OCT_TRY(new_node(m, kind, &node));
  if (kind == OCT_PICKLE_DICT && count % 2) return malformed(m, "a dict with a key but no value");
  OCT_TRY(append(m, node, m->stack + m->depth, count));
  return push(m, node);
}

static octet_status push_last(machine *m, oct_pickle_kind kind, size_t count) {
  OCT_TRY(need(m, count));
  m->depth -= count;
  return push_container(m, kind, count);
}

static octet_status push_marked(machine *m, oct_pickle_kind kind) {
  size_t count;
  OCT_TRY(pop_mark(m, &count));
  return push_container(m, kind, count);
}

/* APPEND, APPENDS, SETITEM, SETITEMS, ADDITEMS: `count` values at stack[depth] go to the container below them. */
static octet_status add_to_top(machine *m, oct_pickle_kind kind, size_t count) {
  OCT_TRY(need(m, 1));
  oct_pickle *to = m->stack[m->depth - 1];
  if (to->kind == OCT_PICKLE_CALL) return OCTET_OK; /* an inert object's items are dropped with it */
  if (to->kind != kind) return malformed(m, "values added to something that is no such container");
  if (kind == OCT_PICKLE_DICT && count % 2) return malformed(m, "a dict with a key but no value");
  return append(m, to, m->stack + m->depth, count);
}

static octet_status push_text(machine *m, oct_pickle_kind kind, uint64_t length) {
  const uint8_t *text = length <= SIZE_MAX ? oct_read_bytes(m->in, (size_t)length) : NULL;
  if (!text || length > UINT32_MAX) return malformed(m, "text runs past the end");
  oct_pickle *node;
  OCT_TRY(new_node(m, kind, &node));
  node->text = (const char *)text;
  node->count = (uint32_t)length;
  return push(m, node);
}

static octet_status push_integer(machine *m, int64_t value) {
  oct_pickle *node;
  OCT_TRY(new_node(m, OCT_PICKLE_INTEGER, &node));
  node->integer = value;
  return push(m, node);
}

static octet_status push_long(machine *m, size_t length) {
  const uint8_t *p = oct_read_bytes(m->in, length);
  if (!p) return malformed(m, "number runs past the end");
  if (length <= 8) {
    uint64_t v = length && p[length - 1] & 0x80 ? UINT64_MAX : 0;
    for (size_t i = length; i-- > 0;) v = v << 8 | p[i];
    return push_integer(m, (int64_t)v);
  }
  m->in->position -= length;
  return push_text(m, OCT_PICKLE_LONG, length);
}

static octet_status push_float(machine *m, double value) {
  oct_pickle *node;
  OCT_TRY(new_node(m, OCT_PICKLE_FLOAT, &node));
  node->number = value;
  return push(m, node);
}

static octet_status push_binary_float(machine *m) {
  uint64_t bits = oct_read_u64be(m->in);
  double value;
  memcpy(&value, &bits, sizeof value);
  return push_float(m, value);
}

/* The rest of the line, without its newline. */
static octet_status read_line(machine *m, const char **line, size_t *length) {
  const char *start = (const char *)m->in->data + m->in->position;
  const char *end = memchr(start, '\n', oct_reader_left(m->in));
  if (!end) return malformed(m, "line without an end");
  *line = start;
  *length = (size_t)(end - start);
  m->in->position += *length + 1;
  return OCTET_OK;
}

static octet_status read_number_line(machine *m, char text[MAX_NUMBER_TEXT]) {
  const char *line;
  size_t length;
  OCT_TRY(read_line(m, &line, &length));
  if (length == 0 || length >= MAX_NUMBER_TEXT) return malformed(m, "number with too few or too many digits");
  memcpy(text, line, length);
  text[length] = 0;
  if (text[length - 1] == 'L') text[length - 1] = 0;
  return OCTET_OK;
}

static octet_status push_integer_line(machine *m, bool may_be_boolean) {
  char text[MAX_NUMBER_TEXT], *end;
  OCT_TRY(read_number_line(m, text));
  if (may_be_boolean && (!strcmp(text, "00") || !strcmp(text, "01"))) return push(m, text[1] == '1' ? m->yes : m->no);
  long long value = strtoll(text, &end, 10);
  if (*end || end == text) return malformed(m, "not a number");
  return push_integer(m, value);
}

static octet_status push_float_line(machine *m) {
  char text[MAX_NUMBER_TEXT], *end;
  OCT_TRY(read_number_line(m, text));
  double value = strtod(text, &end);
  if (*end || end == text) return malformed(m, "not a number");
  return push_float(m, value);
}

static octet_status push_text_line(machine *m, bool quoted) {
  const char *line;
  size_t length;
  OCT_TRY(read_line(m, &line, &length));
  if (quoted && length >= 2 && (*line == '\'' || *line == '"') && line[length - 1] == *line) line++, length -= 2;
  oct_pickle *node;
  if (length > UINT32_MAX) return malformed(m, "text too long");
  OCT_TRY(new_node(m, OCT_PICKLE_STRING, &node));
  node->text = line;
  node->count = (uint32_t)length;
  return push(m, node);
}

static octet_status push_global(machine *m, const char *module, size_t module_length, const char *name, size_t name_length) {
  if (module_length > 512 || name_length > 512 || memchr(module, 0, module_length) || memchr(name, 0, name_length))
    return malformed(m, "name of a global is too long or malformed");
  oct_pickle *node;
  OCT_TRY(new_node(m, OCT_PICKLE_GLOBAL, &node));
  char *text = oct_region_alloc(m->ctx, m->region, module_length + name_length + 2, 1);
  if (!text) return OCTET_OUT_OF_MEMORY;
  memcpy(text, module, module_length);
  text[module_length] = '.';
  memcpy(text + module_length + 1, name, name_length);
  node->text = text;
  node->count = (uint32_t)(module_length + name_length + 1);
  node->call = (uint8_t)(m->policy ? m->policy(text) : OCT_PICKLE_REFUSED);
  if (node->call == OCT_PICKLE_REFUSED && !m->refused) m->refused = node;
  return push(m, node);
}

static octet_status push_global_lines(machine *m) {
  const char *module, *name;
  size_t module_length, name_length;
  OCT_TRY(read_line(m, &module, &module_length));
  OCT_TRY(read_line(m, &name, &name_length));
  return push_global(m, module, module_length, name, name_length);
}

static octet_status push_stack_global(machine *m) {
  oct_pickle *name, *module;
  OCT_TRY(pop(m, &name));
  OCT_TRY(pop(m, &module));
  if (name->kind != OCT_PICKLE_STRING || module->kind != OCT_PICKLE_STRING) return malformed(m, "name of a global is no string");
  return push_global(m, module->text, module->count, name->text, name->count);
}

static octet_status refuse_call(machine *m, const oct_pickle *callable) {
  return oct_fail(m->ctx, OCTET_UNSUPPORTED, "the file asks to call %s: refused; Octet reads only tensors and executes nothing",
                  callable->kind == OCT_PICKLE_GLOBAL ? callable->text : "a value that is no function");
}

static octet_status refuse_object(machine *m, const char *name) {
  return oct_fail(m->ctx, OCTET_UNSUPPORTED,
                  "the file holds a pickled object of class %s (a whole module?): refused; Octet reads only tensors. "
                  "Save the weights alone: torch.save(model.state_dict(), path)",
                  name);
}

/* OrderedDict(), OrderedDict([(key, value), ...]), OrderedDict({...}), defaultdict(factory), set([...]). */
static octet_status push_made_container(machine *m, oct_pickle_kind kind, const oct_pickle *arguments) {
  oct_pickle *node;
  OCT_TRY(new_node(m, kind, &node));
  const oct_pickle *from = arguments->count ? arguments->items[arguments->count - 1] : NULL;
  if (from) m->copied += from->kind >= OCT_PICKLE_TUPLE && from->kind <= OCT_PICKLE_DICT ? from->count : 0;
  if (m->copied > m->end) return malformed(m, "containers copied more often than any weight file does");
  if (from && kind == OCT_PICKLE_DICT && from->kind == OCT_PICKLE_DICT) OCT_TRY(append(m, node, from->items, from->count));
  for (size_t i = 0; from && (from->kind == OCT_PICKLE_LIST || from->kind == OCT_PICKLE_TUPLE) && i < from->count; i++) {
    const oct_pickle *item = from->items[i];
    if (kind == OCT_PICKLE_SET) {
      OCT_TRY(append(m, node, &from->items[i], 1));
      continue;
    }
    if ((item->kind != OCT_PICKLE_TUPLE && item->kind != OCT_PICKLE_LIST) || item->count != 2)
      return malformed(m, "dict made from something that is no pair");
    OCT_TRY(append(m, node, item->items, 2));
  }
  return push(m, node);
}

static octet_status call(machine *m) {
  oct_pickle *arguments, *callable;
  OCT_TRY(pop(m, &arguments));
  OCT_TRY(pop(m, &callable));
  if (callable->kind != OCT_PICKLE_GLOBAL || callable->call == OCT_PICKLE_REFUSED) return refuse_call(m, callable);
  if (arguments->kind != OCT_PICKLE_TUPLE) return malformed(m, "arguments of a call are no tuple");
  if (callable->call == OCT_PICKLE_MAKE_DICT) return push_made_container(m, OCT_PICKLE_DICT, arguments);
  if (callable->call == OCT_PICKLE_MAKE_SET) return push_made_container(m, OCT_PICKLE_SET, arguments);
  oct_pickle *node;
  OCT_TRY(new_node(m, OCT_PICKLE_CALL, &node));
  OCT_TRY(append(m, node, (oct_pickle *[]){callable, arguments}, 2));
  return push(m, node);
}

/* NEWOBJ and its kin: an object of a class; only classes that are plain containers or inert are let through. */
static octet_status make_object(machine *m, bool keywords) {
  oct_pickle *arguments, *class_node, *unused;
  if (keywords) OCT_TRY(pop(m, &unused));
  OCT_TRY(pop(m, &arguments));
  OCT_TRY(pop(m, &class_node));
  if (class_node->kind == OCT_PICKLE_PERSISTENT) {
    const oct_pickle *id = class_node->items[0];
    bool named = id->kind == OCT_PICKLE_TUPLE && id->count > 1 && id->items[1]->kind == OCT_PICKLE_GLOBAL;
    return refuse_object(m, named ? id->items[1]->text : "unknown");
  }
  if (class_node->kind != OCT_PICKLE_GLOBAL || class_node->call == OCT_PICKLE_REFUSED)
    return refuse_object(m, class_node->kind == OCT_PICKLE_GLOBAL ? class_node->text : "unknown");
  OCT_TRY(push(m, class_node));
  OCT_TRY(push(m, arguments));
  return call(m);
}

/* INST names its class in two lines, OBJ has it as the first marked value; the other marked values are the arguments. */
static octet_status make_old_object(machine *m, bool named_in_lines) {
  if (named_in_lines) OCT_TRY(push_global_lines(m));
  OCT_TRY(need(m, 1));
  size_t at = named_in_lines ? m->depth - 1 : floor_of(m);
  const oct_pickle *class_node = m->stack[at];
  return refuse_object(m, class_node->kind == OCT_PICKLE_GLOBAL ? class_node->text : "unknown");
}

/* Sets attributes: those of dicts and of inert objects are dropped, anything else is refused. */
static octet_status build(machine *m) {
  oct_pickle *state, *object;
  OCT_TRY(pop(m, &state));
  OCT_TRY(need(m, 1));
  object = m->stack[m->depth - 1];
  if (object->kind == OCT_PICKLE_DICT || object->kind == OCT_PICKLE_SET || object->kind == OCT_PICKLE_CALL) return OCTET_OK;
  return refuse_object(m, object->kind == OCT_PICKLE_GLOBAL ? object->text : "unknown");
}

static octet_status push_persistent(machine *m) {
  oct_pickle *id, *node;
  OCT_TRY(pop(m, &id));
  if (id->kind == OCT_PICKLE_TUPLE && id->count > 1 && oct_pickle_is(id->items[0], "module"))
    return refuse_object(m, id->items[1]->kind == OCT_PICKLE_GLOBAL ? id->items[1]->text : "unknown");
  OCT_TRY(new_node(m, OCT_PICKLE_PERSISTENT, &node));
  OCT_TRY(append(m, node, &id, 1));
  OCT_TRY(append(m, m->persistent, &node, 1));
  return push(m, node);
}

static octet_status memo_put(machine *m, uint64_t index) {
  OCT_TRY(need(m, 1));
  if (index > m->end) return malformed(m, "memo index that no pickle of this size has");
  size_t needed = (size_t)index + 1;
  OCT_TRY(oct_grow(m->ctx, &m->memo, &m->memo_capacity, needed, sizeof *m->memo));
  m->memo[index] = m->stack[m->depth - 1];
  if (needed > m->memo_count) m->memo_count = needed;
  return OCTET_OK;
}

static octet_status memo_get(machine *m, uint64_t index) {
  if (index >= m->memo_count || !m->memo[index]) return malformed(m, "memo entry that was never stored");
  return push(m, m->memo[index]);
}

static octet_status memo_line(machine *m, bool put) {
  char text[MAX_NUMBER_TEXT], *end;
  OCT_TRY(read_number_line(m, text));
  unsigned long long index = strtoull(text, &end, 10);
  if (*end || *text == '-') return malformed(m, "not a memo index");
  return put ? memo_put(m, index) : memo_get(m, index);
}

static octet_status discard(machine *m) {
  if (m->depth > floor_of(m))
    m->depth--;
  else if (m->n_marks)
    m->n_marks--;
  else
    return malformed(m, "stack underflow");
  return OCTET_OK;
}

static octet_status duplicate(machine *m) {
  OCT_TRY(need(m, 1));
  return push(m, m->stack[m->depth - 1]);
}

static octet_status add_marked(machine *m, oct_pickle_kind kind) {
  size_t count;
  OCT_TRY(pop_mark(m, &count));
  return add_to_top(m, kind, count);
}

static octet_status add_last(machine *m, oct_pickle_kind kind, size_t count) {
  OCT_TRY(need(m, count + 1));
  m->depth -= count;
  return add_to_top(m, kind, count);
}

static octet_status container_opcode(machine *m, uint8_t op, bool *known) {
  size_t count;
  switch (op) {
    case '(': return mark(m);
    case '1': return pop_mark(m, &count);
    case ')': return push_container(m, OCT_PICKLE_TUPLE, 0);
    case ']': return push_container(m, OCT_PICKLE_LIST, 0);
    case '}': return push_container(m, OCT_PICKLE_DICT, 0);
    case 0x8f: return push_container(m, OCT_PICKLE_SET, 0);
    case 't': return push_marked(m, OCT_PICKLE_TUPLE);
    case 'l': return push_marked(m, OCT_PICKLE_LIST);
    case 'd': return push_marked(m, OCT_PICKLE_DICT);
    case 0x91: return push_marked(m, OCT_PICKLE_SET);
    case 0x85: return push_last(m, OCT_PICKLE_TUPLE, 1);
    case 0x86: return push_last(m, OCT_PICKLE_TUPLE, 2);
    case 0x87: return push_last(m, OCT_PICKLE_TUPLE, 3);
    case 'a': return add_last(m, OCT_PICKLE_LIST, 1);
    case 'e': return add_marked(m, OCT_PICKLE_LIST);
    case 's': return add_last(m, OCT_PICKLE_DICT, 2);
    case 'u': return add_marked(m, OCT_PICKLE_DICT);
    case 0x90: return add_marked(m, OCT_PICKLE_SET);
    case '0': return discard(m);
    case '2': return duplicate(m);
    case 'R': return call(m);
    case 'b': return build(m);
    case 0x81: return make_object(m, false);
    case 0x92: return make_object(m, true);
    case 'i': return make_old_object(m, true);
    case 'o': return make_old_object(m, false);
    case 'Q': return push_persistent(m);
    default: *known = false; return OCTET_OK;
  }
}

static octet_status scalar_opcode(machine *m, uint8_t op, bool *known) {
  switch (op) {
    case 'N': return push(m, m->none);
    case 0x88: return push(m, m->yes);
    case 0x89: return push(m, m->no);
    case 'I': return push_integer_line(m, true);
    case 'L': return push_integer_line(m, false);
    case 'F': return push_float_line(m);
    case 'J': return push_integer(m, (int32_t)oct_read_u32le(m->in));
    case 'K': return push_integer(m, oct_read_u8(m->in));
    case 'M': return push_integer(m, oct_read_u16le(m->in));
    case 0x8a: return push_long(m, oct_read_u8(m->in));
    case 0x8b: return push_long(m, oct_read_u32le(m->in));
    case 'G': return push_binary_float(m);
    case 'S': return push_text_line(m, true);
    case 'V': return push_text_line(m, false);
    case 'U':
    case 0x8c: return push_text(m, OCT_PICKLE_STRING, oct_read_u8(m->in));
    case 'T':
    case 'X': return push_text(m, OCT_PICKLE_STRING, oct_read_u32le(m->in));
    case 0x8d: return push_text(m, OCT_PICKLE_STRING, oct_read_u64le(m->in));
    case 'C': return push_text(m, OCT_PICKLE_BYTES, oct_read_u8(m->in));
    case 'B': return push_text(m, OCT_PICKLE_BYTES, oct_read_u32le(m->in));
    case 0x8e:
    case 0x96: return push_text(m, OCT_PICKLE_BYTES, oct_read_u64le(m->in));
    default: *known = false; return OCTET_OK;
  }
}

static octet_status other_opcode(machine *m, uint8_t op) {
  char text[64];
  switch (op) {
    case 0x80: /* PROTO */
      if (oct_read_u8(m->in) > 5) return malformed(m, "newer protocol than 5");
      return OCTET_OK;
    case 0x95: oct_read_u64le(m->in); return OCTET_OK; /* FRAME: only a hint for buffering */
    case 'c': return push_global_lines(m);
    case 0x93: return push_stack_global(m);
    case 'p': return memo_line(m, true);
    case 'q': return memo_put(m, oct_read_u8(m->in));
    case 'r': return memo_put(m, oct_read_u32le(m->in));
    case 0x94: return memo_put(m, m->memo_count);
    case 'g': return memo_line(m, false);
    case 'h': return memo_get(m, oct_read_u8(m->in));
    case 'j': return memo_get(m, oct_read_u32le(m->in));
    case 'P': OCT_TRY(push_text_line(m, false)); return push_persistent(m);
    default: snprintf(text, sizeof text, "opcode 0x%02x, which no weight file has,", op); return malformed(m, text);
  }
}

static octet_status run(machine *m, oct_pickle_result *out) {
  for (;;) {
    uint8_t op = oct_read_u8(m->in);
    if (m->in->failed) return malformed(m, "no STOP before the end");
    if (op == '.') break;
    bool known = true;
    OCT_TRY(container_opcode(m, op, &known));
    if (!known) {
      known = true;
      OCT_TRY(scalar_opcode(m, op, &known));
    }
    if (!known) OCT_TRY(other_opcode(m, op));
    if (m->in->failed) return malformed(m, "ends inside a value");
  }
  m->n_marks = 0;
  OCT_TRY(pop(m, &out->root));
  if (m->refused)
    return oct_fail(m->ctx, OCTET_UNSUPPORTED, "the file refers to %s: refused; Octet reads only tensors and executes nothing",
                    m->refused->text);
  out->persistent = m->persistent->items;
  out->n_persistent = m->persistent->count;
  return OCTET_OK;
}

octet_status oct_pickle_read(octet_context *ctx, oct_region *region, oct_reader *reader, oct_pickle_policy policy, oct_pickle_result *out) {
  machine m = {.ctx = ctx, .region = region, .in = reader, .policy = policy, .end = reader->size};
  octet_status status;
  OCT_TRY_GOTO(new_node(&m, OCT_PICKLE_NONE, &m.none), done);
  OCT_TRY_GOTO(new_node(&m, OCT_PICKLE_BOOL, &m.yes), done);
  m.yes->boolean = true;
  OCT_TRY_GOTO(new_node(&m, OCT_PICKLE_BOOL, &m.no), done);
  OCT_TRY_GOTO(new_node(&m, OCT_PICKLE_LIST, &m.persistent), done);
  status = run(&m, out);
done:
  oct_free(m.stack);
  oct_free(m.memo);
  oct_free(m.marks);
  return status;
}

bool oct_pickle_is(const oct_pickle *value, const char *text) {
  return value->kind == OCT_PICKLE_STRING && value->count == strlen(text) && !memcmp(value->text, text, value->count);
}

oct_pickle *oct_pickle_get(const oct_pickle *dict, const char *key) {
  if (dict->kind != OCT_PICKLE_DICT) return NULL;
  for (uint32_t i = 0; i + 1 < dict->count; i += 2)
    if (oct_pickle_is(dict->items[i], key)) return dict->items[i + 1];
  return NULL;
}
