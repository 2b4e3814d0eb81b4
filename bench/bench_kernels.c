/* Speed of every 8-bit convolution variant on the layers of ResNet18, of depthwise networks and of the MNIST network.
 * One thread. Usage: bench_kernels [part of a layer's name [part of a variant's name [batch]]]. The best of some short runs, per image, and
 * its GMAC/s.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/kernels.h"

typedef struct layer {
  const char *name;
  int size, channels, out_channels, kernel, stride, pad, groups;
} layer;

static const layer layers[] = {
    {"resnet18 7x7s2 3-64@224", 224, 3, 64, 7, 2, 3, 1},    {"resnet18 3x3 64@56", 56, 64, 64, 3, 1, 1, 1},
    {"resnet18 3x3s2 64-128", 56, 64, 128, 3, 2, 1, 1},     {"resnet18 1x1s2 64-128", 56, 64, 128, 1, 2, 0, 1},
    {"resnet18 3x3 128@28", 28, 128, 128, 3, 1, 1, 1},      {"resnet18 3x3 256@14", 14, 256, 256, 3, 1, 1, 1},
    {"resnet18 3x3 512@7", 7, 512, 512, 3, 1, 1, 1},        {"resnet18 1x1s2 256-512", 14, 256, 512, 1, 2, 0, 1},
    {"resnet18 fc 512-1000", 1, 512, 1000, 1, 1, 0, 1},     {"resnet20 3x3 16@32", 32, 16, 16, 3, 1, 1, 1},
    {"resnet20 3x3 32@16", 16, 32, 32, 3, 1, 1, 1},         {"mobile 3x3s2 3-32@224", 224, 3, 32, 3, 2, 1, 1},
    {"mobile 1x1 32-16@112", 112, 32, 16, 1, 1, 0, 1},      {"mobile 1x1 16-96@112", 112, 16, 96, 1, 1, 0, 1},
    {"mobile 1x1 96-24@56", 56, 96, 24, 1, 1, 0, 1},        {"mobile 1x1 24-144@56", 56, 24, 144, 1, 1, 0, 1},
    {"mobile 1x1 112-672@14", 14, 112, 672, 1, 1, 0, 1},    {"mobile 1x1 240-80@14", 14, 240, 80, 1, 1, 0, 1},
    {"mobile 1x1 672-192@7", 7, 672, 192, 1, 1, 0, 1},      {"mobile dw 3x3 32@112", 112, 32, 32, 3, 1, 1, 32},
    {"mobile dw 3x3s2 96@112", 112, 96, 96, 3, 2, 1, 96},   {"mobile dw 3x3s2 240@28", 28, 240, 240, 3, 2, 1, 240},
    {"mobile dw 5x5s2 144@56", 56, 144, 144, 5, 2, 2, 144}, {"mobile dw 3x3 144@56", 56, 144, 144, 3, 1, 1, 144},
    {"mobile dw 5x5 240@28", 28, 240, 240, 5, 1, 2, 240},   {"mobile dw 5x5 672@14", 14, 672, 672, 5, 1, 2, 672},
    {"mobile dw 3x3 512@14", 14, 512, 512, 3, 1, 1, 512},   {"face dw 3x3 16@120", 120, 16, 16, 3, 1, 1, 16},
    {"face dw 3x3s2 32@120", 120, 32, 32, 3, 2, 1, 32},     {"face 1x1 16-32@120", 120, 16, 32, 1, 1, 0, 1},
    {"mnist 3x3s2 1-8@28", 28, 1, 8, 3, 2, 2, 1},           {"mnist 2x2 8-16@12", 12, 8, 16, 2, 1, 0, 1},
    {"mnist 2x2 16-32@10", 10, 16, 32, 2, 1, 0, 1},         {"mnist fc 32-10", 1, 32, 10, 1, 1, 0, 1},
    {"grouped 3x3 128@28 g32", 28, 128, 128, 3, 1, 1, 32},
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *buffer(size_t bytes) {
  void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
  if (!p) exit(1);
  for (size_t i = 0; i < bytes; i++) ((uint8_t *)p)[i] = (uint8_t)(i * 2654435761u >> 13);
  return p;
}

static void measure(const layer *l, const oct_conv_i8_kernel *k, int batch) {
  int out = (l->size + 2 * l->pad - l->kernel) / l->stride + 1;
  oct_conv_i8_args a = {.shape = {.batch = batch,
                                  .in_h = l->size,
                                  .in_w = l->size,
                                  .channels = l->channels,
                                  .out_h = out,
                                  .out_w = out,
                                  .out_channels = l->out_channels,
                                  .kernel_h = l->kernel,
                                  .kernel_w = l->kernel,
                                  .stride_h = l->stride,
                                  .stride_w = l->stride,
                                  .dilation_h = 1,
                                  .dilation_w = 1,
                                  .pad_top = l->pad,
                                  .pad_left = l->pad,
                                  .groups = l->groups}};
  const oct_conv_shape *s = &a.shape;
  if (k->reject && k->reject(s)) return;
  ptrdiff_t row = (ptrdiff_t)(l->size + 2 * l->pad) * l->channels, image = row * (l->size + 2 * l->pad);
  size_t weights_bytes = (size_t)l->out_channels * (size_t)(l->channels / l->groups * l->kernel * l->kernel),
         padded = (size_t)(l->out_channels + 63) / 64 * 64;
  uint8_t *in = buffer((size_t)(batch * image) + OCT_OVERREAD), *output = buffer((size_t)(batch * out * out * l->out_channels));
  int8_t *weights = buffer(weights_bytes);
  int32_t *bias = calloc(padded, 4);
  float *multiplier = calloc(padded, 4);
  void *packed = buffer(k->packed_bytes(s)), *workspace = k->workspace_bytes ? buffer(k->workspace_bytes(s)) : NULL;
  if (!bias || !multiplier) exit(1);
  for (int c = 0; c < l->out_channels; c++) multiplier[c] = 1e-4f;
  k->pack(s, weights, packed);
  a.in = (oct_view){in + l->pad * (row + l->channels), image, row, l->channels};
  a.out = (oct_view){output, out * out * l->out_channels, out * l->out_channels, l->out_channels};
  a.packed = packed;
  a.epilogue = (oct_epilogue_i8){.out = OCT_EPILOGUE_U8, .bias = bias, .multiplier = multiplier, .zero_point = 128, .low = 0, .high = 255};
  size_t units = k->units(s);
  double macs = (double)out * out * (double)weights_bytes, best = 1e9, start = now();
  int repeat = macs < 3e6 && k->isa != OCT_ISA_SCALAR ? 50 : 1;
  for (int i = 0; i < 200 && (i < 3 || now() - start < 0.05); i++) {
    double t = now();
    for (int r = 0; r < repeat; r++) k->run(&a, 0, units, workspace);
    t = (now() - t) / repeat / batch;
    if (t < best) best = t;
  }
  printf("%-26s %-38s %10.3f us %8.2f GMAC/s\n", l->name, k->name, best * 1e6, macs / best * 1e-9);
  free(in), free(output), free(weights), free(bias), free(multiplier), free(packed), free(workspace);
}

int main(int argc, char **argv) {
  uint32_t isa = oct_isa_detect();
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    if (argc > 1 && !strstr(layers[i].name, argv[1])) continue;
    for (const oct_conv_i8_kernel *const *k = oct_conv_i8_kernels; *k; k++) {
      if ((*k)->isa != OCT_ISA_SCALAR && !oct_isa_allowed(isa, (*k)->isa)) continue;
      if (argc > 2 && !strstr((*k)->name, argv[2])) continue;
      measure(&layers[i], *k, argc > 3 && atoi(argv[3]) > 0 ? atoi(argv[3]) : 1);
    }
  }
  return 0;
}
