/* How fast each layer is in float and quantized: the table that compare and quantize show.
 * SPDX-License-Identifier: MIT */
#include "cli.h"

json_t *cli_speed_json(const octet_speed *speed) {
  json_t *layers = json_array(), *slower = json_array();
  for (size_t i = 0; i < octet_speed_layer_count(speed); i++) {
    octet_layer_speed l = octet_speed_layer(speed, i);
    json_array_append_new(layers, cli_json("sssffb", "name", l.name, "op", l.op, "type", l.type, "reference_ms", l.reference_ms,
                                           "quantized_ms", l.quantized_ms, "slower", l.slower));
    if (l.slower) json_array_append_new(slower, cli_json_text(l.name));
  }
  return cli_json("ffoo", "reference_ms", octet_speed_reference_ms(speed), "quantized_ms", octet_speed_quantized_ms(speed), "layers",
                  layers, "slower", slower);
}

void cli_speed_print(const octet_speed *speed) {
  cli_table table = cli_table_make("lllrrrl");
  cli_table_row(&table, (const char *[]){"layer", "operator", "type", "float us", "quantized us", "ratio", ""});
  size_t slower = 0;
  for (size_t i = 0; i < octet_speed_layer_count(speed); i++) {
    octet_layer_speed l = octet_speed_layer(speed, i);
    char a[32], b[32], ratio[32] = "";
    snprintf(a, sizeof a, "%.2f", 1e3 * l.reference_ms);
    snprintf(b, sizeof b, "%.2f", 1e3 * l.quantized_ms);
    if (l.reference_ms > 0) snprintf(ratio, sizeof ratio, "%.2f", l.quantized_ms / l.reference_ms);
    cli_table_row(&table, (const char *[]){l.name, l.op, l.type, a, b, ratio, l.slower ? "slower than float" : ""});
    slower += l.slower;
  }
  cli_table_print(&table, stdout);
  double before = octet_speed_reference_ms(speed), after = octet_speed_quantized_ms(speed);
  printf("all steps: float %.4f ms, quantized %.4f ms (%.2f times as fast); %zu layer%s slower than in float\n", before, after,
         after > 0 ? before / after : 0, slower, slower == 1 ? " is" : "s are");
}
