/* The picture of a sweep: SVG that needs nothing else to be read. */
#include <math.h>
#include <string.h>

#include "sweep.h"
#include "sweep_ticks.h"
#include "wilson.h"

enum { LEFT = 110, TOP = 92, RIGHT = 150, BOTTOM = 84, PLOT_WIDTH = 640, PLOT_HEIGHT = 400 };

static double ratio_of(const df_estimate *cell) {
  return (double)cell->deadlocks / (double)cell->rounds;
}

/* From pale to dark, readable in grey too; t from 0 to 1. */
static void colour_at(double t, int rgb[3]) {
  static const int stops[5][3] = {
      {255, 247, 220}, {253, 200, 110}, {240, 120, 50}, {180, 35, 45}, {80, 5, 60}};
  double place = fmin(fmax(t, 0.0), 1.0) * 4.0;
  int stop = place >= 4.0 ? 3 : (int)place;
  for (int i = 0; i < 3; i++)
    rgb[i] = (int)lround(stops[stop][i] + (place - stop) * (stops[stop + 1][i] - stops[stop][i]));
}

/* The colour scale: logarithmic from the smallest ratio that can be distinguished from zero to the
 * largest. */
typedef struct {
  double low, high;
} scale;

static scale scale_of(const df_sweep *sweep) {
  scale found = {1.0, 0.0};
  for (uint32_t s = 0; s < sweep->sync.points; s++)
    for (uint32_t d = 0; d < sweep->disorder.points; d++) {
      double ratio = ratio_of(df_sweep_cell(sweep, d, s));
      if (ratio > 0.0) found.low = fmin(found.low, ratio);
      found.high = fmax(found.high, ratio);
    }
  if (found.high <= 0.0) return (scale){1e-4, 1.0}; /* nothing deadlocked */
  found.low = pow(10.0, floor(log10(found.low) + 1e-9));
  found.high = fmin(1.0, pow(10.0, ceil(log10(found.high) - 1e-9)));
  if (found.low >= found.high) found.low = found.high / 10.0;
  return found;
}

static double place_in(scale range, double ratio) {
  return log(ratio / range.low) / log(range.high / range.low);
}

static const char *percent_text(double ratio, char text[DF_TICK_TEXT_BYTES]) {
  if (ratio < 0.9995) return df_tick_text(100.0 * ratio, text);
  return strcpy(text, "100");
}

/* The largest ratio that so many rounds without a deadlock leave likely. */
static double bound_of(const df_estimate *cell) { return df_wilson95(0, cell->rounds).high; }

/* Writes the count: "2.5% (5 of 200)"; "0 of 200, below 1.88%" (95%). */
static void write_count(FILE *stream, const df_estimate *cell) {
  char text[DF_TICK_TEXT_BYTES];
  unsigned long long hits = cell->deadlocks, rounds = cell->rounds;
  if (hits > 0)
    fprintf(stream, "%s%% (%llu of %llu)", percent_text(ratio_of(cell), text), hits, rounds);
  else
    fprintf(stream, "0 of %llu, below %s%%", rounds, percent_text(bound_of(cell), text));
}

static void write_head(const df_sweep *sweep, FILE *stream, const char *question) {
  int width = LEFT + PLOT_WIDTH + RIGHT, height = TOP + PLOT_HEIGHT + BOTTOM;
  fprintf(stream,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
          "viewBox=\"0 0 %d %d\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" "
          "fill=\"#222\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
          width, height, width, height);
  fprintf(stream, "<text x=\"%d\" y=\"32\" font-size=\"18\" font-weight=\"bold\">%s</text>\n", LEFT,
          question);
  fprintf(stream,
          "<text x=\"%d\" y=\"54\" fill=\"#555\">%s model, %u GPUs in %u groups, %llu collectives, "
          "%s order</text>\n",
          LEFT, sweep->config->model == DF_MODEL_SINGLE ? "single-queue" : "synchronisation",
          sweep->gpus, sweep->groups, (unsigned long long)sweep->collectives,
          df_order_names[sweep->config->order]);
  fprintf(stream, "<text x=\"%d\" y=\"72\" fill=\"#555\">%llu rounds %s, seed %llu", LEFT,
          (unsigned long long)sweep->config->rounds,
          sweep->disorder.points > 1 && sweep->sync.points > 1 ? "a cell" : "a point",
          (unsigned long long)sweep->config->seed);
  if (sweep->config->model == DF_MODEL_SYNC && sweep->sync.points == 1)
    fprintf(stream, "; synchronisation probability %g", df_sweep_value(&sweep->sync, 0));
  if (sweep->disorder.points == 1)
    fprintf(stream, "; disorder probability %g", df_sweep_value(&sweep->disorder, 0));
  fputs("</text>\n", stream);
}

static void write_x_title(FILE *stream, const char *title, bool logarithmic) {
  fprintf(stream,
          "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-weight=\"bold\">%s%s</text>\n",
          LEFT + PLOT_WIDTH / 2, TOP + PLOT_HEIGHT + 58, title, logarithmic ? " (log scale)" : "");
}

static void write_y_title(FILE *stream, const char *title, bool logarithmic) {
  fprintf(stream,
          "<text transform=\"translate(28 %d) rotate(-90)\" text-anchor=\"middle\" "
          "font-weight=\"bold\">%s%s</text>\n",
          TOP + PLOT_HEIGHT / 2, title, logarithmic ? " (log scale)" : "");
}

static const char disorder_title[] = "disorder probability, for each collective";
static const char sync_title[] = "synchronisation probability, for each event";

/* The marks below the plot; a map's cells keep their middles half a cell from its ends. */
static void write_x_ticks(FILE *stream, const df_sweep_axis *axis, double margin) {
  df_tick ticks[DF_MAX_TICKS];
  char text[DF_TICK_TEXT_BYTES];
  double length = PLOT_WIDTH - 2 * margin, bottom = TOP + PLOT_HEIGHT;
  int count = df_ticks(axis->first, axis->last, axis->logarithmic, 46.0 / length, ticks);
  for (int i = 0; i < count; i++) {
    double x = LEFT + margin + ticks[i].place * length;
    fprintf(stream, "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\" stroke=\"#777\"/>\n", x,
            bottom, x, bottom + (ticks[i].labelled ? 6 : 3));
    if (ticks[i].labelled)
      fprintf(stream, "<text class=\"x\" x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\">%s</text>\n",
              x, bottom + 21, df_tick_text(ticks[i].value, text));
  }
}

static void write_y_label(FILE *stream, double y, const char *text, const char *unit) {
  fprintf(stream, "<text class=\"y\" x=\"%d\" y=\"%.2f\" text-anchor=\"end\">%s%s</text>\n",
          LEFT - 9, y + 4, text, unit);
}

static void write_y_tick(FILE *stream, double y, bool labelled) {
  fprintf(stream, "<line x1=\"%d\" y1=\"%.2f\" x2=\"%d\" y2=\"%.2f\" stroke=\"#777\"/>\n",
          LEFT - (labelled ? 6 : 3), y, LEFT, y);
}

/* Two digits are all that a cell has room for. */
static void write_in_cell(FILE *stream, const df_estimate *cell) {
  double percent = 100.0 * (cell->deadlocks > 0 ? ratio_of(cell) : bound_of(cell));
  if (cell->deadlocks == 0) fputs("&lt;", stream);
  if (percent >= 99.5)
    fputs("100%", stream);
  else if (percent >= 9.95)
    fprintf(stream, "%.0f%%", percent);
  else
    fprintf(stream, "%.2g%%", percent);
}

static void write_cells(const df_sweep *sweep, FILE *stream, scale range) {
  double width = (double)PLOT_WIDTH / sweep->disorder.points;
  double height = (double)PLOT_HEIGHT / sweep->sync.points;
  double font = fmin(13.0, fmin(width / 5.4, height / 1.4));
  for (uint32_t s = 0; s < sweep->sync.points; s++)
    for (uint32_t d = 0; d < sweep->disorder.points; d++) {
      const df_estimate *cell = df_sweep_cell(sweep, d, s);
      double ratio = ratio_of(cell);
      double x = LEFT + d * width, y = TOP + PLOT_HEIGHT - (s + 1) * height;
      int rgb[3] = {238, 238, 238}; /* none seen */
      if (ratio > 0.0) colour_at(place_in(range, ratio), rgb);
      fprintf(stream,
              "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"rgb(%d,%d,%d)\" "
              "stroke=\"white\" stroke-width=\"%s\"><title>disorder %.4g, synchronisation %.4g: ",
              x, y, width, height, rgb[0], rgb[1], rgb[2], font >= 6.0 ? "1" : "0",
              df_sweep_value(&sweep->disorder, d), df_sweep_value(&sweep->sync, s));
      write_count(stream, cell);
      fputs("</title></rect>\n", stream);
      if (font < 6.0) continue;
      fprintf(stream,
              "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\" font-size=\"%.1f\" fill=\"%s\">",
              x + width / 2, y + height / 2 + font * 0.35, font,
              ratio > 0.0 && place_in(range, ratio) > 0.5 ? "white" : "#222");
      write_in_cell(stream, cell);
      fputs("</text>\n", stream);
    }
}

static void write_map_ticks(const df_sweep *sweep, FILE *stream) {
  df_tick ticks[DF_MAX_TICKS];
  char text[DF_TICK_TEXT_BYTES];
  const df_sweep_axis *axis = &sweep->sync;
  double margin = PLOT_HEIGHT / 2.0 / axis->points, length = PLOT_HEIGHT - 2 * margin;
  int count = df_ticks(axis->first, axis->last, axis->logarithmic, 18.0 / length, ticks);
  write_x_ticks(stream, &sweep->disorder, PLOT_WIDTH / 2.0 / sweep->disorder.points);
  for (int i = 0; i < count; i++) {
    double y = TOP + PLOT_HEIGHT - margin - ticks[i].place * length;
    write_y_tick(stream, y, ticks[i].labelled);
    if (ticks[i].labelled) write_y_label(stream, y, df_tick_text(ticks[i].value, text), "");
  }
}

/* Writes the result of a cell without a deadlock, in three lines: all cells have the same
 * rounds. */
static void write_none_seen(FILE *stream, const df_estimate *cell, int x, int y) {
  char text[DF_TICK_TEXT_BYTES];
  fprintf(
      stream,
      "<text x=\"%d\" y=\"%d\">none seen</text>\n<text x=\"%d\" y=\"%d\" fill=\"#555\">0 of %llu:"
      "</text>\n<text x=\"%d\" y=\"%d\" fill=\"#555\">below %s%%</text>\n",
      x, y, x, y + 17, (unsigned long long)cell->rounds, x, y + 34,
      percent_text(bound_of(cell), text));
}

static void write_legend(const df_sweep *sweep, FILE *stream, scale range) {
  enum { STEPS = 64, X = LEFT + PLOT_WIDTH + 24, WIDTH = 18, HEIGHT = 300 };
  char text[DF_TICK_TEXT_BYTES];
  fprintf(stream, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">deadlocks</text>\n", X, TOP + 10);
  int top = TOP + 28;
  for (int i = 0; i < STEPS; i++) {
    int rgb[3];
    colour_at((i + 0.5) / STEPS, rgb);
    fprintf(stream,
            "<rect x=\"%d\" y=\"%.2f\" width=\"%d\" height=\"%.2f\" fill=\"rgb(%d,%d,%d)\"/>\n", X,
            top + HEIGHT - (i + 1) * (double)HEIGHT / STEPS, WIDTH, (double)HEIGHT / STEPS + 0.5,
            rgb[0], rgb[1], rgb[2]);
  }
  for (double ratio = range.low; ratio <= range.high * 1.001; ratio *= 10.0)
    fprintf(stream, "<text x=\"%d\" y=\"%.2f\">%s%%</text>\n", X + WIDTH + 8,
            top + HEIGHT * (1.0 - place_in(range, ratio)) + 4, percent_text(ratio, text));
  fprintf(stream,
          "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"14\" fill=\"#eee\" stroke=\"#bbb\"/>\n", X,
          top + HEIGHT + 22, WIDTH);
  write_none_seen(stream, &sweep->cell[0], X + WIDTH + 8, top + HEIGHT + 33);
}

/* ---- one probability: a curve ---- */

/* The vertical axis: logarithmic if a linear one would draw the small ratios as a flat line. */
typedef struct {
  double low, high;
  bool logarithmic;
} risk_axis;

static risk_axis risk_axis_of(const df_sweep *sweep, uint32_t points) {
  double highest = 0.0, lowest = 1.0, smallest = 1.0, largest = 0.0;
  for (uint32_t i = 0; i < points; i++) {
    const df_estimate *cell = &sweep->cell[i];
    df_interval ci = df_wilson95(cell->deadlocks, cell->rounds);
    double least = cell->deadlocks > 0 ? ci.low : ci.high / 3.0;
    double drawn = cell->deadlocks > 0 ? ratio_of(cell) : ci.high;
    highest = fmax(highest, ci.high);
    lowest = fmin(lowest, least);
    smallest = fmin(smallest, drawn);
    largest = fmax(largest, drawn);
  }
  if (largest > 5.0 * smallest)
    return (risk_axis){pow(10.0, floor(log10(lowest))),
                       fmin(1.0, pow(10.0, ceil(log10(highest) - 1e-9))), true};
  double unit = pow(10.0, floor(log10(highest)));
  double steps[] = {1, 2, 5, 10};
  for (int i = 0; i < 4; i++)
    if (steps[i] * unit >= highest) return (risk_axis){0.0, fmin(1.0, steps[i] * unit), false};
  return (risk_axis){0.0, 1.0, false};
}

static double height_of(const risk_axis *risk, double ratio) {
  double place = risk->logarithmic && ratio <= risk->low
                     ? 0.0
                     : df_place_on_axis(risk->low, risk->high, risk->logarithmic, ratio);
  return TOP + PLOT_HEIGHT * (1.0 - place);
}

static void write_risk_axis(FILE *stream, const risk_axis *risk) {
  df_tick ticks[DF_MAX_TICKS];
  char text[DF_TICK_TEXT_BYTES];
  int count = df_ticks(risk->low, risk->high, risk->logarithmic, 0.06, ticks);
  for (int i = 0; i < count; i++) {
    double y = height_of(risk, ticks[i].value);
    fprintf(stream, "<line x1=\"%d\" y1=\"%.2f\" x2=\"%d\" y2=\"%.2f\" stroke=\"%s\"/>\n", LEFT, y,
            LEFT + PLOT_WIDTH, y, ticks[i].labelled ? "#ddd" : "#f2f2f2");
    write_y_tick(stream, y, ticks[i].labelled);
    if (ticks[i].labelled) write_y_label(stream, y, percent_text(ticks[i].value, text), "%");
  }
}

static double x_of(const df_sweep_axis *axis, uint32_t point) {
  return LEFT + PLOT_WIDTH * df_place_on_axis(axis->first, axis->last, axis->logarithmic,
                                              df_sweep_value(axis, point));
}

/* Lines between neighbours that deadlocked; nothing is known of a curve below a bound. */
static void write_lines(const df_sweep *sweep, FILE *stream, const df_sweep_axis *axis,
                        const risk_axis *risk) {
  for (uint32_t i = 0; i < axis->points; i++) {
    if (sweep->cell[i].deadlocks == 0) continue;
    if (i == 0 || sweep->cell[i - 1].deadlocks == 0)
      fputs("<polyline fill=\"none\" stroke=\"#b4232d\" stroke-width=\"2\" points=\"", stream);
    fprintf(stream, "%.2f,%.2f ", x_of(axis, i), height_of(risk, ratio_of(&sweep->cell[i])));
    if (i + 1 == axis->points || sweep->cell[i + 1].deadlocks == 0) fputs("\"/>\n", stream);
  }
}

/* A point with its interval; or, of none seen, the bound: a mark that points down from it. */
static void write_point(FILE *stream, const df_estimate *cell, double value, double x,
                        const risk_axis *risk) {
  df_interval ci = df_wilson95(cell->deadlocks, cell->rounds);
  double top = height_of(risk, ci.high), bottom = height_of(risk, ci.low);
  fprintf(stream, "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\" stroke=\"#555\"%s/>\n", x,
          top, x, bottom, cell->deadlocks > 0 ? "" : " stroke-dasharray=\"2 3\"");
  if (cell->deadlocks > 0)
    fprintf(stream, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"4\" fill=\"#b4232d\">", x,
            height_of(risk, ratio_of(cell)));
  else
    fprintf(stream,
            "<path class=\"none\" d=\"M%.2f %.2fh10l-5 8z\" fill=\"white\" stroke=\"#b4232d\">",
            x - 5, top);
  fprintf(stream, "<title>%.4g: ", value);
  write_count(stream, cell);
  fprintf(stream, "</title></%s>\n", cell->deadlocks > 0 ? "circle" : "path");
}

static void write_curve_legend(const df_sweep *sweep, FILE *stream, uint32_t points) {
  int x = LEFT + PLOT_WIDTH + 22, y = TOP + 66;
  fprintf(stream,
          "<circle cx=\"%d\" cy=\"%d\" r=\"4\" fill=\"#b4232d\"/><text x=\"%d\" y=\"%d\">deadlock "
          "ratio</text>\n<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#555\"/>"
          "<text x=\"%d\" y=\"%d\">95%% interval</text>\n",
          x, TOP + 10, x + 12, TOP + 14, x, TOP + 26, x, TOP + 42, x + 12, TOP + 38);
  for (uint32_t i = 0; i < points; i++) {
    if (sweep->cell[i].deadlocks > 0) continue;
    fprintf(stream, "<path d=\"M%d %dh10l-5 8z\" fill=\"white\" stroke=\"#b4232d\"/>\n", x - 5,
            y - 8);
    write_none_seen(stream, &sweep->cell[i], x + 12, y);
    return;
  }
}

static void write_curve(const df_sweep *sweep, FILE *stream) {
  const df_sweep_axis *axis = sweep->disorder.points > 1 ? &sweep->disorder : &sweep->sync;
  risk_axis risk = risk_axis_of(sweep, axis->points);
  write_risk_axis(stream, &risk);
  write_x_ticks(stream, axis, 0);
  write_lines(sweep, stream, axis, &risk);
  for (uint32_t i = 0; i < axis->points; i++)
    write_point(stream, &sweep->cell[i], df_sweep_value(axis, i), x_of(axis, i), &risk);
  write_curve_legend(sweep, stream, axis->points);
  write_x_title(stream, axis == &sweep->disorder ? disorder_title : sync_title, axis->logarithmic);
  write_y_title(stream, "rounds that deadlock, in %", risk.logarithmic);
}

void df_sweep_write_svg(const df_sweep *sweep, FILE *stream) {
  write_head(sweep, stream, "How often does the job deadlock?");
  if (sweep->disorder.points > 1 && sweep->sync.points > 1) {
    scale range = scale_of(sweep);
    write_cells(sweep, stream, range);
    write_map_ticks(sweep, stream);
    write_x_title(stream, disorder_title, sweep->disorder.logarithmic);
    write_y_title(stream, sync_title, sweep->sync.logarithmic);
    write_legend(sweep, stream, range);
  } else {
    write_curve(sweep, stream);
  }
  fputs("</svg>\n", stream);
}
