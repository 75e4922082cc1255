/* A stand-in for libnccl.so.2 and librccl.so.1 without GPUs: gpufleet's own test double, compiled by the tests.

   Written from nccl.h (NVIDIA/nccl@021e804, src/nccl.h.in) and the user guide's rules for groups: ranks of one process
   are created and called between ncclGroupStart and ncclGroupEnd; ncclCommInitRank returns once all ranks have come;
   the id's process must be there. Processes meet over TCP on loopback at the id's maker, and really add their operands.
   It refuses ranks out of range, other types than float32 and other operations than sum, and a communicator that was
   never made. FAKE_NCCL_FLIP: one bit of this process's result is wrong. FAKE_NCCL_FAIL (function:code). */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { OK = 0, SYSTEM = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, FLOAT32 = 7, SUM = 0, SLOTS = 64 };
typedef struct { char internal[128]; } UniqueId;
typedef struct { int rank, size; } Comm;
typedef struct { const float *source; float *target; size_t count; } Call;

static int listener = -1, peers[SLOTS], peer_count, depth, is_root, is_connected;
static Comm *waiting[SLOTS];
static int waiting_count, call_count;
static Call calls[SLOTS];
static UniqueId meeting;

static int failure(const char *name) {
  const char *text = getenv("FAKE_NCCL_FAIL"), *colon = text ? strchr(text, ':') : NULL;
  if (!colon || strlen(name) != (size_t)(colon - text) || strncmp(text, name, colon - text)) return OK;
  return atoi(colon + 1);
}
#define BEGIN do { int code = failure(__func__); if (code) return code; } while (0)

static int move(int socket, void *data, size_t size, int is_write) {
  for (size_t done = 0; done < size;) {
    ssize_t part = is_write ? write(socket, (char *)data + done, size - done) : read(socket, (char *)data + done, size - done);
    if (part <= 0) return SYSTEM;
    done += part;
  }
  return OK;
}

int ncclGetVersion(int *version) { BEGIN; *version = 22707; return OK; }

int ncclGetUniqueId(UniqueId *id) {
  BEGIN;
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof place;
  listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (struct sockaddr *)&place, sizeof place) || listen(listener, SLOTS)) return SYSTEM;
  if (getsockname(listener, (struct sockaddr *)&place, &size)) return SYSTEM;
  memset(id, 0, sizeof *id);
  memcpy(id->internal, "FAKE", 4);
  memcpy(id->internal + 100, &place.sin_port, sizeof place.sin_port); /* zeros before it: the id is no text */
  is_root = 1;
  return OK;
}

static int meet(int ranks, int own) { /* all processes of a communicator at the maker of its id */
  if (is_root) {
    for (int come = own, theirs; come < ranks; come += theirs) {
      int socket = accept(listener, NULL, NULL);
      if (socket < 0 || move(socket, &theirs, sizeof theirs, 0)) return SYSTEM;
      if (come + theirs > ranks) return INVALID_USAGE;
      peers[peer_count++] = socket;
    }
  } else {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    memcpy(&place.sin_port, meeting.internal + 100, sizeof place.sin_port);
    peers[0] = socket(AF_INET, SOCK_STREAM, 0);
    peer_count = 1;
    if (connect(peers[0], (struct sockaddr *)&place, sizeof place)) return SYSTEM;
    if (move(peers[0], &own, sizeof own, 1)) return SYSTEM;
  }
  is_connected = 1;
  return OK;
}

static int reduce_group(void) {
  size_t count = calls[0].count, bytes = count * sizeof(float);
  float *sum = calloc(count, sizeof(float)), *other = malloc(bytes);
  for (int i = 0; i < call_count; i++) {
    if (calls[i].count != count) return INVALID_USAGE;
    for (size_t at = 0; at < count; at++) sum[at] += calls[i].source[at];
  }
  for (int i = 0; i < peer_count && is_root; i++) {
    if (move(peers[i], other, bytes, 0)) return SYSTEM;
    for (size_t at = 0; at < count; at++) sum[at] += other[at];
  }
  if (!is_root && move(peers[0], sum, bytes, 1)) return SYSTEM;
  for (int i = 0; i < peer_count && is_root; i++) if (move(peers[i], sum, bytes, 1)) return SYSTEM;
  if (!is_root && move(peers[0], sum, bytes, 0)) return SYSTEM;
  if (getenv("FAKE_NCCL_FLIP")) ((uint32_t *)sum)[count / 2] ^= 1u << 9;
  for (int i = 0; i < call_count; i++) memcpy(calls[i].target, sum, bytes);
  free(sum); free(other);
  call_count = 0;
  return OK;
}

static int finish(void) {
  int code = OK;
  if (waiting_count) code = meet(waiting[0]->size, waiting_count);
  waiting_count = 0;
  return code || !call_count ? code : reduce_group();
}

int ncclGroupStart(void) { BEGIN; depth++; return OK; }
int ncclGroupEnd(void) { BEGIN; return depth <= 0 ? INVALID_USAGE : --depth ? OK : finish(); }

int ncclCommInitRank(Comm **communicator, int ranks, UniqueId id, int rank) {
  BEGIN;
  if (rank < 0 || rank >= ranks || memcmp(id.internal, "FAKE", 4) || waiting_count == SLOTS) return INVALID_ARGUMENT;
  if (is_connected) return INVALID_USAGE;
  meeting = id;
  *communicator = malloc(sizeof(Comm));
  **communicator = (Comm){rank, ranks};
  waiting[waiting_count++] = *communicator;
  return depth ? OK : finish();
}

int ncclAllReduce(const void *source, void *target, size_t count, int type, int operation, Comm *communicator, void *stream) {
  BEGIN; (void)stream;
  if (!source || !target || !communicator || type != FLOAT32 || operation != SUM || call_count == SLOTS) return INVALID_ARGUMENT;
  if (!is_connected) return INVALID_USAGE;
  calls[call_count++] = (Call){source, target, count};
  return depth ? OK : finish();
}
