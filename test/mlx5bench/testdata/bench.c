/*
 * Times posting and polling on an mlx5 device: through libmlx5, and on its
 * rings written by hand (hand.c). Two QPs of one device are connected to each
 * other. Doorbells go to a page that nobody reads, so that the device does
 * nothing while posting is timed; then the doorbell is passed on, and polling
 * is timed when all completions are there.
 *
 *	bench DEVICE GID-INDEX [QPS]
 *
 * reads lines "lib|hand FILLS" and answers each with lines "NAME NS", the best
 * of so many fills of the ring, and "end". With QPS see many.c.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { FILL = 512, MAX_FILLS = 1024, BATCH = 16 };

_Noreturn void die(const char *what)
{
	fprintf(stderr, "bench: %s: %s\n", what, errno ? strerror(errno) : "wrong");
	exit(1);
}

double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

/* end is one QP with its CQ. */
struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct mlx5dv_cq dcq;
	struct mlx5dv_qp dqp;
	uint32_t polled;
	volatile uint8_t *bell; /* the page that the device reads */
	struct hand_cq *hcq;
	struct hand_qp *hqp;
};

struct device dev;

static void open_end(struct end *e)
{
	e->cq = ibv_create_cq(dev.ctx, FILL, NULL, NULL, 0);
	if (!e->cq)
		die("create cq");
	struct ibv_qp_init_attr init = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = FILL, .max_recv_wr = FILL, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = INLINE},
	};
	e->qp = ibv_create_qp(dev.pd, &init);
	if (!e->qp)
		die("create qp");
	struct mlx5dv_obj obj = {.cq = {.in = e->cq, .out = &e->dcq}, .qp = {.in = e->qp, .out = &e->dqp}};
	if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ | MLX5DV_OBJ_QP))
		die("mlx5dv_init_obj");
}

void connect_qp(struct ibv_qp *qp, uint32_t to)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	};
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("to INIT");
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = dev.port.active_mtu, .dest_qp_num = to, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .dlid = dev.port.lid, .port_num = 1, .grh = {.dgid = dev.gid, .sgid_index = dev.gid_index, .hop_limit = 64}},
	};
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		die("to RTR");
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		die("to RTS");
}

/* divert puts ordinary memory where the doorbell page was, and keeps the page elsewhere. */
static void divert(struct end *e)
{
	uint8_t *page = (uint8_t *)((uintptr_t)e->dqp.bf.reg & ~4095ul);
	e->bell = mremap(page, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	if (e->bell == MAP_FAILED)
		die("mremap");
	if (mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != page)
		die("mmap");
	memset(page, 0, 4096);
}

/* ring passes the doorbell on. */
static void ring(struct end *e)
{
	uint64_t *page = (uint64_t *)((uintptr_t)e->dqp.bf.reg & ~4095ul);
	for (int i = 0x800 / 8; i < 0x1000 / 8; i += 0x100 / 8)
		if (page[i]) {
			*(volatile uint64_t *)(e->bell + i * 8) = page[i];
			page[i] = 0;
		}
}

static volatile uint8_t *tail(struct end *e, uint32_t i)
{
	return (uint8_t *)e->dcq.buf + (size_t)(i % e->dcq.cqe_cnt + 1) * e->dcq.cqe_size - 1;
}

/* wait_for waits until the device has written n completions. */
static void wait_for(struct end *e, int n)
{
	uint32_t last = e->polled + n - 1;
	for (int i = 0; i < 500000; i++) {
		uint8_t own = *tail(e, last);
		if (own >> 4 != 15 && (own & 1) == (last / e->dcq.cqe_cnt & 1))
			return;
		usleep(20);
	}
	errno = ETIMEDOUT;
	die("no completions");
}

/* What the device touched is in another CPU's cache, of an emulated one. */
static void fetch_cqes(struct end *e, int n)
{
	for (int i = 0; i < n; i++)
		(void)*tail(e, e->polled + i);
}

static void own(void *p, size_t n)
{
	for (volatile uint8_t *b = p, *end = b + n; b < end; b += 64)
		*b = *b;
}

static void own_sq(struct end *e)
{
	own(e->dqp.sq.buf, (size_t)e->dqp.sq.wqe_cnt * e->dqp.sq.stride);
	own(e->dqp.dbrec, 8);
	own(e->dcq.dbrec, 8);
}

static void own_rq(struct end *e)
{
	own(e->dqp.rq.buf, (size_t)e->dqp.rq.wqe_cnt * e->dqp.rq.stride);
	own(e->dqp.dbrec, 8);
	own(e->dcq.dbrec, 8);
}

/* work requests, the same for each fill */
static struct ibv_sge write_sge, inline_sge, recv_sge;
struct ibv_send_wr one_write;
static struct ibv_send_wr writes[BATCH], inlines[BATCH], one_inline;
static struct ibv_recv_wr recvs[BATCH], one_recv;
static struct hand_sge h_write_sge, h_recv_sge;
struct hand_wr h_writes[BATCH];
static struct hand_wr h_inlines[BATCH];
static struct hand_recv h_recvs[BATCH];

static void prepare(void)
{
	uint64_t addr = (uintptr_t)dev.mr->addr;
	write_sge = (struct ibv_sge){addr, PAYLOAD, dev.mr->lkey};
	inline_sge = (struct ibv_sge){addr, INLINE, dev.mr->lkey};
	recv_sge = (struct ibv_sge){addr + 1024, PAYLOAD, dev.mr->lkey};
	h_write_sge = (struct hand_sge){addr, PAYLOAD, dev.mr->lkey};
	h_recv_sge = (struct hand_sge){addr + 1024, PAYLOAD, dev.mr->lkey};
	for (int i = 0; i < BATCH; i++) {
		writes[i] = (struct ibv_send_wr){.wr_id = i, .next = i + 1 < BATCH ? &writes[i + 1] : NULL, .sg_list = &write_sge, .num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {addr + 2048, dev.mr->rkey}};
		inlines[i] = (struct ibv_send_wr){.wr_id = i, .next = i + 1 < BATCH ? &inlines[i + 1] : NULL, .sg_list = &inline_sge, .num_sge = 1,
			.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE};
		recvs[i] = (struct ibv_recv_wr){.wr_id = i, .next = i + 1 < BATCH ? &recvs[i + 1] : NULL, .sg_list = &recv_sge, .num_sge = 1};
		h_writes[i] = (struct hand_wr){.id = i, .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .sges = &h_write_sge, .num_sge = 1,
			.remote = addr + 2048, .rkey = dev.mr->rkey};
		h_inlines[i] = (struct hand_wr){.id = i, .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .data = (void *)addr, .data_len = INLINE};
		h_recvs[i] = (struct hand_recv){.id = i, .sges = &h_recv_sge, .num_sge = 1};
	}
	one_write = writes[BATCH - 1];
	one_inline = inlines[BATCH - 1];
	one_recv = recvs[BATCH - 1];
}

/* samples of one kind, in ns for each work request or completion */
struct samples {
	const char *name;
	int n;
	double ns[MAX_FILLS];
};

enum { WRITE, INLINED, RECV, KINDS };

static struct samples posts[2][2][KINDS], polls[2][2][KINDS], empty[KINDS]; /* [cold][batched][kind] */

static void sample(struct samples *s, double start)
{
	double took = now() - start;
	if (s->n < MAX_FILLS)
		s->ns[s->n++] = took / (FILL - FILL / 4);
}

/*
 * The first quarter is not counted: after the sleep before it, caches are cold
 * and clocks are low. Each loop has what a user's loop has and nothing else.
 */
#define LOOP(from, to, step, call)                             \
	for (int i_ = (from); i_ < (to); i_ += (step))         \
		if (__builtin_expect(!(call), 0))              \
			die(#call)

#define TIMED(s, step, call)                                   \
	do {                                                   \
		LOOP(0, FILL / 4, step, call);                 \
		double start_ = now();                         \
		LOOP(FILL / 4, FILL, step, call);              \
		sample((s), start_);                           \
	} while (0)

static struct ibv_wc wcs[BATCH];
static struct hand_wc hand_wcs[BATCH];

static void post_write(struct end *a, bool hand, bool batched, struct samples *s)
{
	struct ibv_send_wr *bad;
	int step = batched ? BATCH : 1;
	if (hand)
		TIMED(s, step, hand_post_send(a->hqp, h_writes, step) == step);
	else
		TIMED(s, step, !ibv_post_send(a->qp, batched ? writes : &one_write, &bad));
}

static void post_inline(struct end *a, bool hand, bool batched, struct samples *s)
{
	struct ibv_send_wr *bad;
	int step = batched ? BATCH : 1;
	if (hand)
		TIMED(s, step, hand_post_send(a->hqp, h_inlines, step) == step);
	else
		TIMED(s, step, !ibv_post_send(a->qp, batched ? inlines : &one_inline, &bad));
}

static void post_recv(struct end *a, bool hand, bool batched, struct samples *s)
{
	struct ibv_recv_wr *bad;
	int step = batched ? BATCH : 1;
	if (hand)
		TIMED(s, step, hand_post_recv(a->hqp, h_recvs, step) == step);
	else
		TIMED(s, step, !ibv_post_recv(a->qp, batched ? recvs : &one_recv, &bad));
}

static void poll_all(struct end *a, bool hand, bool batched, struct samples *s)
{
	int step = batched ? BATCH : 1;
	if (hand)
		TIMED(s, step, hand_poll(a->hcq, hand_wcs, step) == step && !hand_wcs[0].status);
	else
		TIMED(s, step, ibv_poll_cq(a->cq, step, wcs) == step && !wcs[0].status);
	a->polled += FILL;
	for (int i = 0; i < step; i++)
		if (hand ? hand_wcs[i].status : wcs[i].status)
			die("a completion in error");
}

static void poll_empty(struct end *a, bool hand, struct samples *s)
{
	if (hand)
		TIMED(s, 1, hand_poll(a->hcq, hand_wcs, BATCH) == 0);
	else
		TIMED(s, 1, ibv_poll_cq(a->cq, BATCH, wcs) == 0);
}

static void fill_writes(struct end *a, bool hand, bool batched, bool cold)
{
	if (!cold)
		own_sq(a);
	post_write(a, hand, batched, &posts[cold][batched][WRITE]);
	ring(a);
	wait_for(a, FILL);
	if (!cold) {
		own_sq(a);
		fetch_cqes(a, FILL);
	}
	poll_all(a, hand, batched, &polls[cold][batched][WRITE]);
	poll_empty(a, hand, &empty[WRITE]);
}

static void fill_sends(struct end *a, struct end *b, bool hand, bool batched, bool cold)
{
	if (!cold)
		own_rq(b);
	post_recv(b, hand, batched, &posts[cold][batched][RECV]);
	if (!cold)
		own_sq(a);
	post_inline(a, hand, batched, &posts[cold][batched][INLINED]);
	ring(a);
	wait_for(a, FILL);
	wait_for(b, FILL);
	if (!cold) {
		own_sq(a);
		fetch_cqes(a, FILL);
	}
	poll_all(a, hand, batched, &polls[cold][batched][INLINED]);
	poll_empty(a, hand, &empty[INLINED]);
	if (!cold) {
		own_rq(b);
		fetch_cqes(b, FILL);
	}
	poll_all(b, hand, batched, &polls[cold][batched][RECV]);
	poll_empty(b, hand, &empty[RECV]);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void report(const char *name, const char *kind, const char *temp, struct samples *s)
{
	qsort(s->ns, s->n, sizeof s->ns[0], by_value);
	printf("%s%s%s %.3f\n", name, kind, temp, s->ns[0]);
	s->n = 0;
}

static void run(struct end *e, bool hand, int fills)
{
	static const char *const kinds[KINDS] = {"", "_inline32", "_recv"};
	for (int i = 0; i < fills; i++)
		for (int v = 0; v < 4; v++) {
			fill_writes(&e[0], hand, v & 1, v >> 1);
			fill_sends(&e[0], &e[1], hand, v & 1, v >> 1);
		}
	for (int v = 0; v < 4; v++)
		for (int k = 0; k < KINDS; k++) {
			report(v & 1 ? "post16" : "post1", kinds[k], v >> 1 ? "_cold" : "", &posts[v >> 1][v & 1][k]);
			report(v & 1 ? "poll16" : "poll1", kinds[k], v >> 1 ? "_cold" : "", &polls[v >> 1][v & 1][k]);
		}
	for (int k = 0; k < KINDS; k++)
		report("pollempty", kinds[k], "", &empty[k]);
	printf("end\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc != 3 && argc != 4)
		die("usage: bench DEVICE GID-INDEX [QPS]");
	bool locked = !getenv("MLX5_SINGLE_THREADED");
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	for (int i = 0; list && i < count && !dev.ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), argv[1]))
			dev.ctx = ibv_open_device(list[i]);
	if (!dev.ctx)
		die(argv[1]);
	dev.gid_index = atoi(argv[2]);
	if (ibv_query_port(dev.ctx, 1, &dev.port) || ibv_query_gid(dev.ctx, 1, dev.gid_index, &dev.gid))
		die("query port");
	dev.pd = ibv_alloc_pd(dev.ctx);
	void *mem = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	dev.mr = dev.pd ? ibv_reg_mr(dev.pd, mem, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) : NULL;
	if (!dev.mr)
		die("reg mr");
	prepare();
	if (argc == 4) {
		many(atoi(argv[3]), locked);
		return 0;
	}

	static struct end ends[4]; /* two of libmlx5, two by hand */
	for (int h = 0; h < 2; h++) {
		struct end *e = &ends[h * 2];
		for (int i = 0; i < 2; i++)
			open_end(&e[i]);
		for (int i = 0; i < 2; i++) {
			connect_qp(e[i].qp, e[!i].qp->qp_num);
			if (h) {
				e[i].hcq = hand_open_cq(&e[i].dcq, locked);
				e[i].hqp = hand_open_qp(e[i].hcq, e[i].qp->qp_num, &e[i].dqp, FILL, INLINE, locked);
			}
		}
	}
	/* QPs may share a page. */
	for (int i = 0; i < 4; i++) {
		struct end *e = &ends[i];
		for (int k = 0; k < i; k++)
			if (((uintptr_t)ends[k].dqp.bf.reg ^ (uintptr_t)e->dqp.bf.reg) < 4096)
				e->bell = ends[k].bell;
		if (!e->bell)
			divert(e);
	}

	char line[64], who[8];
	int fills;
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "%7s %d", who, &fills) != 2 || fills < 1 || fills > MAX_FILLS / 4)
			die(line);
		bool hand = !strcmp(who, "hand");
		run(&ends[hand * 2], hand, fills);
	}
	return 0;
}
