// mpi_ring [ROUNDS]: passes a token around all ranks, then does a ping-pong of growing messages between ranks 0 and N
// - 1, then an all-to-all reduction. It compares every received byte. Rank 0 prints one line for each part that was
// correct.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kLargestBytes = 1 << 20, kTimesPerSize = 8, kWords = 4096 };

static int rank;

static void expect(int right, const char* what, long where) {
  if (right) return;
  fprintf(stderr, "rank %d: wrong data in the %s (%ld)\n", rank, what, where);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char pattern(long index, long seed) { return (unsigned char)(index * 31 + seed * 7 + (index >> 8)); }

static void ring(int ranks, int rounds) {
  const int next = (rank + 1) % ranks;
  const int previous = (rank + ranks - 1) % ranks;
  long token = 0;
  for (int round = 0; round < rounds; round++) {
    if (rank == 0) {
      token++;
      MPI_Send(&token, 1, MPI_LONG, next, round, MPI_COMM_WORLD);
      MPI_Recv(&token, 1, MPI_LONG, previous, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(&token, 1, MPI_LONG, previous, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      token++;
      MPI_Send(&token, 1, MPI_LONG, next, round, MPI_COMM_WORLD);
    }
    if (rank == 0) expect(token == (long)ranks * (round + 1), "ring", token);
  }
  if (rank == 0) printf("ring: %d ranks, %d rounds, token %ld\n", ranks, rounds, token);
}

static void ping_pong(int ranks) {
  unsigned char* const data = malloc(kLargestBytes);
  const int last = ranks - 1;
  int sizes = 0;
  for (int bytes = 1; bytes <= kLargestBytes; bytes *= 4, sizes++) {
    for (int i = 0; i < kTimesPerSize; i++) {
      if (rank == 0) {
        for (int k = 0; k < bytes; k++) data[k] = pattern(k, i);
        MPI_Send(data, bytes, MPI_BYTE, last, i, MPI_COMM_WORLD);
        MPI_Recv(data, bytes, MPI_BYTE, last, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int k = 0; k < bytes; k++) expect(data[k] == (unsigned char)~pattern(k, i), "pong", k);
      } else if (rank == last) {
        MPI_Recv(data, bytes, MPI_BYTE, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int k = 0; k < bytes; k++) {
          expect(data[k] == pattern(k, i), "ping", k);
          data[k] = (unsigned char)~data[k];
        }
        MPI_Send(data, bytes, MPI_BYTE, 0, i, MPI_COMM_WORLD);
      }
    }
  }
  if (rank == 0) printf("ping-pong: ranks 0 and %d, %d sizes up to %d bytes\n", last, sizes, kLargestBytes);
  free(data);
}

static void reduce(int ranks) {
  long* const mine = malloc(sizeof(long) * kWords);
  long* const sum = malloc(sizeof(long) * kWords);
  for (long i = 0; i < kWords; i++) mine[i] = i * (rank + 1);
  MPI_Allreduce(mine, sum, kWords, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  for (long i = 0; i < kWords; i++) expect(sum[i] == i * ranks * (ranks + 1) / 2, "reduction", i);
  if (rank == 0) printf("reduction: %d words over %d ranks\n", kWords, ranks);
  free(mine);
  free(sum);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  ring(ranks, argc > 1 ? atoi(argv[1]) : 100);
  ping_pong(ranks);
  reduce(ranks);
  if (rank == 0) printf("done\n");
  MPI_Finalize();
  return 0;
}
