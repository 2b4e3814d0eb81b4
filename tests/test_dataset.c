/* Datasets, preprocessing, drawing of samples, and labels. Expected values are worked out by hand or by numpy's rules.
 * SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include "container_checks.h"

#include <math.h>
#include <sys/stat.h>

#include "formats/idx.h"
#include "formats/labels.h"
#include "formats/npy.h"

static char folder[256], path[512];

static int setup(void **state) {
  if (!folder_create(folder)) return -1;
  return context_create(state);
}
static int teardown(void **state) {
  (void)state;
  char command[600];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  oct_context_destroy(ctx);
  return system(command);
}

/* A file in the test's folder. */
static const char *temporary(const char *name) {
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}
static const char *write_file(const char *name, const void *bytes, size_t size) {
  assert_int_equal(oct_file_write(ctx, temporary(name), bytes, size), OCTET_OK);
  return path;
}
static void copy_data(const char *from, const char *name) {
  oct_file *file;
  assert_int_equal(oct_file_open(ctx, data_path(from), &file), OCTET_OK);
  write_file(name, oct_file_bytes(file).data, oct_file_bytes(file).size);
  oct_file_close(file);
}
static const char *write_array(const char *name, oct_dtype dtype, oct_shape shape, const void *values) {
  oct_tensor *t;
  assert_int_equal(oct_tensor_create(ctx, dtype, &shape, &t), OCTET_OK);
  memcpy(t->data, values, t->bytes);
  assert_int_equal(oct_npy_write(ctx, temporary(name), t), OCTET_OK);
  oct_tensor_release(t);
  return path;
}
#define SHAPE(...) oct_shape_of(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), __VA_ARGS__)
#define D(n) ((int64_t)(n))

static oct_dataset *open_data(const char *file, const char *preprocess) {
  oct_preprocess p;
  oct_dataset *data = NULL;
  if (oct_preprocess_parse(ctx, preprocess, &p) != OCTET_OK || oct_dataset_open(ctx, file, &p, &data) != OCTET_OK)
    fail_msg("%s", ctx->message);
  return data;
}
static void read_sample(const oct_dataset *data, const char *input, int64_t index, const oct_sample_form *form, void *to) {
  if (oct_dataset_read(ctx, data, input, index, form, to) != OCTET_OK) fail_msg("%s", ctx->message);
}
static void expect_failure(octet_status status, octet_status wanted, const char *words) {
  assert_int_equal(status, wanted);
  if (!strstr(ctx->message, words)) fail_msg("the message lacks \"%s\": %s", words, ctx->message);
}

/* ---- preprocessing ---- */

static void expect_text(const char *text, const char *canonical) {
  oct_preprocess p, again;
  char *printed;
  if (oct_preprocess_parse(ctx, text, &p) != OCTET_OK) fail_msg("%s", ctx->message);
  assert_int_equal(oct_preprocess_text(ctx, &p, &printed), OCTET_OK);
  assert_string_equal(printed, canonical);
  assert_int_equal(oct_preprocess_parse(ctx, printed, &again), OCTET_OK);
  assert_memory_equal(&p, &again, sizeof p);
  oct_free(printed);
}

static void test_preprocess_text(void **state) {
  (void)state;
  static const char whole[] = "scale=1/255 mean=0.485,0.456,0.406 std=0.229,0.224,0.225 color=bgr resize=256 crop=224";
  expect_text(whole, whole);
  expect_text("", "");
  expect_text(NULL, "");
  expect_text(" \tcrop=10x20  color=rgb ", "crop=10x20");
  expect_text("resize=7x7 std=2", "std=2 resize=7x7");
  static const char *const bad[][2] = {
      {"scale=", "scale"},     {"scale=0", "other than 0"},     {"scale=1/0", "scale"},
      {"scale=x", "scale"},    {"mean=1,2,3,4,5", "at most 4"}, {"mean=1,", "comma"},
      {"std=1,0", "divisor"},  {"color=grey", "rgb or bgr"},    {"resize=0", "size"},
      {"crop=3x", "size"},     {"crop=99999", "size"},          {"sclae=1", "known are"},
      {"crop", "known are"},   {"mean=1 mean=2", "twice"},      {"scale=inf", "scale"},
      {"mean=nan", "numbers"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    oct_preprocess p;
    expect_failure(oct_preprocess_parse(ctx, bad[i][0], &p), OCTET_INVALID_ARGUMENT, bad[i][1]);
  }
}

static void test_preprocess_table(void **state) {
  (void)state;
  oct_preprocess p;
  float table[256];
  assert_int_equal(oct_preprocess_parse(ctx, "scale=1/255", &p), OCTET_OK);
  assert_int_equal(oct_preprocess_table(ctx, &p, 0, 1, table), OCTET_OK);
  for (int x = 0; x < 256; x++) assert_true(table[x] == (float)x / 255.0f); /* as numpy's float32 division */
  assert_int_equal(oct_preprocess_parse(ctx, "mean=10,20,30 std=2", &p), OCTET_OK);
  assert_int_equal(oct_preprocess_table(ctx, &p, 2, 3, table), OCTET_OK);
  assert_true(table[35] == 2.5f);
  expect_failure(oct_preprocess_table(ctx, &p, 0, 1, table), OCTET_INVALID_ARGUMENT, "3 means");
}

/* ---- arrays ---- */

static void test_idx_images(void **state) {
  (void)state;
  static const uint8_t bytes[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 51, 255, 1, 2, 3};
  oct_dataset *data = open_data(write_file("a.idx", bytes, sizeof bytes), "scale=1/255");
  float values[3];
  uint8_t raw[3];
  oct_shape shape;
  assert_int_equal(oct_dataset_count(data), 2);
  assert_int_equal(oct_dataset_dtype(data, NULL), OCT_U8);
  oct_sample_form form = {OCT_F32, false, SHAPE(D(1), D(1), D(3))}; /* gains a channel axis */
  read_sample(data, "anything", 0, &form, values);
  assert_true(values[0] == 0 && values[1] == 51.0f / 255 && values[2] == 1);
  form = (oct_sample_form){OCT_F32, true, SHAPE(D(1), D(3), D(1))};
  read_sample(data, NULL, 1, &form, values);
  assert_true(values[2] == 3.0f / 255);
  form = (oct_sample_form){OCT_F32, false, SHAPE(D(1), D(OCT_DIM_UNKNOWN), D(OCT_DIM_UNKNOWN))};
  assert_int_equal(oct_dataset_shape(ctx, data, NULL, 0, &form, &shape), OCTET_OK);
  assert_true(shape.rank == 3 && shape.dim[0] == 1 && shape.dim[1] == 1 && shape.dim[2] == 3);
  form = (oct_sample_form){OCT_U8, false, SHAPE(D(1), D(1), D(3))};
  read_sample(data, NULL, 1, &form, raw);
  assert_memory_equal(raw, "\1\2\3", 3);
  form.shape = SHAPE(D(1), D(28), D(28));
  expect_failure(oct_dataset_read(ctx, data, NULL, 0, &form, values), OCTET_SHAPE, "[1,3], but the model's input takes [1,28,28]");
  assert_non_null(strstr(ctx->message, "a.idx"));
  expect_failure(oct_dataset_read(ctx, data, NULL, 2, &form, values), OCTET_INVALID_ARGUMENT, "sample 2 of 2");
  oct_dataset_close(data);
}

/* Stored without a channel axis, wanted with one, at each place and with sizes left open. */
static void test_channel_axis(void **state) {
  (void)state;
  static const float values[8] = {0};
  static const int64_t open_size = OCT_DIM_UNKNOWN;
  const struct {
    oct_shape stored, wanted, found;
  } cases[] = {
      {SHAPE(D(1), D(2), D(4)), SHAPE(D(1), D(2), D(4)), SHAPE(D(1), D(2), D(4))},
      {SHAPE(D(1), D(2), D(4)), SHAPE(open_size, open_size, open_size), SHAPE(D(1), D(2), D(4))},
      {SHAPE(D(1), D(2), D(4)), SHAPE(D(2), D(4), D(1)), SHAPE(D(2), D(4), D(1))},
      {SHAPE(D(1), D(2), D(4)), SHAPE(open_size, D(4), D(1)), SHAPE(D(2), D(4), D(1))},
      {SHAPE(D(1), D(8)), SHAPE(open_size), SHAPE(D(8))},
      {SHAPE(D(1), D(8), D(1)), SHAPE(D(8)), SHAPE(D(8))},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    oct_dataset *data = open_data(write_array("axis.npy", OCT_F32, cases[i].stored, values), NULL);
    oct_sample_form form = {OCT_F32, false, cases[i].wanted};
    oct_shape shape;
    assert_int_equal(oct_dataset_shape(ctx, data, NULL, 0, &form, &shape), OCTET_OK);
    assert_true(oct_shape_equal(&shape, &cases[i].found));
    oct_dataset_close(data);
  }
}

/* Bytes [1][height 1][width 2][3] and [1][3][1][2], each wanted both ways, with a mean per channel. */
static void test_layouts(void **state) {
  (void)state;
  static const uint8_t last[] = {10, 20, 30, 11, 21, 31}, first[] = {10, 11, 20, 21, 30, 31};
  static const float want_first[] = {0, 1, 0, 1, 0, 1}, want_last[] = {0, 0, 0, 1, 1, 1};
  for (int stored_last = 0; stored_last < 2; stored_last++) {
    oct_shape shape = stored_last ? SHAPE(D(1), D(1), D(2), D(3)) : SHAPE(D(1), D(3), D(1), D(2));
    oct_dataset *data = open_data(write_array("layout.npy", OCT_U8, shape, stored_last ? last : first), "mean=10,20,30");
    float values[6];
    oct_sample_form form = {OCT_F32, false, SHAPE(D(3), D(1), D(2))};
    read_sample(data, NULL, 0, &form, values);
    assert_memory_equal(values, want_first, sizeof values);
    form = (oct_sample_form){OCT_F32, true, SHAPE(D(1), D(2), D(3))};
    read_sample(data, NULL, 0, &form, values);
    assert_memory_equal(values, want_last, sizeof values);
    oct_dataset_close(data);
  }
}

static void test_float_arrays(void **state) {
  (void)state;
  static const float values[] = {1, 2, 3, 4, NAN, 6};
  oct_dataset *data = open_data(write_array("f.npy", OCT_F32, SHAPE(D(3), D(2)), values), "scale=1/255 mean=7"); /* not for floats */
  float got[2];
  oct_sample_form form = {OCT_F32, false, SHAPE(D(2))};
  read_sample(data, NULL, 1, &form, got);
  assert_true(got[0] == 3 && got[1] == 4);
  expect_failure(oct_dataset_read(ctx, data, NULL, 2, &form, got), OCTET_DATA, "f.npy, sample 2: element 0 is nan");
  form.shape = SHAPE(D(3));
  expect_failure(oct_dataset_read(ctx, data, NULL, 0, &form, got), OCTET_SHAPE, "[2]");
  form = (oct_sample_form){OCT_I64, false, SHAPE(D(2))};
  expect_failure(oct_dataset_read(ctx, data, NULL, 0, &form, got), OCTET_DATA, "the data is f32, but the input takes i64");
  oct_dataset_close(data);
  static const double wide[] = {1e300, HUGE_VAL};
  data = open_data(write_array("d.npy", OCT_F64, SHAPE(D(2), D(1)), wide), NULL);
  form = (oct_sample_form){OCT_F32, false, SHAPE(D(1))};
  expect_failure(oct_dataset_read(ctx, data, NULL, 0, &form, got), OCTET_DATA, "too large");
  expect_failure(oct_dataset_read(ctx, data, NULL, 1, &form, got), OCTET_DATA, "inf");
  oct_dataset_close(data);
}

static void test_integers(void **state) {
  (void)state;
  static const int32_t ids[] = {5, -1, 300, 7};
  oct_dataset *data = open_data(write_array("ids.npy", OCT_I32, SHAPE(D(2), D(2)), ids), NULL);
  int64_t wide[2];
  float real[2];
  int8_t narrow[2];
  oct_sample_form form = {OCT_I64, false, SHAPE(D(2))};
  read_sample(data, NULL, 0, &form, wide);
  assert_true(wide[0] == 5 && wide[1] == -1);
  form.dtype = OCT_F32;
  read_sample(data, NULL, 1, &form, real);
  assert_true(real[0] == 300 && real[1] == 7);
  form.dtype = OCT_I8;
  read_sample(data, NULL, 0, &form, narrow);
  assert_true(narrow[1] == -1);
  expect_failure(oct_dataset_read(ctx, data, NULL, 1, &form, narrow), OCTET_DATA, "out of range");
  form.dtype = OCT_U64;
  expect_failure(oct_dataset_read(ctx, data, NULL, 0, &form, wide), OCTET_DATA, "element 1 is -1");
  oct_dataset_close(data);
}

static void test_named(void **state) {
  (void)state;
  oct_dataset *data;
  oct_bundle b = {0};
  for (int i = 0; i < 2; i++) {
    oct_tensor *t;
    oct_shape shape = SHAPE(D(2), D(1));
    assert_int_equal(oct_tensor_create(ctx, OCT_I64, &shape, &t), OCTET_OK);
    ((int64_t *)t->data)[1] = 10 + i;
    assert_int_equal(oct_bundle_add(ctx, &b, i ? "mask" : "ids", t, NULL), OCTET_OK);
  }
  assert_int_equal(oct_npz_write(ctx, temporary("two.npz"), &b), OCTET_OK);
  data = open_data(path, NULL);
  assert_int_equal(oct_dataset_n_names(data), 2);
  assert_string_equal(oct_dataset_name(data, 1), "mask");
  assert_true(oct_dataset_has(data, "ids") && !oct_dataset_has(data, "other") && !oct_dataset_has(data, NULL));
  int64_t value;
  oct_sample_form form = {OCT_I64, false, SHAPE(D(1))};
  read_sample(data, "mask", 1, &form, &value);
  assert_int_equal(value, 11);
  expect_failure(oct_dataset_read(ctx, data, "other", 0, &form, &value), OCTET_DATA, "no array named \"other\"");
  expect_failure(oct_dataset_read(ctx, data, NULL, 0, &form, &value), OCTET_DATA, "several arrays");
  oct_dataset_close(data);
  b.items[0].tensor->shape.dim[0] = 1; /* one sample against two */
  b.items[0].tensor->bytes = 8;
  assert_int_equal(oct_npz_write(ctx, temporary("uneven.npz"), &b), OCTET_OK);
  expect_failure(oct_dataset_open(ctx, path, NULL, &data), OCTET_DATA, "array mask has 2 samples");
  oct_bundle_free(&b);
}

static void test_unusable(void **state) {
  (void)state;
  oct_dataset *data;
  expect_failure(oct_dataset_open(ctx, temporary("absent.npy"), NULL, &data), OCTET_IO, "absent.npy");
  expect_failure(oct_dataset_open(ctx, write_file("notes.txt", "hello", 5), NULL, &data), OCTET_FORMAT, "neither .npy");
  expect_failure(oct_dataset_open(ctx, write_array("none.npy", OCT_F32, SHAPE(D(0), D(2)), ""), NULL, &data), OCTET_DATA, "no samples");
  expect_failure(oct_dataset_open(ctx, data_path("npy/scalar.npy"), NULL, &data), OCTET_DATA, "no samples");
  assert_int_equal(mkdir(temporary("hollow"), 0700), 0);
  expect_failure(oct_dataset_open(ctx, path, NULL, &data), OCTET_DATA, "no PNG or JPEG");
  assert_null(data);
}

/* ---- folders ---- */

static void make_folder(void) {
  mkdir(temporary("pictures"), 0700);
  mkdir(temporary("pictures/dog"), 0700);
  mkdir(temporary("pictures/cat"), 0700);
  mkdir(temporary("pictures/empty"), 0700);
  copy_data("images/rgb.png", "pictures/dog/b.png");
  copy_data("images/rgb.jpg", "pictures/dog/a.JPG");
  copy_data("images/grey.png", "pictures/cat/z.png");
  copy_data("images/rgb.png", "pictures/cat/.hidden.png");
  write_file("pictures/cat/readme.txt", "text", 4);
}

static void test_folder(void **state) {
  (void)state;
  make_folder();
  oct_dataset *data = open_data(temporary("pictures"), NULL);
  static const char *const files[] = {"cat/z.png", "dog/a.JPG", "dog/b.png"};
  assert_int_equal(oct_dataset_count(data), 3);
  for (int i = 0; i < 3; i++) assert_string_equal(oct_dataset_file(data, i), files[i]);
  assert_int_equal(oct_dataset_n_classes(data), 2);
  assert_string_equal(oct_dataset_class_name(data, 1), "dog");
  oct_labels labels;
  assert_int_equal(oct_labels_from_folders(ctx, data, &labels), OCTET_OK);
  assert_true(labels.labelled == 3 && oct_labels_accept(&labels, 0, 0) && oct_labels_accept(&labels, 2, 1) &&
              !oct_labels_accept(&labels, 2, 0));
  oct_labels_free(&labels);
  oct_sample_form form = {OCT_F32, false, SHAPE(D(3), D(224), D(224))};
  float one;
  expect_failure(oct_dataset_read(ctx, data, NULL, 2, &form, &one), OCTET_SHAPE, "pictures/dog/b.png: the sample has shape [13,17,3]");
  assert_non_null(strstr(ctx->message, "resize="));
  write_file("pictures/dog/b.png", "\x89PNG\r\n\x1a\n", 8); /* damaged later: noticed when read */
  expect_failure(oct_dataset_read(ctx, data, NULL, 2, &form, &one), OCTET_FORMAT, "dog/b.png: damaged PNG");
  oct_dataset_close(data);
}

/* resize=8: 13 x 17 becomes 8 x int(8 * 17 / 13) = 10 as in torchvision; crop=8x6 then takes columns 2 to 7. */
static void test_picture_forms(void **state) {
  (void)state;
  mkdir(temporary("one"), 0700);
  copy_data("images/rgb.png", "one/a.png");
  oct_image image, small, part;
  assert_int_equal(oct_image_read(ctx, data_path("images/rgb.png"), &image), OCTET_OK);
  assert_int_equal(oct_image_resize(ctx, &image, 10, 8, &small), OCTET_OK);
  assert_int_equal(oct_image_crop(ctx, &small, 6, 8, &part), OCTET_OK);
  float first[3][8][6], last[8][6][3], grey[8][6];
  oct_dataset *data = open_data(temporary("one"), "resize=8 crop=8x6 color=bgr mean=1,2,3");
  oct_sample_form form = {OCT_F32, false, SHAPE(D(3), D(8), D(6))};
  read_sample(data, NULL, 0, &form, first);
  form = (oct_sample_form){OCT_F32, true, SHAPE(D(8), D(6), D(3))};
  read_sample(data, NULL, 0, &form, last);
  for (int y = 0; y < 8; y++)
    for (int x = 0; x < 6; x++)
      for (int c = 0; c < 3; c++) {
        float value = (float)part.pixels[(y * 6 + x) * 3 + 2 - c] - (float)(c + 1);
        assert_true(first[c][y][x] == value && last[y][x][c] == value);
      }
  oct_dataset_close(data);
  data = open_data(temporary("one"), "resize=8 crop=8x6");
  form = (oct_sample_form){OCT_F32, false, SHAPE(D(1), D(8), D(6))};
  read_sample(data, NULL, 0, &form, grey);
  for (int i = 0; i < 48; i++) { /* ITU-R 601, within its rounding */
    const uint8_t *p = part.pixels + 3 * i;
    assert_true(fabs(0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2] - (&grey[0][0])[i]) <= 0.51);
  }
  oct_dataset_close(data);
  data = open_data(temporary("one"), "crop=14");
  expect_failure(oct_dataset_read(ctx, data, NULL, 0, &form, grey), OCTET_SHAPE, "cannot be cropped");
  oct_dataset_close(data);
  oct_image_free(&image);
  oct_image_free(&small);
  oct_image_free(&part);
}

/* ---- labels ---- */

static void test_array_labels(void **state) {
  (void)state;
  static const float values[3];
  static const int64_t classes[] = {2, 0, 1};
  static const uint8_t idx[] = {0, 0, 8, 1, 0, 0, 0, 3, 9, 8, 7};
  oct_dataset *data = open_data(write_array("x.npy", OCT_F32, SHAPE(D(3), D(1)), values), NULL);
  oct_labels labels;
  assert_int_equal(oct_labels_read(ctx, write_array("y.npy", OCT_I64, SHAPE(D(3), D(1)), classes), data, &labels), OCTET_OK);
  assert_true(labels.count == 3 && labels.labelled == 3 && labels.classes[labels.start[0]] == 2 && labels.classes[labels.start[2]] == 1);
  oct_labels_free(&labels);
  assert_int_equal(oct_labels_read(ctx, write_file("y.idx", idx, sizeof idx), data, &labels), OCTET_OK);
  assert_true(oct_labels_accept(&labels, 1, 8));
  oct_labels_free(&labels);
  expect_failure(oct_labels_read(ctx, write_array("short.npy", OCT_I64, SHAPE(D(2)), classes), data, &labels), OCTET_SHAPE,
                 "for 3 samples");
  expect_failure(oct_labels_read(ctx, write_array("real.npy", OCT_F32, SHAPE(D(3)), values), data, &labels), OCTET_DATA, "integers");
  static const int64_t negative[] = {0, -1, 0};
  expect_failure(oct_labels_read(ctx, write_array("minus.npy", OCT_I64, SHAPE(D(3)), negative), data, &labels), OCTET_DATA, "sample 1");
  oct_dataset_close(data);
}

static void test_table_labels(void **state) {
  (void)state;
  make_folder();
  copy_data("images/rgb.png", "pictures/dog/b.png");
  oct_dataset *data = open_data(temporary("pictures"), NULL);
  oct_labels labels;
  static const char text[] = "file\tclasses\tnames\r\nb.png\t3,1\tx|y\r\ncat/z.png\t\t\r\nother.png\t5\n";
  assert_int_equal(oct_labels_read(ctx, write_file("l.tsv", text, sizeof text - 1), data, &labels), OCTET_OK);
  assert_true(labels.count == 3 && labels.labelled == 1);
  assert_true(labels.start[1] == 0 && labels.start[2] == 0 && labels.start[3] == 2);
  assert_true(oct_labels_accept(&labels, 2, 1) && oct_labels_accept(&labels, 2, 3) && !oct_labels_accept(&labels, 2, 5));
  assert_int_equal(ctx->n_warnings, 2); /* a sample without a row, a row without a sample */
  oct_warnings_clear(ctx);
  oct_labels_free(&labels);
  static const char *const bad[][2] = {
      {"file\tclass\nb.png\tcat\n", "line 2"}, {"b.png 3\n", "no tab"},    {"b.png\t1\nb.png\t2\n", "both label b.png"},
      {"b.png\t1,\n\n", "no sample"},          {"b.png\t\n", "no sample"}, {"a\t1\nb.png\t99999999999\n", "line 2"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const char *file = write_file("bad.tsv", bad[i][0], strlen(bad[i][0]));
    assert_int_not_equal(oct_labels_read(ctx, file, data, &labels), OCTET_OK);
    if (!strstr(ctx->message, bad[i][1])) fail_msg("the message lacks \"%s\": %s", bad[i][1], ctx->message);
  }
  oct_warnings_clear(ctx);
  oct_dataset_close(data);
}

static void test_photos(void **state) {
  (void)state;
  const char *photos = shared_path("data-photos"), *table = shared_path("data-photos/labels.tsv");
  if (!photos || !table) skip();
  oct_dataset *data = open_data(photos, "scale=1/255 resize=224 crop=224");
  oct_labels labels;
  assert_int_equal(oct_labels_read(ctx, table, data, &labels), OCTET_OK);
  assert_true(labels.count == 23 && labels.labelled == 17); /* as its README says */
  assert_string_equal(oct_dataset_file(data, 2), "cat_224.png");
  assert_true(oct_labels_accept(&labels, 2, 281) && oct_labels_accept(&labels, 2, 285) && !oct_labels_accept(&labels, 2, 283));
  oct_labels_free(&labels);
  float *values = malloc(3 * 224 * 224 * sizeof *values);
  oct_sample_form form = {OCT_F32, false, SHAPE(D(3), D(224), D(224))};
  for (int64_t i = 0; i < oct_dataset_count(data); i++) read_sample(data, NULL, i, &form, values);
  free(values);
  oct_dataset_close(data);
}

static void test_words(void **state) {
  (void)state;
  const char *features = shared_path("data-kws/mfcc_49x10_f32.npy"), *table = shared_path("data-kws/labels.tsv");
  if (!features || !table) skip();
  oct_dataset *data = open_data(features, NULL);
  oct_labels labels;
  assert_int_equal(oct_labels_read(ctx, table, data, &labels), OCTET_OK); /* rows in the order of the samples */
  assert_true(labels.labelled == 16 && oct_labels_accept(&labels, 3, 0) && oct_labels_accept(&labels, 15, 9));
  oct_labels_free(&labels);
  oct_dataset_close(data);
}

/* ---- drawing ---- */

/* splitmix64 started with 0 gives e220a8397b1dcdaf first (the published test vector). */
static void test_draw(void **state) {
  (void)state;
  int64_t drawn[1000], again[1000], total = 1000;
  bool seen[1000] = {false};
  assert_int_equal(oct_dataset_draw(ctx, 0, total, 1, drawn), OCTET_OK);
  assert_int_equal(drawn[0], (int64_t)(0xe220a8397b1dcdafu % 1000));
  assert_int_equal(oct_dataset_draw(ctx, 42, total, total, drawn), OCTET_OK);
  for (int i = 0; i < 1000; i++) {
    assert_true(drawn[i] >= 0 && drawn[i] < total && !seen[drawn[i]]);
    seen[drawn[i]] = true;
  }
  assert_int_equal(oct_dataset_draw(ctx, 42, total, 10, again), OCTET_OK); /* a shorter draw begins like a longer one */
  assert_memory_equal(drawn, again, 10 * sizeof *drawn);
  assert_int_equal(oct_dataset_draw(ctx, 43, total, 10, again), OCTET_OK);
  assert_memory_not_equal(drawn, again, 10 * sizeof *drawn);
  assert_int_equal(oct_dataset_draw(ctx, 1, total, 1001, drawn), OCTET_INVALID_ARGUMENT);
  assert_int_equal(oct_dataset_draw(ctx, 1, 0, 0, drawn), OCTET_OK);
}

/* Each of 5 indices is drawn first about equally often: chi-square with 4 degrees of freedom below its 0.9999 quantile. */
static void test_draw_is_even(void **state) {
  (void)state;
  double counts[5] = {0}, chi = 0;
  for (uint64_t seed = 0; seed < 5000; seed++) {
    int64_t index;
    assert_int_equal(oct_dataset_draw(ctx, seed, 5, 1, &index), OCTET_OK);
    counts[index]++;
  }
  for (int i = 0; i < 5; i++) chi += (counts[i] - 1000) * (counts[i] - 1000) / 1000;
  assert_true(chi < 23.5);
}

static void test_allocations(void **state) {
  (void)state;
  make_folder();
  copy_data("images/rgb.png", "pictures/dog/b.png");
  static const char text[] = "b.png\t3,1\nz.png\t0\na.JPG\t1\n";
  char table[512];
  snprintf(table, sizeof table, "%s", write_file("l.tsv", text, sizeof text - 1));
  const char *place = temporary("pictures");
  oct_preprocess p;
  assert_int_equal(oct_preprocess_parse(ctx, "resize=8 crop=8", &p), OCTET_OK);
  octet_status status = OCTET_OUT_OF_MEMORY;
  for (int64_t n = 0; status != OCTET_OK; n++) {
    float values[3 * 64];
    oct_dataset *data;
    oct_labels labels = {0};
    oct_sample_form form = {OCT_F32, false, SHAPE(D(3), D(8), D(8))};
    ctx->allocations_left = n;
    status = oct_dataset_open(ctx, place, &p, &data);
    if (status == OCTET_OK) status = oct_dataset_read(ctx, data, NULL, 0, &form, values);
    if (status == OCTET_OK) status = oct_labels_read(ctx, table, data, &labels);
    ctx->allocations_left = -1;
    assert_true(status == OCTET_OK || status == OCTET_OUT_OF_MEMORY);
    oct_labels_free(&labels);
    oct_dataset_close(data);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_preprocess_text), cmocka_unit_test(test_preprocess_table),
      cmocka_unit_test(test_idx_images),      cmocka_unit_test(test_layouts),
      cmocka_unit_test(test_channel_axis),    cmocka_unit_test(test_float_arrays),
      cmocka_unit_test(test_integers),        cmocka_unit_test(test_named),
      cmocka_unit_test(test_unusable),        cmocka_unit_test(test_folder),
      cmocka_unit_test(test_picture_forms),   cmocka_unit_test(test_array_labels),
      cmocka_unit_test(test_table_labels),    cmocka_unit_test(test_photos),
      cmocka_unit_test(test_words),           cmocka_unit_test(test_draw),
      cmocka_unit_test(test_draw_is_even),    cmocka_unit_test(test_allocations),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
