/*
 * Times posting and polling with many QPs on one CQ, each posting one write in
 * turn. Doorbells go to pages that nobody reads, and the completions are
 * written here, so the device takes no part.
 *
 *	bench DEVICE GID-INDEX QPS
 *
 * reads lines "lib|hand LAPS". A lap posts on each QP and polls all completions.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BATCH = 16, DEPTH = 16 };

struct one {
	struct ibv_qp *qp;
	struct hand_qp *hqp;
};

/*
 * named is what a completion names a QP by. libmlx5 numbers the QPs of a
 * process as it creates them, 4095 in each of its tables of 4096
 * (get_free_uidx; rdma-core v44.0, providers/mlx5/mlx5.c:203).
 */
struct named {
	uint32_t num, uidx;
};

static struct ibv_cq *cq;
static struct mlx5dv_cq dcq;
static struct hand_cq *hcq;
/* as they were created, and shuffled */
static struct one *turns[2];
static struct named *names[2];
static int qps;
static uint32_t lap, pi;

static void divert_page(void *reg)
{
	static uintptr_t pages[1024];
	static int n;
	uintptr_t page = (uintptr_t)reg & ~4095ul;
	for (int i = 0; i < n; i++)
		if (pages[i] == page)
			return;
	if (n == 1024)
		die("doorbell pages");
	pages[n++] = page;
	if (mmap((void *)page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != (void *)page)
		die("mmap");
}

static void open_all(bool hand, bool locked)
{
	cq = ibv_create_cq(dev.ctx, qps - 1, NULL, NULL, 0);
	struct mlx5dv_obj obj = {.cq = {.in = cq, .out = &dcq}};
	if (!cq || mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ))
		die("create cq");
	if (hand)
		hcq = hand_open_cq(&dcq, locked);
	struct mlx5dv_qp *dqps = calloc(qps, sizeof *dqps);
	for (int i = 0; i < 2; i++) {
		turns[i] = calloc(qps, sizeof *turns[i]);
		names[i] = calloc(qps, sizeof *names[i]);
	}
	for (int i = 0; i < qps; i++) {
		struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {DEPTH, DEPTH, 1, 1, 0}};
		struct one *o = &turns[0][i];
		o->qp = ibv_create_qp(dev.pd, &init);
		obj = (struct mlx5dv_obj){.qp = {.in = o->qp, .out = &dqps[i]}};
		if (!o->qp || mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP))
			die("create qp");
		names[0][i] = (struct named){o->qp->qp_num, i / 4095 * 4096 + i % 4095};
		connect_qp(o->qp, o->qp->qp_num);
		if (hand)
			o->hqp = hand_open_qp(hcq, o->qp->qp_num, &dqps[i], DEPTH, 0, locked);
	}
	for (int i = 0; i < qps; i++)
		divert_page(dqps[i].bf.reg);
	memcpy(turns[1], turns[0], qps * sizeof *turns[0]);
	memcpy(names[1], names[0], qps * sizeof *names[0]);
	uint64_t x = 1;
	for (int i = qps - 1; i > 0; i--) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		int k = (x >> 33) % (i + 1);
		struct one o = turns[1][i];
		turns[1][i] = turns[1][k];
		turns[1][k] = o;
		struct named m = names[1][i];
		names[1][i] = names[1][k];
		names[1][k] = m;
	}
}

/* complete writes a completion for each QP. */
static void complete(const struct named *turn)
{
	for (int i = 0; i < qps; i++, pi++) {
		uint8_t *end = (uint8_t *)dcq.buf + (size_t)(pi % dcq.cqe_cnt + 1) * dcq.cqe_size;
		*(uint32_t *)(end - 32) = htobe32(turn[i].uidx);
		*(volatile uint64_t *)(end - 8) =
			htobe64(0x08ull << 56 | (uint64_t)turn[i].num << 32 | (lap & 0xffff) << 16 | (pi / dcq.cqe_cnt & 1));
	}
	lap++;
}

static void post(struct one *turn, bool hand)
{
	struct ibv_send_wr *bad;
	for (int i = 0; i < qps; i++)
		if (hand ? hand_post_send(turn[i].hqp, h_writes, 1) != 1 : ibv_post_send(turn[i].qp, &one_write, &bad))
			die(hand ? "hand post" : "post");
}

static void poll_all(bool hand, int step)
{
	static struct ibv_wc wcs[BATCH];
	static struct hand_wc hand_wcs[BATCH];
	for (int i = 0; i < qps; i += step)
		if (hand ? hand_poll(hcq, hand_wcs, step) != step || hand_wcs[0].status :
			   ibv_poll_cq(cq, step, wcs) != step || wcs[0].status)
{ fprintf(stderr,"step %d at %d wc %lx st %d op %d\n", step, i, wcs[0].wr_id, wcs[0].status, wcs[0].opcode); die("poll"); }
}

static void run(bool hand, int laps)
{
	for (int order = 0; order < 2; order++) {
		double best[3] = {1e9, 1e9, 1e9};
		for (int i = 0; i < 2 * laps; i++) {
			double times[4] = {now()};
			post(turns[order], hand);
			times[1] = now();
			complete(names[order]);
			times[2] = now();
			poll_all(hand, i % 2 ? BATCH : 1);
			times[3] = now();
			double took[3] = {times[1] - times[0], i % 2 ? 1e9 : times[3] - times[2], i % 2 ? times[3] - times[2] : 1e9};
			for (int k = 0; k < 3; k++)
				if (took[k] < best[k])
					best[k] = took[k];
		}
		static const char *const ways[] = {"post1", "poll1", "poll16"};
		for (int k = 0; k < 3; k++)
			printf("%s%s %.3f\n", ways[k], order ? "_shuffled" : "", best[k] / qps);
	}
	printf("end\n");
	fflush(stdout);
}

void many(int n, bool locked)
{
	char line[64], who[8];
	int laps;
	qps = n;
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "%7s %d", who, &laps) != 2 || laps < 0)
			die(line);
		bool hand = !strcmp(who, "hand");
		if (!cq)
			open_all(hand, locked);
		run(hand, laps);
	}
}
