/* PNG through libpng. Errors leave libpng by longjmp into decode(); everything that must be freed lives in the state that
 * the caller of decode() owns, so nothing leaks and no local variable is needed after a jump.
 * SPDX-License-Identifier: MIT */
#include <png.h>
#include <setjmp.h>

#include "formats/image.h"

#define MAX_CHUNK 8388608 /* bytes that one text or profile chunk may expand to */

typedef struct state {
  octet_context *ctx;
  oct_reader reader;
  png_structp png;
  png_infop info;
  png_bytep *rows;
  oct_image image;
  char message[160];
} state;

static void on_error(png_structp png, png_const_charp text) {
  state *s = png_get_error_ptr(png);
  snprintf(s->message, sizeof s->message, "%s", text);
  png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text) {
  (void)png;
  (void)text;
}

static void on_read(png_structp png, png_bytep to, size_t count) {
  state *s = png_get_io_ptr(png);
  const uint8_t *from = oct_read_bytes(&s->reader, count);
  if (!from) png_error(png, "the file is cut off");
  memcpy(to, from, count);
}

static png_voidp on_malloc(png_structp png, png_alloc_size_t size) {
  state *s = png_get_mem_ptr(png);
  return oct_alloc_raw(s->ctx, size);
}

static void on_free(png_structp png, png_voidp memory) {
  (void)png;
  oct_free(memory);
}

/* Whatever the file has becomes 8-bit RGB. */
static void set_transforms(state *s) {
  png_set_expand(s->png);
  png_set_scale_16(s->png);
  png_set_gray_to_rgb(s->png);
  png_set_strip_alpha(s->png);
  png_set_interlace_handling(s->png);
  png_read_update_info(s->png, s->info);
}

/* false after an error; the message is in the state, or in the context when memory was out or the size too large. */
static bool decode(state *s) {
  if (setjmp(png_jmpbuf(s->png))) return false;
  png_set_read_fn(s->png, s, on_read);
  png_set_user_limits(s->png, OCT_IMAGE_MAX_SIDE, OCT_IMAGE_MAX_SIDE);
  png_set_chunk_malloc_max(s->png, MAX_CHUNK);
  png_read_info(s->png, s->info);
  png_uint_32 width = png_get_image_width(s->png, s->info), height = png_get_image_height(s->png, s->info);
  set_transforms(s);
  if (png_get_rowbytes(s->png, s->info) != (size_t)width * 3) png_error(s->png, "unexpected size of a row");
  if (oct_image_create(s->ctx, width, height, &s->image) != OCTET_OK) return false;
  if (!(s->rows = oct_alloc(s->ctx, height, sizeof *s->rows))) return false;
  for (png_uint_32 y = 0; y < height; y++) s->rows[y] = s->image.pixels + (size_t)y * width * 3;
  png_read_image(s->png, s->rows);
  png_read_end(s->png, NULL);
  return true;
}

octet_status oct_image_read_png(octet_context *ctx, oct_bytes bytes, oct_image *out) {
  *out = (oct_image){0};
  state s = {.ctx = ctx, .reader = oct_reader_make(bytes.data, bytes.size)};
  ctx->status = OCTET_OK;
  s.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &s, on_error, on_warning, &s, on_malloc, on_free);
  s.info = s.png ? png_create_info_struct(s.png) : NULL;
  bool done = s.info && decode(&s);
  png_destroy_read_struct(&s.png, &s.info, NULL);
  oct_free(s.rows);
  if (done) {
    *out = s.image;
    return OCTET_OK;
  }
  oct_image_free(&s.image);
  if (ctx->status != OCTET_OK) return ctx->status;
  return oct_fail(ctx, OCTET_FORMAT, "damaged PNG: %s", *s.message ? s.message : "it cannot be read");
}
