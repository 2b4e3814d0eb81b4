/* JPEG through libjpeg-turbo. Errors leave the library by longjmp into decode(); what must be freed lives in the state
 * that the caller of decode() owns. Warnings about missing data are errors here: half a picture is not the picture.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdio.h>

#include <jerror.h>
#include <jpeglib.h>

#include "formats/image.h"

#define MAX_SCANS 500 /* of a progressive file: each costs a pass over the whole picture */

typedef struct state {
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  jmp_buf back;
  octet_context *ctx;
  oct_image image;
  bool failed_in_context; /* the context already has the message */
  char message[JMSG_LENGTH_MAX];
} state;

static void on_error(j_common_ptr jpeg) {
  state *s = jpeg->client_data;
  jpeg->err->format_message(jpeg, s->message);
  longjmp(s->back, 1);
}

static void on_message(j_common_ptr jpeg, int level) {
  if (level < 0 && (jpeg->err->msg_code == JWRN_JPEG_EOF || jpeg->err->msg_code == JWRN_HIT_MARKER)) on_error(jpeg);
}

static void on_progress(j_common_ptr jpeg) {
  if (((j_decompress_ptr)jpeg)->input_scan_number > MAX_SCANS) {
    state *s = jpeg->client_data;
    snprintf(s->message, sizeof s->message, "more than %d scans", MAX_SCANS);
    longjmp(s->back, 1);
  }
}

static bool decode(state *s, oct_bytes bytes) {
  if (setjmp(s->back)) return false;
  jpeg_create_decompress(&s->jpeg);
  s->jpeg.client_data = s;
  s->progress.progress_monitor = on_progress;
  s->jpeg.progress = &s->progress;
  jpeg_mem_src(&s->jpeg, bytes.data, (unsigned long)bytes.size);
  jpeg_read_header(&s->jpeg, TRUE);
  s->jpeg.out_color_space = JCS_RGB;
  if (oct_image_create(s->ctx, s->jpeg.image_width, s->jpeg.image_height, &s->image) != OCTET_OK) {
    s->failed_in_context = true;
    return false;
  }
  jpeg_start_decompress(&s->jpeg);
  while (s->jpeg.output_scanline < s->jpeg.output_height) {
    JSAMPROW row = s->image.pixels + (size_t)s->jpeg.output_scanline * s->jpeg.output_width * 3;
    jpeg_read_scanlines(&s->jpeg, &row, 1);
  }
  jpeg_finish_decompress(&s->jpeg);
  return true;
}

octet_status oct_image_read_jpeg(octet_context *ctx, oct_bytes bytes, oct_image *out) {
  *out = (oct_image){0};
  state *s = oct_alloc(ctx, 1, sizeof *s);
  if (!s) return OCTET_OUT_OF_MEMORY;
  s->ctx = ctx;
  s->jpeg.err = jpeg_std_error(&s->errors);
  s->jpeg.client_data = s;
  s->errors.error_exit = on_error;
  s->errors.emit_message = on_message;
  octet_status status = OCTET_OK;
  if (decode(s, bytes)) {
    *out = s->image;
  } else {
    oct_image_free(&s->image);
    status = s->failed_in_context ? ctx->status : oct_fail(ctx, OCTET_FORMAT, "damaged JPEG: %s", s->message);
  }
  jpeg_destroy_decompress(&s->jpeg);
  oct_free(s);
  return status;
}
