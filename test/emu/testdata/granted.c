// A program that looks at what it is granted: sizes, keys and refusals as mlx5_ib gives them. It prints what is not so.
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(x) do { if (!(x)) { perror(#x); exit(1); } } while (0)
#define WANT(x) do { if (!(x)) { printf("line %d: not so: %s (errno %d)\n", __LINE__, #x, errno); bad = 1; } } while (0)

static int bad;
static struct ibv_context *ctx;
static struct ibv_pd *pd;

static struct ibv_qp *connected(struct ibv_cq *cq, int sends, int recvs)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { sends, recvs, 3, 3 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	MUST(qp);
	struct ibv_qp_attr to_init = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };
	struct ibv_qp_attr to_rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num, .max_dest_rd_atomic = 1, .min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 3, .hop_limit = 1 } } };
	struct ibv_qp_attr to_rts = { .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	MUST(!ibv_query_gid(ctx, 1, 3, &to_rtr.ah_attr.grh.dgid));
	MUST(!ibv_modify_qp(qp, &to_init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	MUST(!ibv_modify_qp(qp, &to_rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	MUST(!ibv_modify_qp(qp, &to_rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
	return qp;
}

static struct ibv_wc polled(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;
	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	MUST(n == 1);
	return wc;
}

static void post_send(struct ibv_qp *qp, struct ibv_send_wr wr)
{
	struct ibv_send_wr *of;
	wr.send_flags |= IBV_SEND_SIGNALED;
	MUST(!ibv_post_send(qp, &wr, &of));
}

static struct ibv_send_wr nothing(uint64_t id) { return (struct ibv_send_wr){ .wr_id = id, .opcode = IBV_WR_RDMA_WRITE }; }

// Opened with DevX, the adapter carries out commands: nop, and query_issi, which it does not know.
static void opening(struct ibv_device *d)
{
	struct mlx5dv_context_attr attr = { .flags = MLX5DV_CONTEXT_FLAGS_DEVX };
	unsigned char in[16] = { 0x08, 0x0d }, out[16];
	MUST(ctx = mlx5dv_open_device(d, &attr));
	memset(out, 0xff, sizeof out);
	WANT(!mlx5dv_devx_general_cmd(ctx, in, sizeof in, out, sizeof out) && !out[0]);
	in[0] = 0x01, in[1] = 0x0a;
	WANT(mlx5dv_devx_general_cmd(ctx, in, sizeof in, out, sizeof out) == EREMOTEIO && out[0] == 2);
	MUST(!ibv_close_device(ctx));
	MUST(ctx = ibv_open_device(d));
	MUST(pd = ibv_alloc_pd(ctx));
}

static void refused(void)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 10, NULL, NULL, 0);
	MUST(cq);
	errno = 0;
	WANT(!ibv_create_cq(ctx, 0, NULL, NULL, 0) && errno == EINVAL);
	WANT(ibv_resize_cq(cq, 0) == EINVAL);
	struct ibv_srq *srq = ibv_create_srq(pd, &(struct ibv_srq_init_attr){ .attr = { .max_wr = 0, .max_sge = 1 } });
	WANT(srq && !ibv_destroy_srq(srq)); // the kernel makes room for one
	struct ibv_qp_init_attr raw = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RAW_PACKET, .cap = { 4, 4, 1, 1 } };
	errno = 0;
	struct ibv_qp *qp = ibv_create_qp(pd, &raw);
	WANT(qp || errno == EPERM);
	if (qp)
		MUST(!ibv_destroy_qp(qp));
	struct ibv_device_attr attr;
	MUST(!ibv_query_device(ctx, &attr));
	WANT(attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING);
	MUST(!ibv_destroy_cq(cq));
}

// What a query gives is what creation gave.
static void sizes(void)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 10, NULL, NULL, 0);
	MUST(cq);
	WANT(cq->cqe == 15);
	for (int srq = 0; srq < 2; srq++) {
		struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 10, 10, 3, 3, 20 } }, got;
		struct ibv_qp_attr attr;
		struct ibv_srq_init_attr si = { .attr = { .max_wr = 10, .max_sge = 2 } };
		if (srq)
			MUST(init.srq = ibv_create_srq(pd, &si));
		struct ibv_qp *qp = ibv_create_qp(pd, &init);
		MUST(qp);
		MUST(!ibv_query_qp(qp, &attr, IBV_QP_CAP, &got));
		struct ibv_qp_cap *a = &attr.cap, *i = &init.cap;
		WANT(srq ? a->max_recv_wr == 0 : a->max_recv_wr == 16);
		WANT(a->max_recv_wr == i->max_recv_wr && a->max_recv_sge == i->max_recv_sge && a->max_send_wr == i->max_send_wr);
		WANT(a->max_send_sge == i->max_send_sge && a->max_inline_data == i->max_inline_data);
		MUST(!ibv_destroy_qp(qp));
		if (srq) {
			struct ibv_srq_attr sa;
			MUST(!ibv_query_srq(init.srq, &sa));
			WANT(sa.max_wr >= si.attr.max_wr && sa.max_sge == si.attr.max_sge && sa.srq_limit == 0);
			MUST(!ibv_destroy_srq(init.srq));
		}
	}
	MUST(!ibv_destroy_cq(cq));
}

// A CQ that is made smaller than what is in it stays as it is.
static void resized(void)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 60, NULL, NULL, 0);
	MUST(cq);
	struct ibv_qp *qp = connected(cq, 60, 1);
	for (int i = 0; i < 20; i++)
		post_send(qp, nothing(i));
	WANT(polled(cq).wr_id == 0);
	struct ibv_wc wc;
	for (uint64_t next = 1; next < 20; next++) {
		// Wait for the last one, without polling: the others are in the CQ.
		if (next == 1) {
			struct ibv_cq *last = ibv_create_cq(ctx, 1, NULL, NULL, 0);
			MUST(last);
			struct ibv_qp *other = connected(last, 1, 1);
			post_send(other, nothing(0));
			polled(last);
			MUST(!ibv_destroy_qp(other) && !ibv_destroy_cq(last));
			WANT(ibv_resize_cq(cq, 7) == EINVAL);
			WANT(cq->cqe == 63);
			WANT(!ibv_resize_cq(cq, 31));
			WANT(cq->cqe == 31);
		}
		wc = polled(cq);
		WANT(wc.wr_id == next && !wc.status);
	}
	WANT(!ibv_poll_cq(cq, 1, &wc));
	MUST(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq));
}

// Keys: that of a null MR, and those of a region that changes.
static void keys(void)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 60, NULL, NULL, 0);
	MUST(cq);
	struct ibv_qp *qp = connected(cq, 10, 10);
	char *b = aligned_alloc(4096, 1 << 16), *second = aligned_alloc(4096, 1 << 16);
	MUST(b && second);
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_mr *null = ibv_alloc_null_mr(pd), *mr = ibv_reg_mr(pd, b, 1 << 16, all);
	MUST(null && mr);
	for (int n = 8; n <= 8000; n *= 1000) {
		// From nothing: zeros.
		memset(b, 'x', 1 << 16);
		memset(b + 20000, 'y', n);
		struct ibv_sge from[3] = { { 0, n, null->lkey }, { (uintptr_t)b + 20000, n, mr->lkey }, { 77, n, null->lkey } };
		post_send(qp, (struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE, .sg_list = from, .num_sge = 3, .wr.rdma = { (uintptr_t)b + 30000, mr->rkey } });
		WANT(!polled(cq).status);
		for (int i = 0; i < 3 * n; i++)
			if (b[30000 + i] != (i / n == 1 ? 'y' : 0)) {
				WANT(!"zeros around what was sent");
				break;
			}
		// Into nothing, in the middle.
		struct ibv_sge to[3] = { { (uintptr_t)b, n, mr->lkey }, { 0, n, null->lkey }, { (uintptr_t)b + n, n, mr->lkey } };
		struct ibv_sge what = { (uintptr_t)b + 30000, 3 * n, mr->lkey };
		struct ibv_recv_wr rwr = { .sg_list = to, .num_sge = 3 }, *of;
		MUST(!ibv_post_recv(qp, &rwr, &of));
		post_send(qp, (struct ibv_send_wr){ .opcode = IBV_WR_SEND, .sg_list = &what, .num_sge = 1 });
		for (int i = 0; i < 2; i++)
			WANT(!polled(cq).status);
		WANT(!b[0] && !b[n - 1] && !b[n] && !b[2 * n - 1] && b[2 * n] == 'x');
	}

	struct ibv_pd *other = ibv_alloc_pd(ctx);
	MUST(other);
	uint32_t key = mr->lkey;
	MUST(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, all | IBV_ACCESS_REMOTE_READ));
	WANT(mr->lkey == key && mr->rkey == key);
	MUST(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0));
	WANT(mr->lkey == key && ibv_dealloc_pd(other) == EBUSY);
	MUST(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_TRANSLATION, pd, second, 1 << 16, 0));
	WANT(mr->lkey == key);
	memset(second, 'z', 8);
	memset(second + 100, 0, 8);
	struct ibv_sge from = { (uintptr_t)second, 8, mr->lkey };
	post_send(qp, (struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE, .sg_list = &from, .num_sge = 1, .wr.rdma = { (uintptr_t)second + 100, mr->rkey } });
	WANT(!polled(cq).status && second[107] == 'z');
	MUST(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, all | IBV_ACCESS_MW_BIND));
	WANT(mr->lkey != key); // no UMR gives this right
	post_send(qp, (struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE, .sg_list = &from, .num_sge = 1, .wr.rdma = { (uintptr_t)second + 100, mr->rkey } });
	WANT(polled(cq).status == IBV_WC_LOC_PROT_ERR);
	MUST(!ibv_dereg_mr(mr) && !ibv_dereg_mr(null) && !ibv_dealloc_pd(other) && !ibv_destroy_qp(qp) && !ibv_destroy_cq(cq));
	free(b);
	free(second);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	MUST(list && list[0]);
	opening(list[0]);
	refused();
	sizes();
	resized();
	keys();
	MUST(!ibv_dealloc_pd(pd) && !ibv_close_device(ctx));
	if (!bad)
		puts("all as it should be");
	return bad;
}
