/* The picture of a sweep: SVG that needs nothing else to be read. */
#include <math.h>

#include "sweep.h"
#include "wilson.h"

enum { LEFT = 110, TOP = 92, RIGHT = 130, BOTTOM = 84, PLOT_WIDTH = 640, PLOT_HEIGHT = 400 };

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

/* The colour scale: logarithmic from the smallest ratio that can be told from none to the largest.
 */
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

static void write_percent(FILE *stream, double ratio) {
  double percent = 100.0 * ratio;
  if (percent == 0.0)
    fputs("0", stream);
  else if (percent >= 99.95)
    fputs("100%", stream);
  else if (percent >= 1.0)
    fprintf(stream, "%.1f%%", percent);
  else
    fprintf(stream, "%.2g%%", percent);
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

/* Every how many points an axis of that length has room for a label. */
static uint32_t label_step(uint32_t points, uint32_t room) {
  return points <= room ? 1 : (points + room - 1) / room;
}

static void write_cells(const df_sweep *sweep, FILE *stream, scale range) {
  double width = (double)PLOT_WIDTH / sweep->disorder.points;
  double height = (double)PLOT_HEIGHT / sweep->sync.points;
  double font = fmin(13.0, fmin(width / 4.2, height / 1.4));
  for (uint32_t s = 0; s < sweep->sync.points; s++)
    for (uint32_t d = 0; d < sweep->disorder.points; d++) {
      double ratio = ratio_of(df_sweep_cell(sweep, d, s));
      double x = LEFT + d * width, y = TOP + PLOT_HEIGHT - (s + 1) * height;
      int rgb[3] = {238, 238, 238}; /* none seen */
      if (ratio > 0.0) colour_at(place_in(range, ratio), rgb);
      fprintf(stream,
              "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"rgb(%d,%d,%d)\" "
              "stroke=\"white\" stroke-width=\"%s\"><title>disorder %.4g, synchronisation %.4g: "
              "%.4g%%</title></rect>\n",
              x, y, width, height, rgb[0], rgb[1], rgb[2], font >= 6.0 ? "1" : "0",
              df_sweep_value(&sweep->disorder, d), df_sweep_value(&sweep->sync, s), 100.0 * ratio);
      if (font < 6.0) continue;
      fprintf(stream,
              "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\" font-size=\"%.1f\" fill=\"%s\">",
              x + width / 2, y + height / 2 + font * 0.35, font,
              ratio > 0.0 && place_in(range, ratio) > 0.5 ? "white" : "#222");
      write_percent(stream, ratio);
      fputs("</text>\n", stream);
    }
}

static void write_map_labels(const df_sweep *sweep, FILE *stream) {
  double width = (double)PLOT_WIDTH / sweep->disorder.points;
  double height = (double)PLOT_HEIGHT / sweep->sync.points;
  for (uint32_t d = 0; d < sweep->disorder.points; d += label_step(sweep->disorder.points, 9))
    fprintf(stream, "<text x=\"%.2f\" y=\"%d\" text-anchor=\"middle\">%.3g</text>\n",
            LEFT + (d + 0.5) * width, TOP + PLOT_HEIGHT + 20, df_sweep_value(&sweep->disorder, d));
  for (uint32_t s = 0; s < sweep->sync.points; s += label_step(sweep->sync.points, 16))
    fprintf(stream, "<text x=\"%d\" y=\"%.2f\" text-anchor=\"end\">%.3g</text>\n", LEFT - 8,
            TOP + PLOT_HEIGHT - (s + 0.5) * height + 4, df_sweep_value(&sweep->sync, s));
}

static void write_legend(FILE *stream, scale range) {
  enum { STEPS = 64, X = LEFT + PLOT_WIDTH + 24, WIDTH = 18, HEIGHT = 300 };
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
    fprintf(stream, "<text x=\"%d\" y=\"%.2f\">%.4g%%</text>\n", X + WIDTH + 8,
            top + HEIGHT * (1.0 - place_in(range, ratio)) + 4, 100.0 * ratio);
  fprintf(stream,
          "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"14\" fill=\"#eee\" stroke=\"#bbb\"/>\n"
          "<text x=\"%d\" y=\"%d\">none seen</text>\n",
          X, top + HEIGHT + 22, WIDTH, X + WIDTH + 8, top + HEIGHT + 33);
}

/* A point of the curve: where it is on an axis of that length. */
static double along(const df_sweep_axis *axis, double value, double length) {
  if (axis->points == 1) return length / 2;
  if (axis->logarithmic) return length * log(value / axis->first) / log(axis->last / axis->first);
  return length * (value - axis->first) / (axis->last - axis->first);
}

/* The curve's vertical axis: from 0 to a round number above the highest interval. */
static double curve_top(const df_sweep *sweep, uint32_t points) {
  double highest = 0.0;
  for (uint32_t i = 0; i < points; i++)
    highest = fmax(highest, df_wilson95(sweep->cell[i].deadlocks, sweep->cell[i].rounds).high);
  double unit = pow(10.0, floor(log10(highest)));
  double steps[] = {1, 2, 5, 10};
  for (int i = 0; i < 4; i++)
    if (steps[i] * unit >= highest) return fmin(1.0, steps[i] * unit);
  return 1.0;
}

static void write_curve(const df_sweep *sweep, FILE *stream) {
  const df_sweep_axis *axis = sweep->disorder.points > 1 ? &sweep->disorder : &sweep->sync;
  uint32_t points = axis->points;
  double top = curve_top(sweep, points);
  for (int i = 0; i <= 5; i++) {
    double y = TOP + PLOT_HEIGHT * (1.0 - i / 5.0);
    fprintf(stream,
            "<line x1=\"%d\" y1=\"%.2f\" x2=\"%d\" y2=\"%.2f\" stroke=\"#ddd\"/>\n"
            "<text x=\"%d\" y=\"%.2f\" text-anchor=\"end\">%.3g%%</text>\n",
            LEFT, y, LEFT + PLOT_WIDTH, y, LEFT - 8, y + 4, 100.0 * top * i / 5.0);
  }
  fputs("<polyline fill=\"none\" stroke=\"#b4232d\" stroke-width=\"2\" points=\"", stream);
  for (uint32_t i = 0; i < points; i++)
    fprintf(stream, "%.2f,%.2f ", LEFT + along(axis, df_sweep_value(axis, i), PLOT_WIDTH),
            TOP + PLOT_HEIGHT * (1.0 - ratio_of(&sweep->cell[i]) / top));
  fputs("\"/>\n", stream);
  for (uint32_t i = 0; i < points; i++) {
    double x = LEFT + along(axis, df_sweep_value(axis, i), PLOT_WIDTH);
    df_interval ci = df_wilson95(sweep->cell[i].deadlocks, sweep->cell[i].rounds);
    fprintf(stream,
            "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\" stroke=\"#555\"/>\n"
            "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"4\" fill=\"#b4232d\"><title>%.4g: %.4g%%</title>"
            "</circle>\n",
            x, TOP + PLOT_HEIGHT * (1.0 - ci.high / top), x,
            TOP + PLOT_HEIGHT * (1.0 - ci.low / top), x,
            TOP + PLOT_HEIGHT * (1.0 - ratio_of(&sweep->cell[i]) / top), df_sweep_value(axis, i),
            100.0 * ratio_of(&sweep->cell[i]));
    if (i % label_step(points, 9) == 0)
      fprintf(stream, "<text x=\"%.2f\" y=\"%d\" text-anchor=\"middle\">%.3g</text>\n", x,
              TOP + PLOT_HEIGHT + 20, df_sweep_value(axis, i));
  }
  int legend = LEFT + PLOT_WIDTH + 22;
  fprintf(stream,
          "<circle cx=\"%d\" cy=\"%d\" r=\"4\" fill=\"#b4232d\"/><text x=\"%d\" y=\"%d\">deadlock "
          "ratio</text>\n<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#555\"/>"
          "<text x=\"%d\" y=\"%d\">95%% interval</text>\n",
          legend, TOP + 10, legend + 10, TOP + 14, legend, TOP + 26, legend, TOP + 42, legend + 10,
          TOP + 38);
  write_x_title(stream, axis == &sweep->disorder ? disorder_title : sync_title, axis->logarithmic);
  write_y_title(stream, "rounds that deadlock, in %", false);
}

void df_sweep_write_svg(const df_sweep *sweep, FILE *stream) {
  write_head(sweep, stream, "How often does the job deadlock?");
  if (sweep->disorder.points > 1 && sweep->sync.points > 1) {
    scale range = scale_of(sweep);
    write_cells(sweep, stream, range);
    write_map_labels(sweep, stream);
    write_x_title(stream, disorder_title, sweep->disorder.logarithmic);
    write_y_title(stream, sync_title, sweep->sync.logarithmic);
    write_legend(stream, range);
  } else {
    write_curve(sweep, stream);
  }
  fputs("</svg>\n", stream);
}
