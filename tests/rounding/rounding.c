/* Adds up the terms of matrix products in an order drawn from a seed.
 *
 * NumPy's and SciPy's wheels come with OpenBLAS, which has a kernel for each family of processors. The kernels differ
 * in the order in which they add up the terms of a product, so their results differ in the last bits. This library is
 * loaded before OpenBLAS (LD_PRELOAD) and takes its calls. It copies the operands with their terms permuted and passes
 * the copies on. Any order is as right as any other, and a sum without rounding errors is the same in all of them.
 *
 * Permuted: products of matrices (gemm, syrk), of a matrix and a vector (gemv) and of vectors (dot) in single and
 * double precision, and the rows of systems of equations (gesv). Not permuted: factorisations by QR and Cholesky,
 * singular values and eigenvalues.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names that the wheels give to their own copies of OpenBLAS. */
#define OF_NUMPY "libscipy_openblas64_"
#define OF_SCIPY "libscipy_openblas-"

/* How many calls were permuted, for a caller who wants to know whether this library is in effect. */
static long of_numpy, of_scipy;
long rounding_calls_of_numpy(void) { return __atomic_load_n(&of_numpy, __ATOMIC_RELAXED); }
long rounding_calls_of_scipy(void) { return __atomic_load_n(&of_scipy, __ATOMIC_RELAXED); }

static void *allocated(size_t bytes) {
  void *found = malloc(bytes ? bytes : 1);
  if (!found) {
    fputs("rounding: out of memory\n", stderr);
    abort();
  }
  return found;
}

/* A permutation of 0..n-1 (Fisher-Yates with a xorshift generator). It depends on the seed and n alone, so that a
 * computation repeats to the last bit, as it does on a processor. */
static int64_t *order(int64_t n) {
  const char *seed = getenv("ROUNDING_SEED");
  uint64_t state = 0x9E3779B97F4A7C15ull * ((seed ? strtoull(seed, 0, 10) : 0) + 1);
  state ^= 0xBF58476D1CE4E5B9ull * (uint64_t)(n + 1);
  state |= 1; /* the generator would stay at 0 */
  int64_t *places = allocated((size_t)n * sizeof *places);
  for (int64_t i = 0; i < n; i++) places[i] = i;
  for (int64_t i = n - 1; i > 0; i--) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    int64_t j = (int64_t)(state % (uint64_t)(i + 1)), kept = places[i];
    places[i] = places[j];
    places[j] = kept;
  }
  return places;
}

static void copy(char *to, const char *from, size_t size) {
  if (size == 8)
    memcpy(to, from, 8);
  else
    memcpy(to, from, 4);
}

/* A copy of `count` lines of `length` numbers that begin `stride` apart, with the lines in order `p` or, if `within`,
 * the numbers of each line. */
static void *permuted(const void *from, size_t size, int64_t count, int64_t length, int64_t stride, int within,
                      const int64_t *p) {
  size_t line = (size_t)stride * size;
  char *to = allocated((size_t)count * line);
  for (int64_t i = 0; i < count; i++) {
    char *target = to + (size_t)i * line;
    if (!within) {
      memcpy(target, (const char *)from + (size_t)p[i] * line, (size_t)length * size);
      continue;
    }
    const char *source = (const char *)from + (size_t)i * line;
    for (int64_t j = 0; j < length; j++) copy(target + (size_t)j * size, source + (size_t)p[j] * size, size);
  }
  return to;
}

/* The operand of a product that is rows x k, or k x rows, permuted along k; `within` says whether the k numbers
 * lie side by side in memory. */
static void *operand(const void *from, size_t size, int64_t rows, int64_t k, int64_t stride, int within,
                     const int64_t *p) {
  return permuted(from, size, within ? rows : k, within ? k : rows, stride, within, p);
}

static void *vector(const void *from, size_t size, int64_t n, int64_t step, const int64_t *p) {
  char *to = allocated((size_t)n * size);
  for (int64_t i = 0; i < n; i++) copy(to + (size_t)i * size, (const char *)from + (size_t)(p[i] * step) * size, size);
  return to;
}

/* The function that a call was meant for. The wheels' copies are loaded privately: dlsym finds them by their file. */
struct sought {
  const char *part;
  char file[4096];
};
static int look(struct dl_phdr_info *loaded, size_t size, void *data) {
  struct sought *one = data;
  (void)size;
  if (!loaded->dlpi_name || !strstr(loaded->dlpi_name, one->part)) return 0;
  snprintf(one->file, sizeof one->file, "%s", loaded->dlpi_name);
  return 1;
}
static void *meant(const char *library, const char *name) {
  struct sought one = {library, ""};
  dl_iterate_phdr(look, &one);
  void *handle = *one.file ? dlopen(one.file, RTLD_NOLOAD | RTLD_LAZY) : 0;
  void *found = handle ? dlsym(handle, name) : 0;
  if (!found) {
    fprintf(stderr, "rounding: there is no %s in %s\n", name, library);
    abort();
  }
  return found;
}
#define MEANT(LIBRARY, NAME) \
  if (!f) f = meant(LIBRARY, #NAME)
#define COUNT(COUNTER) __atomic_add_fetch(&COUNTER, 1, __ATOMIC_RELAXED)

/* NumPy calls the C interface, with integers of 64 bits. */
enum { ROWS_FIRST = 101, AS_STORED = 111 };
/* Whether a matrix rows x k has its k numbers side by side. */
static int side_by_side(int layout, int trans) { return (layout == ROWS_FIRST) == (trans == AS_STORED); }

#define CBLAS_GEMM(NAME, T)                                                                                         \
  void NAME(int layout, int ta, int tb, int64_t m, int64_t n, int64_t k, T alpha, const T *a, int64_t lda,          \
            const T *b, int64_t ldb, T beta, T *c, int64_t ldc) {                                                   \
    static void (*f)(int, int, int, int64_t, int64_t, int64_t, T, const T *, int64_t, const T *, int64_t, T, T *,   \
                     int64_t);                                                                                      \
    MEANT(OF_NUMPY, NAME);                                                                                          \
    if (k < 3 || m < 1 || n < 1) {                                                                                  \
      f(layout, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                                              \
      return;                                                                                                       \
    }                                                                                                               \
    int64_t *p = order(k);                                                                                          \
    T *x = operand(a, sizeof(T), m, k, lda, side_by_side(layout, ta), p);                                           \
    T *y = operand(b, sizeof(T), n, k, ldb, !side_by_side(layout, tb), p);                                          \
    f(layout, ta, tb, m, n, k, alpha, x, lda, y, ldb, beta, c, ldc);                                                \
    COUNT(of_numpy);                                                                                                \
    free(x), free(y), free(p);                                                                                      \
  }
#define CBLAS_SYRK(NAME, T)                                                                                         \
  void NAME(int layout, int half, int trans, int64_t n, int64_t k, T alpha, const T *a, int64_t lda, T beta, T *c,  \
            int64_t ldc) {                                                                                          \
    static void (*f)(int, int, int, int64_t, int64_t, T, const T *, int64_t, T, T *, int64_t);                      \
    MEANT(OF_NUMPY, NAME);                                                                                          \
    if (k < 3 || n < 1) {                                                                                           \
      f(layout, half, trans, n, k, alpha, a, lda, beta, c, ldc);                                                    \
      return;                                                                                                       \
    }                                                                                                               \
    int64_t *p = order(k);                                                                                          \
    T *x = operand(a, sizeof(T), n, k, lda, side_by_side(layout, trans), p);                                        \
    f(layout, half, trans, n, k, alpha, x, lda, beta, c, ldc);                                                      \
    COUNT(of_numpy);                                                                                                \
    free(x), free(p);                                                                                               \
  }
#define CBLAS_GEMV(NAME, T)                                                                                         \
  void NAME(int layout, int trans, int64_t m, int64_t n, T alpha, const T *a, int64_t lda, const T *x, int64_t incx, \
            T beta, T *y, int64_t incy) {                                                                           \
    static void (*f)(int, int, int64_t, int64_t, T, const T *, int64_t, const T *, int64_t, T, T *, int64_t);       \
    MEANT(OF_NUMPY, NAME);                                                                                          \
    int64_t rows = trans == AS_STORED ? m : n, k = trans == AS_STORED ? n : m;                                      \
    if (k < 3 || rows < 1 || incx < 1) {                                                                            \
      f(layout, trans, m, n, alpha, a, lda, x, incx, beta, y, incy);                                                \
      return;                                                                                                       \
    }                                                                                                               \
    int64_t *p = order(k);                                                                                          \
    T *matrix = operand(a, sizeof(T), rows, k, lda, side_by_side(layout, trans), p);                                \
    T *z = vector(x, sizeof(T), k, incx, p);                                                                        \
    f(layout, trans, m, n, alpha, matrix, lda, z, 1, beta, y, incy);                                                \
    COUNT(of_numpy);                                                                                                \
    free(matrix), free(z), free(p);                                                                                 \
  }
#define CBLAS_DOT(NAME, T)                                                                                          \
  T NAME(int64_t n, const T *x, int64_t incx, const T *y, int64_t incy) {                                           \
    static T (*f)(int64_t, const T *, int64_t, const T *, int64_t);                                                 \
    MEANT(OF_NUMPY, NAME);                                                                                          \
    if (n < 3 || incx < 1 || incy < 1) return f(n, x, incx, y, incy);                                               \
    int64_t *p = order(n);                                                                                          \
    T *u = vector(x, sizeof(T), n, incx, p), *v = vector(y, sizeof(T), n, incy, p);                                 \
    T sum = f(n, u, 1, v, 1);                                                                                       \
    COUNT(of_numpy);                                                                                                \
    free(u), free(v), free(p);                                                                                      \
    return sum;                                                                                                     \
  }
CBLAS_GEMM(scipy_cblas_dgemm64_, double)
CBLAS_GEMM(scipy_cblas_sgemm64_, float)
CBLAS_SYRK(scipy_cblas_dsyrk64_, double)
CBLAS_SYRK(scipy_cblas_ssyrk64_, float)
CBLAS_GEMV(scipy_cblas_dgemv64_, double)
CBLAS_GEMV(scipy_cblas_sgemv64_, float)
CBLAS_DOT(scipy_cblas_ddot64_, double)
CBLAS_DOT(scipy_cblas_sdot64_, float)

/* The rows of a system, permuted in place on both sides, have the same solution and other pivots. */
static void permute_columns(double *matrix, int64_t columns, int64_t n, int64_t stride, const int64_t *p) {
  double *kept = allocated((size_t)n * sizeof *kept);
  for (int64_t j = 0; j < columns; j++) {
    double *column = matrix + j * stride;
    for (int64_t i = 0; i < n; i++) kept[i] = column[p[i]];
    memcpy(column, kept, (size_t)n * sizeof *kept);
  }
  free(kept);
}
void scipy_dgesv_64_(int64_t *n, int64_t *sides, double *a, int64_t *lda, int64_t *pivots, double *b, int64_t *ldb,
                     int64_t *info) {
  static void (*f)(int64_t *, int64_t *, double *, int64_t *, int64_t *, double *, int64_t *, int64_t *);
  MEANT(OF_NUMPY, scipy_dgesv_64_);
  if (*n > 1) {
    int64_t *p = order(*n);
    permute_columns(a, *n, *n, *lda, p);
    permute_columns(b, *sides, *n, *ldb, p);
    COUNT(of_numpy);
    free(p);
  }
  f(n, sides, a, lda, pivots, b, ldb, info);
}

/* SciPy calls the Fortran interface: everything by reference, columns first, integers of 32 bits. */
static int is_as_stored(const char *trans) { return *trans == 'N' || *trans == 'n'; }

#define FORTRAN_GEMM(NAME, T)                                                                                       \
  void NAME(char *ta, char *tb, int *m, int *n, int *k, T *alpha, T *a, int *lda, T *b, int *ldb, T *beta, T *c,    \
            int *ldc) {                                                                                             \
    static void (*f)(char *, char *, int *, int *, int *, T *, T *, int *, T *, int *, T *, T *, int *);            \
    MEANT(OF_SCIPY, NAME);                                                                                          \
    if (*k < 3 || *m < 1 || *n < 1) {                                                                               \
      f(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                                                      \
      return;                                                                                                       \
    }                                                                                                               \
    int64_t *p = order(*k);                                                                                         \
    T *x = operand(a, sizeof(T), *m, *k, *lda, !is_as_stored(ta), p);                                               \
    T *y = operand(b, sizeof(T), *n, *k, *ldb, is_as_stored(tb), p);                                                \
    f(ta, tb, m, n, k, alpha, x, lda, y, ldb, beta, c, ldc);                                                        \
    COUNT(of_scipy);                                                                                                \
    free(x), free(y), free(p);                                                                                      \
  }
#define FORTRAN_GEMV(NAME, T)                                                                                       \
  void NAME(char *trans, int *m, int *n, T *alpha, T *a, int *lda, T *x, int *incx, T *beta, T *y, int *incy) {     \
    static void (*f)(char *, int *, int *, T *, T *, int *, T *, int *, T *, T *, int *);                           \
    MEANT(OF_SCIPY, NAME);                                                                                          \
    int rows = is_as_stored(trans) ? *m : *n, k = is_as_stored(trans) ? *n : *m, one = 1;                           \
    if (k < 3 || rows < 1 || *incx < 1) {                                                                           \
      f(trans, m, n, alpha, a, lda, x, incx, beta, y, incy);                                                        \
      return;                                                                                                       \
    }                                                                                                               \
    int64_t *p = order(k);                                                                                          \
    T *matrix = operand(a, sizeof(T), rows, k, *lda, !is_as_stored(trans), p);                                      \
    T *z = vector(x, sizeof(T), k, *incx, p);                                                                       \
    f(trans, m, n, alpha, matrix, lda, z, &one, beta, y, incy);                                                     \
    COUNT(of_scipy);                                                                                                \
    free(matrix), free(z), free(p);                                                                                 \
  }
#define FORTRAN_DOT(NAME, T)                                                                                        \
  T NAME(int *n, T *x, int *incx, T *y, int *incy) {                                                                \
    static T (*f)(int *, T *, int *, T *, int *);                                                                   \
    MEANT(OF_SCIPY, NAME);                                                                                          \
    if (*n < 3 || *incx < 1 || *incy < 1) return f(n, x, incx, y, incy);                                            \
    int one = 1;                                                                                                    \
    int64_t *p = order(*n);                                                                                         \
    T *u = vector(x, sizeof(T), *n, *incx, p), *v = vector(y, sizeof(T), *n, *incy, p);                             \
    T sum = f(n, u, &one, v, &one);                                                                                 \
    COUNT(of_scipy);                                                                                                \
    free(u), free(v), free(p);                                                                                      \
    return sum;                                                                                                     \
  }
FORTRAN_GEMM(scipy_dgemm_, double)
FORTRAN_GEMM(scipy_sgemm_, float)
FORTRAN_GEMV(scipy_dgemv_, double)
FORTRAN_GEMV(scipy_sgemv_, float)
FORTRAN_DOT(scipy_ddot_, double)
FORTRAN_DOT(scipy_sdot_, float)
