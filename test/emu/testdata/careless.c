// A program that forgets: to acknowledge an event, or to destroy what it made.
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MUST(x) do { if (!(x)) { perror(#x); return 1; } } while (0)

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	struct ibv_device **list = ibv_get_device_list(NULL);
	MUST(list && list[0]);
	struct ibv_context *ctx = ibv_open_device(list[0]);
	MUST(ctx);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	MUST(pd);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	MUST(channel);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, channel, 0);
	MUST(cq);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	MUST(qp);
	if (!strcmp(how, "leak"))
		return 0;
	if (!strcmp(how, "killed"))
		raise(SIGKILL);

	// In ERR, what is posted is flushed: a completion, and an event.
	struct ibv_qp_attr start = { .qp_state = IBV_QPS_INIT, .port_num = 1 }, attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_recv_wr wr = { 0 }, *bad;
	struct ibv_cq *of;
	void *context;
	MUST(!ibv_req_notify_cq(cq, 0));
	MUST(!ibv_modify_qp(qp, &start, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	MUST(!ibv_post_recv(qp, &wr, &bad));
	MUST(!ibv_get_cq_event(channel, &of, &context));
	if (strcmp(how, "unacked"))
		ibv_ack_cq_events(of, 1);
	else
		alarm(4); // destroying the CQ waits for ever
	MUST(!ibv_destroy_qp(qp));
	MUST(!ibv_destroy_cq(cq));
	MUST(!ibv_destroy_comp_channel(channel));
	MUST(!ibv_dealloc_pd(pd));
	MUST(!ibv_close_device(ctx));
	return 0;
}
