/* The pickle interpreter: containers, globals, calls, the memo, and the loop over opcodes. The memo is bounded by the number
 * of input bytes. See pickle.h for what it does not do.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "formats/pickle_machine.h"

#define MAX_MARKS 4096 /* nesting of unfinished lists, tuples and dicts */

static octet_status mark(oct_pickle_machine *m) {
  if (m->n_marks >= MAX_MARKS) return oct_pickle_malformed(m, "nested too deeply");
  OCT_TRY(oct_grow(m->ctx, &m->marks, &m->marks_capacity, m->n_marks + 1, sizeof *m->marks));
  m->marks[m->n_marks++] = m->depth;
  return OCTET_OK;
}

/* Takes the values since the last mark off the stack: they are stack[depth .. depth + *count) until the next push. */
static octet_status pop_mark(oct_pickle_machine *m, size_t *count) {
  if (m->n_marks == 0) return oct_pickle_malformed(m, "no mark to go back to");
  size_t start = m->marks[--m->n_marks];
  *count = m->depth - start;
  m->depth = start;
  return OCTET_OK;
}

/* Pushes a container of `count` values that lie at stack[depth] (just taken off). */
static octet_status push_container(oct_pickle_machine *m, oct_pickle_kind kind, size_t count) {
  oct_pickle *node;
  OCT_TRY(oct_pickle_new(m, kind, &node));
  if (kind == OCT_PICKLE_DICT && count % 2) return oct_pickle_malformed(m, "a dict with a key but no value");
  if (count) OCT_TRY(oct_pickle_append(m, node, m->stack + m->depth, count));
  return oct_pickle_push(m, node);
}

static octet_status push_last(oct_pickle_machine *m, oct_pickle_kind kind, size_t count) {
  OCT_TRY(oct_pickle_need(m, count));
  m->depth -= count;
  return push_container(m, kind, count);
}

static octet_status push_marked(oct_pickle_machine *m, oct_pickle_kind kind) {
  size_t count = 0;
  OCT_TRY(pop_mark(m, &count));
  return push_container(m, kind, count);
}

/* APPEND, APPENDS, SETITEM, SETITEMS, ADDITEMS: `count` values at stack[depth] go to the container below them. */
static octet_status add_to_top(oct_pickle_machine *m, oct_pickle_kind kind, size_t count) {
  OCT_TRY(oct_pickle_need(m, 1));
  oct_pickle *to = m->stack[m->depth - 1];
  if (count == 0 || to->kind == OCT_PICKLE_CALL) return OCTET_OK; /* an inert object's items are dropped with it */
  if (to->kind != kind) return oct_pickle_malformed(m, "values added to something that is no such container");
  if (kind == OCT_PICKLE_DICT && count % 2) return oct_pickle_malformed(m, "a dict with a key but no value");
  return oct_pickle_append(m, to, m->stack + m->depth, count);
}

static octet_status push_global(oct_pickle_machine *m, const char *module, size_t module_length, const char *name, size_t name_length) {
  if (module_length > 512 || name_length > 512 || memchr(module, 0, module_length) || memchr(name, 0, name_length))
    return oct_pickle_malformed(m, "name of a global is too long or malformed");
  oct_pickle *node;
  OCT_TRY(oct_pickle_new(m, OCT_PICKLE_GLOBAL, &node));
  char *text = oct_region_alloc(m->ctx, m->region, module_length + name_length + 2, 1);
  if (!text) return OCTET_OUT_OF_MEMORY;
  memcpy(text, module, module_length);
  text[module_length] = '.';
  memcpy(text + module_length + 1, name, name_length);
  node->text = text;
  node->count = (uint32_t)(module_length + name_length + 1);
  node->call = (uint8_t)(m->policy ? m->policy(text) : OCT_PICKLE_REFUSED);
  if (node->call == OCT_PICKLE_REFUSED && !m->refused) m->refused = node;
  return oct_pickle_push(m, node);
}

static octet_status push_global_lines(oct_pickle_machine *m) {
  const char *module = "", *name = "";
  size_t module_length = 0, name_length = 0;
  OCT_TRY(oct_pickle_line(m, &module, &module_length));
  OCT_TRY(oct_pickle_line(m, &name, &name_length));
  return push_global(m, module, module_length, name, name_length);
}

static octet_status push_stack_global(oct_pickle_machine *m) {
  oct_pickle *name, *module;
  OCT_TRY(oct_pickle_pop(m, &name));
  OCT_TRY(oct_pickle_pop(m, &module));
  if (name->kind != OCT_PICKLE_STRING || module->kind != OCT_PICKLE_STRING) return oct_pickle_malformed(m, "name of a global is no string");
  return push_global(m, module->text, module->count, name->text, name->count);
}

static octet_status refuse_call(oct_pickle_machine *m, const oct_pickle *callable) {
  return oct_fail(m->ctx, OCTET_UNSUPPORTED, "the file asks to call %s: refused; Octet reads only tensors and executes nothing",
                  callable->kind == OCT_PICKLE_GLOBAL ? callable->text : "a value that is no function");
}

static octet_status refuse_object(oct_pickle_machine *m, const char *name) {
  return oct_fail(m->ctx, OCTET_UNSUPPORTED,
                  "the file holds a pickled object of class %s (a whole module?): refused; Octet reads only tensors. "
                  "Save the weights alone: torch.save(model.state_dict(), path)",
                  name);
}

/* OrderedDict(), OrderedDict([(key, value), ...]), OrderedDict({...}), defaultdict(factory), set([...]). */
static octet_status push_made_container(oct_pickle_machine *m, oct_pickle_kind kind, const oct_pickle *arguments) {
  oct_pickle *node;
  OCT_TRY(oct_pickle_new(m, kind, &node));
  const oct_pickle *from = arguments->count ? arguments->items[arguments->count - 1] : NULL;
  if (from) m->copied += from->kind >= OCT_PICKLE_TUPLE && from->kind <= OCT_PICKLE_DICT ? from->count : 0;
  if (m->copied > m->end) return oct_pickle_malformed(m, "containers copied more often than any weight file does");
  if (from && kind == OCT_PICKLE_DICT && from->kind == OCT_PICKLE_DICT) OCT_TRY(oct_pickle_append(m, node, from->items, from->count));
  for (size_t i = 0; from && (from->kind == OCT_PICKLE_LIST || from->kind == OCT_PICKLE_TUPLE) && i < from->count; i++) {
    const oct_pickle *item = from->items[i];
    if (kind == OCT_PICKLE_SET) {
      OCT_TRY(oct_pickle_append(m, node, &from->items[i], 1));
      continue;
    }
    if ((item->kind != OCT_PICKLE_TUPLE && item->kind != OCT_PICKLE_LIST) || item->count != 2)
      return oct_pickle_malformed(m, "dict made from something that is no pair");
    OCT_TRY(oct_pickle_append(m, node, item->items, 2));
  }
  return oct_pickle_push(m, node);
}

static octet_status call(oct_pickle_machine *m) {
  oct_pickle *arguments, *callable;
  OCT_TRY(oct_pickle_pop(m, &arguments));
  OCT_TRY(oct_pickle_pop(m, &callable));
  if (callable->kind != OCT_PICKLE_GLOBAL || callable->call == OCT_PICKLE_REFUSED) return refuse_call(m, callable);
  if (arguments->kind != OCT_PICKLE_TUPLE) return oct_pickle_malformed(m, "arguments of a call are no tuple");
  if (callable->call == OCT_PICKLE_MAKE_DICT) return push_made_container(m, OCT_PICKLE_DICT, arguments);
  if (callable->call == OCT_PICKLE_MAKE_SET) return push_made_container(m, OCT_PICKLE_SET, arguments);
  oct_pickle *node;
  OCT_TRY(oct_pickle_new(m, OCT_PICKLE_CALL, &node));
  OCT_TRY(oct_pickle_append(m, node, (oct_pickle *[]){callable, arguments}, 2));
  return oct_pickle_push(m, node);
}

/* NEWOBJ and its kin: an object of a class; only classes that are plain containers or inert are let through. */
static octet_status make_object(oct_pickle_machine *m, bool keywords) {
  oct_pickle *arguments, *class_node, *unused;
  if (keywords) OCT_TRY(oct_pickle_pop(m, &unused));
  OCT_TRY(oct_pickle_pop(m, &arguments));
  OCT_TRY(oct_pickle_pop(m, &class_node));
  if (class_node->kind == OCT_PICKLE_PERSISTENT) {
    const oct_pickle *id = class_node->items[0];
    bool named = id->kind == OCT_PICKLE_TUPLE && id->count > 1 && id->items[1]->kind == OCT_PICKLE_GLOBAL;
    return refuse_object(m, named ? id->items[1]->text : "unknown");
  }
  if (class_node->kind != OCT_PICKLE_GLOBAL || class_node->call == OCT_PICKLE_REFUSED)
    return refuse_object(m, class_node->kind == OCT_PICKLE_GLOBAL ? class_node->text : "unknown");
  OCT_TRY(oct_pickle_push(m, class_node));
  OCT_TRY(oct_pickle_push(m, arguments));
  return call(m);
}

/* INST names its class in two lines, OBJ has it as the first marked value; the other marked values are the arguments. */
static octet_status make_old_object(oct_pickle_machine *m, bool named_in_lines) {
  if (named_in_lines) OCT_TRY(push_global_lines(m));
  OCT_TRY(oct_pickle_need(m, 1));
  size_t at = named_in_lines ? m->depth - 1 : oct_pickle_floor(m);
  const oct_pickle *class_node = m->stack[at];
  return refuse_object(m, class_node->kind == OCT_PICKLE_GLOBAL ? class_node->text : "unknown");
}

/* Sets attributes: those of dicts and of inert objects are dropped, anything else is refused. */
static octet_status build(oct_pickle_machine *m) {
  oct_pickle *state, *object;
  OCT_TRY(oct_pickle_pop(m, &state));
  OCT_TRY(oct_pickle_need(m, 1));
  object = m->stack[m->depth - 1];
  if (object->kind == OCT_PICKLE_DICT || object->kind == OCT_PICKLE_SET || object->kind == OCT_PICKLE_CALL) return OCTET_OK;
  return refuse_object(m, object->kind == OCT_PICKLE_GLOBAL ? object->text : "unknown");
}

static octet_status push_persistent(oct_pickle_machine *m) {
  oct_pickle *id, *node;
  OCT_TRY(oct_pickle_pop(m, &id));
  if (id->kind == OCT_PICKLE_TUPLE && id->count > 1 && oct_pickle_is(id->items[0], "module"))
    return refuse_object(m, id->items[1]->kind == OCT_PICKLE_GLOBAL ? id->items[1]->text : "unknown");
  OCT_TRY(oct_pickle_new(m, OCT_PICKLE_PERSISTENT, &node));
  OCT_TRY(oct_pickle_append(m, node, &id, 1));
  OCT_TRY(oct_pickle_append(m, m->persistent, &node, 1));
  return oct_pickle_push(m, node);
}

static octet_status memo_put(oct_pickle_machine *m, uint64_t index) {
  OCT_TRY(oct_pickle_need(m, 1));
  if (index > m->end) return oct_pickle_malformed(m, "memo index that no pickle of this size has");
  size_t needed = (size_t)index + 1;
  OCT_TRY(oct_grow(m->ctx, &m->memo, &m->memo_capacity, needed, sizeof *m->memo));
  m->memo[index] = m->stack[m->depth - 1];
  if (needed > m->memo_count) m->memo_count = needed;
  return OCTET_OK;
}

static octet_status memo_get(oct_pickle_machine *m, uint64_t index) {
  if (index >= m->memo_count || !m->memo[index]) return oct_pickle_malformed(m, "memo entry that was never stored");
  return oct_pickle_push(m, m->memo[index]);
}

static octet_status memo_line(oct_pickle_machine *m, bool put) {
  char text[OCT_PICKLE_NUMBER_TEXT], *end;
  OCT_TRY(oct_pickle_number_line(m, text));
  unsigned long long index = strtoull(text, &end, 10);
  if (*end || *text == '-') return oct_pickle_malformed(m, "not a memo index");
  return put ? memo_put(m, index) : memo_get(m, index);
}

static octet_status discard(oct_pickle_machine *m) {
  if (m->depth > oct_pickle_floor(m)) m->depth--;
  else if (m->n_marks) m->n_marks--;
  else return oct_pickle_malformed(m, "stack underflow");
  return OCTET_OK;
}

static octet_status duplicate(oct_pickle_machine *m) {
  OCT_TRY(oct_pickle_need(m, 1));
  return oct_pickle_push(m, m->stack[m->depth - 1]);
}

static octet_status add_marked(oct_pickle_machine *m, oct_pickle_kind kind) {
  size_t count = 0;
  OCT_TRY(pop_mark(m, &count));
  return add_to_top(m, kind, count);
}

static octet_status add_last(oct_pickle_machine *m, oct_pickle_kind kind, size_t count) {
  OCT_TRY(oct_pickle_need(m, count + 1));
  m->depth -= count;
  return add_to_top(m, kind, count);
}

static octet_status container_opcode(oct_pickle_machine *m, uint8_t op, bool *known) {
  size_t count = 0;
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

static octet_status other_opcode(oct_pickle_machine *m, uint8_t op) {
  char text[64];
  switch (op) {
    case 0x80: /* PROTO */
      if (oct_read_u8(m->in) > 5) return oct_pickle_malformed(m, "newer protocol than 5");
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
    case 'P': OCT_TRY(oct_pickle_push_line(m, false)); return push_persistent(m);
    default: snprintf(text, sizeof text, "opcode 0x%02x, which no weight file has,", op); return oct_pickle_malformed(m, text);
  }
}

static octet_status run(oct_pickle_machine *m, oct_pickle_result *out) {
  for (;;) {
    uint8_t op = oct_read_u8(m->in);
    if (m->in->failed) return oct_pickle_malformed(m, "no STOP before the end");
    if (op == '.') break;
    bool known = true;
    OCT_TRY(container_opcode(m, op, &known));
    if (!known) {
      known = true;
      OCT_TRY(oct_pickle_scalar(m, op, &known));
    }
    if (!known) OCT_TRY(other_opcode(m, op));
    if (m->in->failed) return oct_pickle_malformed(m, "ends inside a value");
  }
  m->n_marks = 0;
  OCT_TRY(oct_pickle_pop(m, &out->root));
  if (m->refused)
    return oct_fail(m->ctx, OCTET_UNSUPPORTED, "the file refers to %s: refused; Octet reads only tensors and executes nothing",
                    m->refused->text);
  out->persistent = m->persistent->items;
  out->n_persistent = m->persistent->count;
  return OCTET_OK;
}

octet_status oct_pickle_read(octet_context *ctx, oct_region *region, oct_reader *reader, oct_pickle_policy policy, oct_pickle_result *out) {
  oct_pickle_machine m = {.ctx = ctx, .region = region, .in = reader, .policy = policy, .end = reader->size};
  octet_status status;
  OCT_TRY_GOTO(oct_pickle_new(&m, OCT_PICKLE_NONE, &m.none), done);
  OCT_TRY_GOTO(oct_pickle_new(&m, OCT_PICKLE_BOOL, &m.yes), done);
  m.yes->boolean = true;
  OCT_TRY_GOTO(oct_pickle_new(&m, OCT_PICKLE_BOOL, &m.no), done);
  OCT_TRY_GOTO(oct_pickle_new(&m, OCT_PICKLE_LIST, &m.persistent), done);
  status = run(&m, out);
done:
  oct_free(m.stack);
  oct_free(m.memo);
  oct_free(m.marks);
  return status;
}
