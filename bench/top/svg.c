/* A picture of the job: the ranks on a circle, an arrow from each waiting rank to each rank that it
 * waits for, and the verdict below. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/cli.h"
#include "top/top.h"

enum { MARGIN = 60, LEAST_RADIUS = 110, TEXT_COLUMNS = 76 };

static void put_escaped(FILE *to, const char *text, size_t length) {
  for (size_t i = 0; i < length; i++) {
    const unsigned char c = (unsigned char)text[i];
    if (c == '<' || c == '>' || c == '&' || c == '"')
      fprintf(to, "&#%d;", c);
    else
      fputc(c >= ' ' && c < 127 ? c : '?', to);
  }
}

static const char *colour_of(df_top_state state) {
  static const char *const colours[STATES] = {
      [STATE_UNKNOWN] = "#dddddd",  [STATE_RUNNING] = "#b7e1b0", [STATE_WAITING] = "#ffe08a",
      [STATE_CALLBACK] = "#ffe8c4", [STATE_IDLE] = "#e8eef5",    [STATE_BROKEN] = "#d9a0d9",
      [STATE_SILENT] = "#f2a097",   [STATE_CLOSED] = "#dddddd",  [STATE_GONE] = "#aaaaaa"};
  return colours[state];
}

typedef struct df_picture {
  double centre_x, centre_y, radius, node;
  uint32_t n;
} df_picture;

static df_picture lay_out(uint32_t n) {
  df_picture layout = {.n = n, .node = n > 64 ? 8 : 20};
  const double around = n * layout.node * 2.6 / (2 * 3.14159265);
  layout.radius = around > LEAST_RADIUS ? around : LEAST_RADIUS;
  layout.centre_x = layout.radius + MARGIN + 220;
  layout.centre_y = layout.radius + MARGIN + 20;
  return layout;
}

static void place(const df_picture *layout, uint32_t rank, double *x, double *y) {
  const double angle = 2 * 3.14159265 * rank / layout->n - 3.14159265 / 2;
  *x = layout->centre_x + layout->radius * cos(angle);
  *y = layout->centre_y + layout->radius * sin(angle);
}

static void draw_arrow(FILE *to, const df_picture *layout, uint32_t from, uint32_t towards) {
  double x0, y0, x1, y1;
  place(layout, from, &x0, &y0);
  place(layout, towards, &x1, &y1);
  const double dx = x1 - x0, dy = y1 - y0, length = sqrt(dx * dx + dy * dy);
  if (length < 1) return;
  const double gap = layout->node + 3, bend = length * 0.12;
  const double ux = dx / length, uy = dy / length;
  fprintf(to,
          "<path d=\"M%.1f %.1f Q%.1f %.1f %.1f %.1f\" fill=\"none\" stroke=\"#555\" "
          "stroke-width=\"1.4\" marker-end=\"url(#head)\"/>\n",
          x0 + ux * gap, y0 + uy * gap, (x0 + x1) / 2 - uy * bend, (y0 + y1) / 2 + ux * bend,
          x1 - ux * (gap + 4), y1 - uy * (gap + 4));
}

static void draw_rank(FILE *to, const df_top_view *view, const df_picture *layout, uint32_t rank) {
  const df_top_row *row = &view->rows[rank];
  double x, y;
  char label[DF_MAX_NAME + 64];
  place(layout, rank, &x, &y);
  fprintf(to,
          "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.0f\" fill=\"%s\" stroke=\"#333\"><title>rank %u: "
          "%s</title></circle>\n",
          x, y, layout->node, colour_of(row->state), rank, df_top_state_names[row->state]);
  if (layout->n > 64) return;
  fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%u</text>\n", x, y + 4, rank);
  if (row->state != STATE_WAITING && row->state != STATE_SILENT) return;
  const bool is_left = x < layout->centre_x - 1;
  snprintf(label, sizeof label, "%s", df_top_state_names[row->state]);
  if (row->coll) df_top_label(row->coll->id, row->coll->name, label, sizeof label);
  fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"11\">",
          x + (is_left ? -1 : 1) * (layout->node + 6), y + 4, is_left ? "end" : "start");
  put_escaped(to, label, strlen(label));
  fputs("</text>\n", to);
}

/* Broken at blanks into lines. Returns the number of lines. */
static int draw_sentence(FILE *to, const char *text, double top) {
  int lines = 0;
  while (*text) {
    size_t length = strlen(text);
    if (length > TEXT_COLUMNS) {
      length = TEXT_COLUMNS;
      while (length > 0 && text[length] != ' ') length--;
      if (length == 0) length = TEXT_COLUMNS;
    }
    if (to) {
      fprintf(to, "<text x=\"20\" y=\"%.1f\">", top + lines * 18);
      put_escaped(to, text, length);
      fputs("</text>\n", to);
    }
    lines++;
    text += length;
    while (*text == ' ') text++;
  }
  return lines;
}

static void draw(FILE *to, const df_top_view *view) {
  const df_top_session *session = view->session;
  const df_picture layout = lay_out(session->n_ranks);
  const double below = layout.centre_y + layout.radius + MARGIN;
  const double width = 2 * layout.centre_x,
               height = below + 18 * draw_sentence(NULL, view->verdict.sentence, 0) + 10;
  char title[128];
  fprintf(to,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
          "font-family=\"sans-serif\" font-size=\"13\">\n"
          "<defs><marker id=\"head\" markerWidth=\"8\" markerHeight=\"8\" refX=\"6\" refY=\"3\" "
          "orient=\"auto\"><path d=\"M0 0 L6 3 L0 6 z\" fill=\"#555\"/></marker></defs>\n"
          "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
          width, height);
  snprintf(title, sizeof title, "job %016" PRIx64 " %s, %u ranks", session->job, session->program,
           session->n_ranks);
  draw_sentence(to, title, 24);
  for (uint32_t r = 0; r < session->n_ranks; r++) {
    const df_top_row *row = &view->rows[r];
    for (uint32_t i = 0; row->state == STATE_WAITING && i < row->coll->n_awaited; i++)
      draw_arrow(to, &layout, r, row->coll->awaited[i]);
  }
  for (uint32_t r = 0; r < session->n_ranks; r++) draw_rank(to, view, &layout, r);
  draw_sentence(to, view->verdict.sentence, below);
  fputs("</svg>\n", to);
}

bool df_top_write_svg(const df_top_view *view, const char *path) {
  FILE *to = fopen(path, "w");
  if (to) draw(to, view);
  const bool failed = to == NULL || ferror(to);
  const int error = errno;
  if (to && fclose(to) == 0 && !failed) return true;
  df_tool_error("cannot write %s: %s", path, strerror(failed ? error : errno));
  return false;
}
