/* PNG and JPEG: pixels and resized pictures as Pillow gives them (scripts/make_container_cases.py), refused, damaged.
 * SPDX-License-Identifier: MIT */
#include "container_checks.h"

#include "formats/image.h"
#include "formats/npy.h"

static oct_image read_file(const char *name) {
  oct_image image;
  if (oct_image_read(ctx, data_path(name), &image) != OCTET_OK) fail_msg("%s", ctx->message);
  return image;
}

static void expect_pixels(const oct_image *image, const char *npy) {
  oct_tensor *t;
  if (oct_npy_read(ctx, data_path(npy), &t) != OCTET_OK) fail_msg("%s", ctx->message);
  oct_shape shape = oct_shape_of(3, (int64_t)image->height, (int64_t)image->width, (int64_t)3);
  assert_true(oct_shape_equal(&t->shape, &shape));
  for (size_t i = 0; i < t->bytes; i++)
    if (image->pixels[i] != ((uint8_t *)t->data)[i])
      fail_msg("%s: byte %zu is %d, not %d", npy, i, image->pixels[i], ((uint8_t *)t->data)[i]);
  oct_tensor_release(t);
}

static void test_decoded(void **state) {
  (void)state;
  static const char *const names[] = {"rgb.png",   "grey.png", "palette.png",     "bilevel.png",
                                      "alpha.png", "rgb.jpg",  "progressive.jpg", "grey.jpg"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char file[64], npy[64];
    snprintf(file, sizeof file, "images/%s", names[i]);
    snprintf(npy, sizeof npy, "images/%s.npy", names[i]);
    oct_image image = read_file(file);
    expect_pixels(&image, npy);
    oct_image_free(&image);
  }
}

/* 16 bits become 8 by value * 255 / 65535, rounded: 257 is 1, 32767 is 127.498, 300 is 1.17. */
static void test_deep(void **state) {
  (void)state;
  static const uint8_t grey[] = {0, 1, 255, 128, 127, 1};
  oct_image image = read_file("images/deep.png");
  assert_true(image.width == 3 && image.height == 2);
  for (int i = 0; i < 18; i++) assert_int_equal(image.pixels[i], grey[i / 3]);
  oct_image_free(&image);
}

static void test_resized(void **state) {
  (void)state;
  static const int sizes[][2] = {{5, 7}, {29, 40}, {13, 8}, {1, 1}};
  oct_image image = read_file("images/rgb.png"), made;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char npy[64];
    snprintf(npy, sizeof npy, "images/resized_%dx%d.npy", sizes[i][0], sizes[i][1]);
    assert_int_equal(oct_image_resize(ctx, &image, sizes[i][1], sizes[i][0], &made), OCTET_OK);
    expect_pixels(&made, npy);
    oct_image_free(&made);
  }
  assert_int_equal(oct_image_resize(ctx, &image, image.width, image.height, &made), OCTET_OK);
  expect_pixels(&made, "images/rgb.png.npy");
  oct_image_free(&made);
  assert_int_equal(oct_image_resize(ctx, &image, 0, 3, &made), OCTET_INVALID_ARGUMENT);
  assert_int_equal(oct_image_resize(ctx, &image, 20000, 3, &made), OCTET_UNSUPPORTED);
  oct_image_free(&image);
}

/* torchvision's CenterCrop: int(round((17 - 10) / 2)) = round(3.5) = 4; round((13 - 4) / 2) = round(4.5) = 4. */
static void test_cropped(void **state) {
  (void)state;
  oct_image image = read_file("images/rgb.png"), made;
  assert_int_equal(oct_image_crop(ctx, &image, 10, 4, &made), OCTET_OK);
  assert_true(made.width == 10 && made.height == 4);
  for (int y = 0; y < 4; y++) assert_memory_equal(made.pixels + 30 * y, image.pixels + ((4 + y) * 17 + 4) * 3, 30);
  oct_image_free(&made);
  assert_int_equal(oct_image_crop(ctx, &image, 18, 4, &made), OCTET_SHAPE);
  oct_image_free(&image);
}

static void expect_error(const void *bytes, size_t size, const char *words) {
  oct_image image;
  assert_int_not_equal(oct_image_read_bytes(ctx, (oct_bytes){bytes, size}, "a picture", &image), OCTET_OK);
  assert_null(image.pixels);
  if (!strstr(ctx->message, words) || !strstr(ctx->message, "a picture")) fail_msg("the message lacks \"%s\": %s", words, ctx->message);
}

static void test_refused(void **state) {
  (void)state;
  oct_image image;
  expect_error("", 0, "neither a PNG nor a JPEG");
  expect_error("\x89PNG\r\n\x1a\n", 8, "cut off");
  expect_error("\xff\xd8\xff", 3, "damaged JPEG");
  assert_int_equal(oct_image_read(ctx, data_path("images/bad_cmyk.jpg"), &image), OCTET_FORMAT);
  assert_non_null(strstr(ctx->message, "bad_cmyk.jpg: damaged JPEG"));
  oct_file *file;
  assert_int_equal(oct_file_open(ctx, data_path("images/rgb.png"), &file), OCTET_OK);
  uint8_t wide[8192];
  size_t size = oct_file_bytes(file).size;
  assert_true(size < sizeof wide);
  memcpy(wide, oct_file_bytes(file).data, size);
  memcpy(wide + 16, "\0\0\x40\x01", 4); /* 16385 wide; the check sum of the header no longer fits either */
  expect_error(wide, size, "damaged PNG");
  oct_file_close(file);
}

static octet_status read_bytes(octet_context *context, oct_bytes bytes) {
  oct_image image;
  octet_status status = oct_image_read_bytes(context, bytes, "damaged", &image);
  oct_image_free(&image);
  return status;
}

static void test_damaged(void **state) {
  (void)state;
  check_damaged(ctx, data_path("images/palette.png"), read_bytes);
  check_damaged(ctx, data_path("images/rgb.jpg"), read_bytes);
  check_damaged(ctx, data_path("images/progressive.jpg"), read_bytes);
}

/* Every cut of a JPEG's picture data is noticed: half a picture is not the picture. */
static void test_cut_jpeg(void **state) {
  (void)state;
  oct_file *file;
  assert_int_equal(oct_file_open(ctx, data_path("images/rgb.jpg"), &file), OCTET_OK);
  for (size_t cut = 1; cut < oct_file_bytes(file).size - 2; cut++)
    assert_int_equal(read_bytes(ctx, (oct_bytes){oct_file_bytes(file).data, oct_file_bytes(file).size - 2 - cut}), OCTET_FORMAT);
  oct_file_close(file);
}

static void test_allocations(void **state) {
  (void)state;
  check_allocations(ctx, data_path("images/alpha.png"), read_bytes);
  check_allocations(ctx, data_path("images/grey.jpg"), read_bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_decoded), cmocka_unit_test(test_deep),    cmocka_unit_test(test_resized),  cmocka_unit_test(test_cropped),
      cmocka_unit_test(test_refused), cmocka_unit_test(test_damaged), cmocka_unit_test(test_cut_jpeg), cmocka_unit_test(test_allocations),
  };
  return cmocka_run_group_tests(tests, context_create, context_destroy);
}
