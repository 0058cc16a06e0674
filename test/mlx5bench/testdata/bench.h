/*
 * What libmlx5 and the rings written by hand have in common in the comparison.
 */
#pragma once
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum { PAYLOAD = 64, INLINE = 32 };

_Noreturn void die(const char *what);

/* hand.c: the algorithm of internal/mlx5, with the same checks and as much in a completion. */

struct hand_sge {
	uint64_t addr;
	uint32_t length, lkey;
};

struct hand_wr {
	uint64_t id;
	uint32_t opcode, flags;
	struct hand_sge *sges;
	int num_sge;
	const void *data; /* inline, instead of sges */
	uint32_t data_len;
	uint64_t remote;
	uint32_t rkey, imm;
};

struct hand_recv {
	uint64_t id;
	struct hand_sge *sges;
	int num_sge;
};

struct hand_wc {
	uint64_t id;
	uint32_t status, opcode, vendor_err, byte_len, imm, invalidated, qpn, src_qpn, flags;
	uint16_t pkey_index, slid;
	uint8_t sl, dlid_path_bits;
	uint64_t timestamp;
};

struct hand_qp;
struct hand_cq;

struct hand_cq *hand_open_cq(const struct mlx5dv_cq *v, bool locked);
struct hand_qp *hand_open_qp(struct hand_cq *cq, uint32_t num, const struct mlx5dv_qp *v, uint32_t max_wr, uint32_t max_inline, bool locked);
int hand_post_send(struct hand_qp *qp, const struct hand_wr *wrs, int n);
int hand_post_recv(struct hand_qp *qp, const struct hand_recv *wrs, int n);
int hand_poll(struct hand_cq *cq, struct hand_wc *wcs, int n);

/* bench.c */

struct device {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	union ibv_gid gid;
	int gid_index;
	struct ibv_port_attr port;
};

extern struct device dev;
extern struct ibv_send_wr one_write;
extern struct hand_wr h_writes[];

double now(void);
void connect_qp(struct ibv_qp *qp, uint32_t to);

/* many.c */

void many(int qps, bool locked);
