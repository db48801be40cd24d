// exactly_once DEVICE GID_INDEX [options] [SERVER]: one RC connection on which both ends check every work request.
//
// Client and server make the same list of operations from a seed: sends and writes (with and without immediate data),
// reads and both atomics, of 0 to 20,000 bytes, many under way at once. The client checks the order of completions,
// the data from reads and atomics, and the effect of its writes (it reads them back). The server checks each receive,
// in order, and at the end the counter that the atomics changed. A request that is executed twice, never, in another
// order or in part is an error. The server ends only when the client reports by TCP that it is done. Exit code 0: no
// error.
//
// With -e FILE instead of -n the client makes operations until FILE exists. Its last message tells the server how many
// there were.
//
// -n operations, -d under way at once, -k their kinds (kLetters), -o at least one byte each, -l bytes of reads at
// most, -s seed, -p first PSN, -m MTU, -t timeout, -z microseconds until a receive is posted again. With -w the
// client makes one mistake instead, of key, bounds, length or access, and prints the completion's status.
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
  kSlotBytes = 32 << 10,
  kSlots = 64,  // twice the number under way, because a write that is read back needs two
  kReceives = 16,
  kImmediateSlots = 32,  // more than receives: a slot is written again only after its receive was consumed
  kLengthMax = 20000,
  kSourceBytes = 256 << 10,
  kReadsMax = 8,
  kPort = 18515,
  kLooksEvery = 16,  // the client looks for the file of -e before every 16th operation
};

static const uint32_t kEnd = 0x80000000;  // a bit of the immediate data of the client's last message with -e

enum Kind { kSend, kSendImmediate, kWriteImmediate, kWrite, kWriteAndRead, kRead, kFetchAndAdd, kCompareAndSwap };
static const char kLetters[] = "siwobrfc";  // of each kind; -k chooses some

// The server's memory as the client addresses it; the client's is as large.
struct Memory {
  uint8_t source[kSourceBytes];  // never written: reads return the values of byte_at()
  uint8_t immediate[kImmediateSlots][kSlotBytes];
  uint8_t written[kSlots][kSlotBytes];
  uint8_t slots[kSlots][kSlotBytes];  // local buffers of operations under way: receives, sends
  uint64_t counter;
};

struct End {
  uint32_t qpn, psn, rkey;
  uint64_t address;
  union ibv_gid gid;
};

struct Operation {
  enum Kind kind;
  uint32_t length, offset;
};

struct Pending {  // what a completion of the client must report
  struct Operation operation;
  uint32_t number, immediate;
  int read_back;
  uint64_t expected;
};

static const char *device_name, *server_name, *mistake, *end_file, *kinds = kLetters;
static int gid_index;
static uint32_t rounds = 500, depth = 16, timeout_code = 14, first_psn = 0xfffff0, read_max = kLengthMax, least, pause_us;
static uint64_t seed = 1;
static enum ibv_mtu mtu = IBV_MTU_1024;

static struct Memory* memory;
static struct ibv_pd* pd;
static struct ibv_mr* mr;
static struct ibv_cq* cq;
static struct ibv_qp* qp;
static struct End here, there;

static void need(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "exactly_once: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void wrong(const char* what, uint32_t number, uint64_t found, uint64_t expected) {
  fprintf(stderr, "exactly_once: WRONG: %s of operation %u: %llx, expected %llx\n", what, number, (unsigned long long)found,
          (unsigned long long)expected);
  exit(1);
}

static uint64_t random_of(uint64_t state) {  // splitmix64
  state += 0x9e3779b97f4a7c15;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
  state = (state ^ (state >> 27)) * 0x94d049bb133111eb;
  return state ^ (state >> 31);
}

static uint8_t byte_at(uint64_t stream, uint32_t offset) { return (uint8_t)(random_of(stream + offset / 8) >> (offset % 8 * 8)); }

static void fill(uint8_t* bytes, uint32_t length, uint64_t stream) {
  for (uint32_t at = 0; at < length; at++) bytes[at] = byte_at(stream, at);
}

static void compare(const char* what, uint32_t number, const uint8_t* bytes, uint32_t length, uint64_t stream, uint32_t from) {
  for (uint32_t at = 0; at < length; at++)
    if (bytes[at] != byte_at(stream, from + at)) wrong(what, number, bytes[at], byte_at(stream, from + at));
}

static uint64_t stream_of(uint32_t number) { return seed * 0x100000001 + ((uint64_t)number << 20); }

static struct Operation operation(uint32_t number) {
  static const uint32_t kLengths[] = {0, 1, 1023, 1024, 1025, 4096, 4097};
  const uint64_t random = random_of(stream_of(number));
  struct Operation made = {.kind = (enum Kind)(strchr(kLetters, kinds[random % strlen(kinds)]) - kLetters)};
  made.length = (random >> 8) % 2 ? kLengths[(random >> 16) % 7] : (random >> 16) % (kLengthMax + 1);
  if (made.length < least) made.length = least;
  made.offset = (random >> 40) % (kSourceBytes - kLengthMax);
  if ((made.kind == kRead || made.kind == kWriteAndRead) && made.length > read_max) made.length = read_max;
  return made;
}

static int takes_receive(enum Kind kind) { return kind <= kWriteImmediate; }

static int exchange(void) {
  int connection = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(kPort)};
  if (server_name != NULL) {
    need(inet_pton(AF_INET, server_name, &address.sin_addr) == 1, server_name);
    need(connect(connection, (struct sockaddr*)&address, sizeof address) == 0, "connect");
  } else {
    int listener = connection, yes = 1;
    need(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0, "SO_REUSEADDR");
    need(bind(listener, (struct sockaddr*)&address, sizeof address) == 0 && listen(listener, 1) == 0, "listen");
    connection = accept(listener, NULL, NULL);
    need(connection >= 0, "accept");
    close(listener);
  }
  need(write(connection, &here, sizeof here) == sizeof here, "write");
  need(recv(connection, &there, sizeof there, MSG_WAITALL) == sizeof there, "read");
  return connection;
}

static void meet(int connection) {
  char byte = 'x';
  need(write(connection, &byte, 1) == 1 && read(connection, &byte, 1) == 1, "the other end is gone");
}

static void open_device(void) {
  struct ibv_device** devices = ibv_get_device_list(NULL);
  while (*devices != NULL && strcmp(ibv_get_device_name(*devices), device_name) != 0) devices++;
  need(*devices != NULL, device_name);
  struct ibv_context* context = ibv_open_device(*devices);
  need(context != NULL, "ibv_open_device");
  need((pd = ibv_alloc_pd(context)) != NULL, "ibv_alloc_pd");
  need(posix_memalign((void**)&memory, 4096, sizeof *memory) == 0, "posix_memalign");
  memset(memory, 0, sizeof *memory);
  fill(memory->source, kSourceBytes, seed);
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  need((mr = ibv_reg_mr(pd, memory, sizeof *memory, access)) != NULL, "ibv_reg_mr");
  need((cq = ibv_create_cq(context, 2 * kSlots, NULL, NULL, 0)) != NULL, "ibv_create_cq");
  struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
                                  .cap = {.max_send_wr = kSlots, .max_recv_wr = kReceives, .max_send_sge = 1, .max_recv_sge = 1}};
  need((qp = ibv_create_qp(pd, &init)) != NULL, "ibv_create_qp");
  here = (struct End){.qpn = qp->qp_num, .psn = first_psn, .rkey = mr->rkey, .address = (uint64_t)memory};
  need(ibv_query_gid(context, 1, gid_index, &here.gid) == 0, "ibv_query_gid");
}

static void post_receive(uint64_t slot) {
  struct ibv_sge sge = {.addr = (uint64_t)memory->slots[slot], .length = kLengthMax, .lkey = mr->lkey};
  struct ibv_recv_wr work = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;
  need(ibv_post_recv(qp, &work, &bad) == 0, "ibv_post_recv");
}

static void initialise(void) {
  int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  if (mistake != NULL && strcmp(mistake, "access") == 0) access &= ~IBV_ACCESS_REMOTE_ATOMIC;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
  need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "INIT");
}

static void connect_qp(void) {
  struct ibv_qp_attr attr = {
      .qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = there.qpn, .rq_psn = there.psn, .max_dest_rd_atomic = kReadsMax,
      .min_rnr_timer = 12,
      .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = there.gid, .sgid_index = gid_index, .hop_limit = 64}}};
  need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0, "RTR");
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = here.psn, .timeout = timeout_code, .retry_cnt = 7, .rnr_retry = 7,
                              .max_rd_atomic = kReadsMax};
  need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                    IBV_QP_MAX_QP_RD_ATOMIC) == 0, "RTS");
}

static struct ibv_wc next_completion(void) {
  struct ibv_wc completion;
  int count;
  while ((count = ibv_poll_cq(cq, 1, &completion)) == 0) nanosleep(&(struct timespec){.tv_nsec = 100 * 1000}, NULL);
  need(count == 1, "ibv_poll_cq");
  return completion;
}

static uint64_t remote(const void* place) { return there.address + (uint64_t)((const uint8_t*)place - (const uint8_t*)memory); }

static void post(struct Pending* pending, uint64_t id, enum ibv_wr_opcode opcode, const void* target, uint64_t compare, uint64_t swap) {
  const int atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
  const uint32_t length = atomic ? 8 : pending->operation.length;
  struct ibv_sge sge = {.addr = (uint64_t)memory->slots[id % kSlots], .length = length, .lkey = mr->lkey};
  struct ibv_send_wr work = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .imm_data = htonl(pending->number)}, *bad;
  if (atomic) {
    work.wr.atomic.remote_addr = remote(target);
    work.wr.atomic.compare_add = compare;
    work.wr.atomic.swap = swap;
    work.wr.atomic.rkey = there.rkey;
  } else if (target != NULL) {
    work.wr.rdma.remote_addr = remote(target);
    work.wr.rdma.rkey = there.rkey;
  }
  need(ibv_post_send(qp, &work, &bad) == 0, "ibv_post_send");
}

static void check(const struct Pending* pending, uint64_t id, const struct ibv_wc* completion) {
  if (completion->wr_id != id) wrong("order of the completion", pending->number, completion->wr_id, id);
  if (completion->status != IBV_WC_SUCCESS) {
    fprintf(stderr, "exactly_once: operation %u: %s\n", pending->number, ibv_wc_status_str(completion->status));
    exit(1);
  }
  const uint8_t* bytes = memory->slots[id % kSlots];
  const struct Operation* done = &pending->operation;
  uint64_t value;
  memcpy(&value, bytes, sizeof value);
  if (pending->read_back) compare("what was written", pending->number, bytes, done->length, stream_of(pending->number), 0);
  if (done->kind == kRead) compare("what was read", pending->number, bytes, done->length, seed, done->offset);
  if (done->kind >= kFetchAndAdd && value != pending->expected) wrong("an atomic's result", pending->number, value, pending->expected);
}

// The counter after the operation. Atomics are executed in order.
static uint64_t counter_after(uint64_t counter, const struct Operation* next, uint32_t number) {
  if (next->kind == kFetchAndAdd) return counter + number + 1;
  return next->kind == kCompareAndSwap ? random_of(counter) : counter;
}

static void run_client(void) {
  static struct Pending pending[kSlots];
  uint64_t posted = 0, done = 0, counter = 0;
  uint32_t immediates = 0;
  for (uint32_t number = 0; number < rounds || done < posted;) {
    if (number == rounds || posted - done >= depth) {
      const struct ibv_wc completion = next_completion();
      check(&pending[done % kSlots], done, &completion);
      done++;
      continue;
    }
    if (end_file != NULL && number % kLooksEvery == 0 && access(end_file, F_OK) == 0) {
      rounds = number;
      continue;
    }
    struct Pending next = {.operation = operation(number), .number = number, .expected = counter};
    const struct Operation* made = &next.operation;
    uint8_t* local = memory->slots[posted % kSlots];
    if (made->kind <= kWriteAndRead) fill(local, made->length, stream_of(number));
    pending[posted % kSlots] = next;
    switch (made->kind) {
      case kSend: post(&next, posted, IBV_WR_SEND, NULL, 0, 0); break;
      case kSendImmediate: post(&next, posted, IBV_WR_SEND_WITH_IMM, NULL, 0, 0); break;
      case kWriteImmediate:
        post(&next, posted, IBV_WR_RDMA_WRITE_WITH_IMM, memory->immediate[immediates++ % kImmediateSlots], 0, 0);
        break;
      case kWrite: post(&next, posted, IBV_WR_RDMA_WRITE, memory->written[number % kSlots], 0, 0); break;
      case kWriteAndRead:
        post(&next, posted, IBV_WR_RDMA_WRITE, memory->written[number % kSlots], 0, 0);
        posted++;
        next.read_back = 1;
        pending[posted % kSlots] = next;
        post(&next, posted, IBV_WR_RDMA_READ, memory->written[number % kSlots], 0, 0);
        break;
      case kRead: post(&next, posted, IBV_WR_RDMA_READ, memory->source + made->offset, 0, 0); break;
      case kFetchAndAdd: post(&next, posted, IBV_WR_ATOMIC_FETCH_AND_ADD, &memory->counter, number + 1, 0); break;
      default: post(&next, posted, IBV_WR_ATOMIC_CMP_AND_SWP, &memory->counter, counter, random_of(counter)); break;
    }
    counter = counter_after(counter, made, number);
    posted++;
    number++;
  }
  if (end_file == NULL) return;
  struct Pending last = {.number = kEnd | rounds};
  post(&last, posted, IBV_WR_SEND_WITH_IMM, NULL, 0, 0);
  const struct ibv_wc completion = next_completion();
  check(&last, posted, &completion);
}

static void run_server(void) {
  uint32_t immediates = 0;
  uint64_t received = 0;
  for (uint32_t number = 0; number < rounds || end_file != NULL; number++) {
    const struct Operation expected = operation(number);
    if (!takes_receive(expected.kind)) continue;
    const struct ibv_wc completion = next_completion();
    need(completion.status == IBV_WC_SUCCESS, ibv_wc_status_str(completion.status));
    if (end_file != NULL && completion.wc_flags & IBV_WC_WITH_IMM && ntohl(completion.imm_data) & kEnd) {
      rounds = ntohl(completion.imm_data) & ~kEnd;
      if (rounds > number) wrong("the number of operations before a receive", number, rounds, number);
      return;
    }
    if (completion.wr_id != received % kReceives) wrong("order of the receive", number, completion.wr_id, received % kReceives);
    if (completion.byte_len != expected.length) wrong("length", number, completion.byte_len, expected.length);
    const uint8_t* bytes = memory->slots[completion.wr_id];
    if (expected.kind == kWriteImmediate) bytes = memory->immediate[immediates++ % kImmediateSlots];
    compare("what was received", number, bytes, expected.length, stream_of(number), 0);
    if (expected.kind != kSend && ntohl(completion.imm_data) != number) wrong("immediate data", number, ntohl(completion.imm_data), number);
    if (pause_us != 0) usleep(pause_us);
    post_receive(completion.wr_id);
    received++;
  }
}

static void make_mistake(void) {
  struct Pending next = {.operation = {.kind = kWriteAndRead, .length = 100}};
  if (strcmp(mistake, "key") == 0) there.rkey += 0x100;
  if (strcmp(mistake, "bounds") == 0) there.address += sizeof *memory - sizeof memory->source;
  if (strcmp(mistake, "length") == 0) {
    next.operation.length = kSlotBytes;
    post(&next, 0, IBV_WR_SEND, NULL, 0, 0);
  } else if (strcmp(mistake, "access") == 0) {
    post(&next, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, &memory->counter, 1, 0);
  } else {
    post(&next, 0, IBV_WR_RDMA_WRITE, memory->source + kSourceBytes - 50, 0, 0);
  }
  printf("%s: %s\n", mistake, ibv_wc_status_str(next_completion().status));
}

int main(int count, char** arguments) {
  int option;
  while ((option = getopt(count, arguments, "n:d:e:s:t:p:m:k:l:z:w:o")) != -1) switch (option) {
      case 'n': rounds = (uint32_t)atoi(optarg); break;
      case 'd': depth = (uint32_t)atoi(optarg); break;
      case 'e': end_file = optarg; break;
      case 's': seed = (uint64_t)atoll(optarg); break;
      case 't': timeout_code = (uint32_t)atoi(optarg); break;
      case 'p': first_psn = (uint32_t)strtoul(optarg, NULL, 0); break;
      case 'm': mtu = atoi(optarg) == 4096 ? IBV_MTU_4096 : IBV_MTU_1024; break;
      case 'k': kinds = optarg; break;
      case 'l': read_max = (uint32_t)atoi(optarg); break;
      case 'o': least = 1; break;
      case 'z': pause_us = (uint32_t)atoi(optarg); break;
      case 'w': mistake = optarg; break;
      default: return 2;
    }
  need(count - optind >= 2 && depth + 1 < kSlots && kinds[strspn(kinds, kLetters)] == 0, "DEVICE GID_INDEX [SERVER]");
  device_name = arguments[optind];
  gid_index = atoi(arguments[optind + 1]);
  server_name = arguments[optind + 2];
  if (end_file != NULL) {
    need(strpbrk(kinds, "siw") != NULL, "with -e, a kind that takes a receive");
    rounds = kEnd - 1;
  }

  open_device();
  initialise();
  if (server_name == NULL)
    for (uint64_t slot = 0; slot < kReceives; slot++) post_receive(slot);
  const int connection = exchange();
  connect_qp();
  meet(connection);
  if (mistake != NULL) {
    if (server_name != NULL) make_mistake();
    meet(connection);
    return 0;
  }
  (server_name != NULL ? run_client : run_server)();
  meet(connection);
  uint64_t counter = 0;
  for (uint32_t number = 0; number < rounds; number++) {
    const struct Operation made = operation(number);
    counter = counter_after(counter, &made, number);
  }
  if (server_name == NULL && memory->counter != counter) wrong("the counter after all", rounds, memory->counter, counter);
  printf("%u operations, each exactly once\n", rounds);
  return 0;
}
