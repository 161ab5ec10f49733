/* The live view on a terminal. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "common/cli.h"
#include "top/top.h"

enum { LINES_BESIDE_ROWS = 5, LEAST_ROWS = 1 };

/* ---- the terminal ---- */

static struct termios before;
static bool has_keys; /* standard input is a terminal */
static volatile sig_atomic_t is_taken, ending, stopping;

static void write_text(const char *text) {
  const ssize_t written = write(STDOUT_FILENO, text, strlen(text));
  (void)written;
}

/* Async-signal-safe. */
static void restore(void) {
  if (!is_taken) return;
  is_taken = 0;
  if (has_keys) tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
  write_text("\033[?25h\033[?1049l");
}

static void end_by_signal(int number) { ending = number; }
static void stop_by_signal(int number) { stopping = number; }

static void on_crash(int number) {
  restore();
  signal(number, SIG_DFL);
  raise(number);
}

static void handle(int number, void (*handler)(int)) {
  const struct sigaction action = {.sa_handler = handler};
  sigaction(number, &action, NULL);
}

static void handle_signals(void) {
  static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  static const int crashes[] = {SIGSEGV, SIGABRT, SIGBUS};
  for (size_t i = 0; i < DF_COUNT_OF(ends); i++) handle(ends[i], end_by_signal);
  for (size_t i = 0; i < DF_COUNT_OF(crashes); i++) handle(crashes[i], on_crash);
  handle(SIGTSTP, stop_by_signal);
}

static void take_screen(void) {
  has_keys = tcgetattr(STDIN_FILENO, &before) == 0;
  is_taken = 1;
  if (has_keys) {
    struct termios raw = before;
    raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
  }
  write_text("\033[?1049h\033[?25l");
}

/* The user has pressed Ctrl-Z. */
static void stop(void) {
  stopping = 0;
  restore();
  raise(SIGSTOP);
  take_screen();
}

static void measure_screen(df_top_table *table) {
  struct winsize size = {0};
  ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  table->columns = size.ws_col ? size.ws_col : 80;
  const uint32_t lines = size.ws_row ? size.ws_row : 24;
  table->n_rows = lines > LINES_BESIDE_ROWS + LEAST_ROWS ? lines - LINES_BESIDE_ROWS : LEAST_ROWS;
}

/* ---- keys ---- */

static void scroll(df_top_table *table, uint32_t n_ranks, int64_t rows) {
  const int64_t last = n_ranks > table->n_rows ? (int64_t)n_ranks - table->n_rows : 0;
  const int64_t to = (int64_t)table->first_row + rows;
  table->first_row = (uint32_t)DF_MAX(INT64_C(0), DF_MIN(to, last));
}

/* Returns false if the user wants to leave. */
static bool take_keys(df_top_table *table, uint32_t n_ranks) {
  char keys[64];
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  if (!has_keys || poll(&input, 1, 0) <= 0) return true;
  const ssize_t n = read(STDIN_FILENO, keys, sizeof keys - 1);
  if (n == 0) return false; /* the terminal is gone */
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  keys[n] = '\0';
  const int64_t page = table->n_rows;
  if (strchr(keys, 'q')) return false;
  if (strstr(keys, "\033[A") || strchr(keys, 'k')) scroll(table, n_ranks, -1);
  if (strstr(keys, "\033[B") || strchr(keys, 'j')) scroll(table, n_ranks, 1);
  if (strstr(keys, "\033[5~")) scroll(table, n_ranks, -page);
  if (strstr(keys, "\033[6~")) scroll(table, n_ranks, page);
  return true;
}

/* ---- the loop ---- */

/* Draws into memory first, so that the terminal gets the whole at once. */
static bool draw(const df_top_session *session, df_top_table *table) {
  df_top_view view;
  char *text = NULL;
  size_t bytes = 0;
  if (!df_top_view_make(&view, session)) return false;
  measure_screen(table);
  scroll(table, session->n_ranks, 0);
  FILE *to = open_memstream(&text, &bytes);
  if (to) {
    df_top_print(&view, table, to);
    fclose(to);
  }
  fputs("\033[H", stdout);
  for (const char *line = text; line && *line;) {
    const size_t length = strcspn(line, "\n");
    printf("%.*s\033[K\r\n", (int)length, line);
    line += length + (line[length] == '\n');
  }
  fputs("\033[J", stdout);
  free(text);
  df_top_view_free(&view);
  return fflush(stdout) == 0;
}

/* Receives until the next look is due, and handles keys meanwhile. */
static bool wait_for_look(df_top_session *session, df_top_table *table, uint64_t next) {
  while (!ending && df_clock_ns() < next) {
    const uint64_t begin = df_clock_ns(), until = DF_MIN(next, begin + UINT64_C(100000000));
    if (!df_top_receive(session, until, has_keys ? STDIN_FILENO : -1)) return false;
    if (stopping) stop();
    const uint32_t row = table->first_row;
    if (!take_keys(table, session->n_ranks)) ending = SIGINT;
    if (row != table->first_row && !draw(session, table)) return false;
    const uint64_t now = df_clock_ns();
    if (!has_keys && now < until) usleep((useconds_t)((until - now) / 1000));
  }
  return true;
}

static bool say_end(df_top_session *session) {
  snprintf(session->error, sizeof session->error, "job %016llx has ended",
           (unsigned long long)session->job);
  return false;
}

int df_top_screen(df_top_session *session) {
  df_top_table table = {0};
  bool fine = true;
  handle_signals();
  take_screen();
  atexit(restore);
  measure_screen(&table);
  while (fine && !ending) {
    const uint64_t begin = df_clock_ns();
    fine = df_top_ask(session);
    if (fine && session->has_ended) fine = say_end(session);
    if (!fine) break;
    fine = wait_for_look(session, &table, begin + df_top_interval_ms(session) * UINT64_C(1000000));
    df_top_choose_asked(session);
    fine = fine && (ending || draw(session, &table));
  }
  restore();
  return fine ? DF_TOOL_SUCCESS : DF_TOOL_FAILED;
}
